/* SPDX-License-Identifier: Apache-2.0
 *
 * script_outbox.c - lines on their way from the query's thread to standard output.
 *
 * The query never writes to standard output itself: a reader that stops reading would hold
 * it inside a write, where no signal reaches it. Instead it waits here, and only once a whole
 * megabyte lies unread, so that memory stays bounded; a stop lets it through. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "script/script_int.h"

#define UNREAD_BYTES (1 << 20)

struct mt_outbox {
    pthread_mutex_t mutex;
    pthread_cond_t taken;
    struct mt_buf lines;
    char waiting[256]; /* what the query waits for; "": it is at work */
    bool hurry, finished;
    int fd; /* eventfd */
};

struct mt_outbox *mt_outbox_new(void)
{
    struct mt_outbox *box = mt_alloc(sizeof *box);
    pthread_mutex_init(&box->mutex, NULL);
    pthread_cond_init(&box->taken, NULL);
    box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return box;
}

void mt_outbox_free(struct mt_outbox *box)
{
    close(box->fd);
    mt_buf_free(&box->lines);
    pthread_cond_destroy(&box->taken);
    pthread_mutex_destroy(&box->mutex);
    free(box);
}

int mt_outbox_fd(const struct mt_outbox *box)
{
    return box->fd;
}

static void changed(struct mt_outbox *box)
{
    eventfd_write(box->fd, 1);
    pthread_mutex_unlock(&box->mutex);
}

void mt_outbox_put(struct mt_outbox *box, const char *text)
{
    pthread_mutex_lock(&box->mutex);
    while (box->lines.len >= UNREAD_BYTES && !box->hurry)
        pthread_cond_wait(&box->taken, &box->mutex);
    mt_buf_adds(&box->lines, text);
    changed(box);
}

void mt_outbox_waits(struct mt_outbox *box, const char *what)
{
    pthread_mutex_lock(&box->mutex);
    if (strncmp(box->waiting, what, sizeof box->waiting - 1) == 0) {
        pthread_mutex_unlock(&box->mutex);
        return;
    }
    size_t len = strnlen(what, sizeof box->waiting - 1);
    memcpy(box->waiting, what, len);
    box->waiting[len] = '\0';
    changed(box);
}

void mt_outbox_finish(struct mt_outbox *box)
{
    pthread_mutex_lock(&box->mutex);
    box->finished = true;
    changed(box);
}

void mt_outbox_hurry(struct mt_outbox *box)
{
    pthread_mutex_lock(&box->mutex);
    box->hurry = true;
    pthread_cond_signal(&box->taken);
    pthread_mutex_unlock(&box->mutex);
}

bool mt_outbox_take(struct mt_outbox *box, struct mt_buf *lines, char waiting[256])
{
    eventfd_t count;
    pthread_mutex_lock(&box->mutex);
    eventfd_read(box->fd, &count);
    mt_buf_add(lines, box->lines.data, box->lines.len);
    box->lines.len = 0;
    memcpy(waiting, box->waiting, sizeof box->waiting);
    bool finished = box->finished;
    pthread_cond_signal(&box->taken);
    pthread_mutex_unlock(&box->mutex);
    return finished;
}

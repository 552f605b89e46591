/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_array.c - who owns an Arrow array, and how two may hold the same bytes.
 *
 * Arrow's release callback frees once, so by itself an array has one owner. Sharing
 * puts a count between: the buffers belong to a `body`, and each array that shows
 * them is a `view` with structs of its own, which may be moved, cut or released
 * without the others seeing it. Counting is per node, not per tree: a child of a
 * foreign array may be moved out of its parent, so on first sharing each node is
 * wrapped by itself and the children live on in the view. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

enum { MOST_BUFFERS = 3 };

struct body {
    _Atomic int64_t refs;
    const void *buffers[MOST_BUFFERS]; /* malloc'ed; unused when foreign is there */
    struct ArrowArray foreign;         /* another producer's node, its children moved out */
    struct body *base;                 /* whose buffers [1] and [2] are; else NULL */
};

static void unref(struct body *body)
{
    if (atomic_fetch_sub(&body->refs, 1) != 1)
        return;
    if (body->foreign.release)
        body->foreign.release(&body->foreign);
    else
        for (int i = 0; i < (body->base ? 1 : MOST_BUFFERS); i++)
            free((void *)body->buffers[i]);
    if (body->base)
        unref(body->base);
    free(body);
}

static void release_view(struct ArrowArray *view)
{
    for (int64_t i = 0; i < view->n_children; i++) {
        if (view->children[i]->release)
            view->children[i]->release(view->children[i]);
        free(view->children[i]);
    }
    free(view->children);
    unref(view->private_data);
    *view = (struct ArrowArray){0};
}

static struct ArrowArray **new_children(int64_t n)
{
    struct ArrowArray **children = mt_alloc((size_t)n * sizeof *children);
    for (int64_t i = 0; i < n; i++)
        children[i] = mt_alloc(sizeof **children);
    return children;
}

static void move(struct ArrowArray *from, struct ArrowArray *to)
{
    *to = *from;
    from->release = NULL;
}

void mt_array_make(int64_t length, int64_t null_count, void *const *buffers, int64_t n_buffers,
                   struct ArrowArray *children, int64_t n_children, struct ArrowArray *out)
{
    struct body *body = mt_alloc(sizeof *body);
    body->refs = 1;
    memcpy(body->buffers, buffers, (size_t)n_buffers * sizeof *buffers);
    *out = (struct ArrowArray){
        .length = length,
        .null_count = null_count,
        .n_buffers = n_buffers,
        .buffers = body->buffers,
        .n_children = n_children,
        .children = new_children(n_children),
        .release = release_view,
        .private_data = body,
    };
    for (int64_t i = 0; i < n_children; i++)
        move(&children[i], out->children[i]);
}

void mt_array_struct(struct ArrowArray *children, int64_t n, int64_t length, struct ArrowArray *out)
{
    void *no_validity = NULL;
    mt_array_make(length, 0, &no_validity, 1, children, n, out);
    memset(children, 0, (size_t)n * sizeof *children);
}

/* Turns a foreign node into a view of it, in place. */
static void wrap(struct ArrowArray *array)
{
    struct body *body = mt_alloc(sizeof *body);
    body->refs = 1;
    body->foreign = *array;
    array->children = new_children(array->n_children);
    for (int64_t i = 0; i < array->n_children; i++)
        move(body->foreign.children[i], array->children[i]);
    array->release = release_view;
    array->private_data = body;
}

void mt_array_share(struct ArrowArray *src, struct ArrowArray *out)
{
    if (!src->release) {
        *out = (struct ArrowArray){0};
        return;
    }
    if (src->release != release_view)
        wrap(src);
    struct body *body = src->private_data;
    atomic_fetch_add(&body->refs, 1);
    *out = *src;
    out->children = new_children(src->n_children);
    for (int64_t i = 0; i < src->n_children; i++)
        mt_array_share(src->children[i], out->children[i]);
}

void mt_array_hide(struct ArrowArray *view, uint8_t *bits, int64_t null_count)
{
    struct body *body = mt_alloc(sizeof *body);
    body->refs = 1;
    body->base = view->private_data; /* the view's reference goes over to the new body */
    memcpy(body->buffers, view->buffers, (size_t)view->n_buffers * sizeof *view->buffers);
    body->buffers[0] = bits;
    view->buffers = body->buffers;
    view->private_data = body;
    view->null_count = null_count;
}

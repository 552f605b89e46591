/* SPDX-License-Identifier: Apache-2.0
 *
 * store_check.c - LMDB's file read by our own eyes before LMDB trusts it.
 *
 * LMDB believes its file. An emptied data.mdb is a new database to it, so every batch
 * would be done again; in a truncated one a read is a SIGBUS; a flipped bit in a page
 * head sends it anywhere in memory. So opening a checkpoint first walks every page that
 * the snapshot reaches, by pread, and believes nothing: page numbers, node bounds, key
 * order, counts, the hash of every value, and that no page is used twice or is both
 * used and free (else a later write would overwrite a living page). Records are some hundred
 * and cost a few milliseconds. State is checked with them, value by value: 5 million keys (350 MB
 * in a file of 700) take half a second of computing, and the time that the disk needs to read
 * them once, which the first batches would need too. To leave the leaves of a large state out
 * would save that, and trust them to LMDB.
 *
 * Comparing the last page number with the file's size would not do: LMDB leaves out
 * pages at the end that were taken and freed within one transaction.
 *
 * The layout is that of LMDB's data version 1 (0.9.x) on a 64-bit little-endian machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_int.h"

_Static_assert(sizeof(size_t) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "store_check.c reads the 64-bit little-endian layout");

enum { PAGE_BRANCH = 1, PAGE_LEAF = 2, PAGE_OVERFLOW = 4, PAGE_META = 8 };
enum { NODE_BIG = 1, NODE_TREE = 2 };
enum { HEAD = 16, NODE_HEAD = 8, KEY_MOST = 511, DEPTH_MOST = 32 };
#define MAGIC UINT32_C(0xbeefc0de)
#define NO_PAGE UINT64_MAX
/* Pages at the end that LMDB may have left out; it dirties fewer than 2^17 a transaction. */
#define LEFT_OUT_MOST (UINT64_C(1) << 20)

struct page {
    uint64_t number;
    uint16_t pad, flags;
    union {
        struct {
            uint16_t lower, upper; /* of the gap between slots and nodes */
        };
        uint32_t pages; /* of an overflow run */
    };
    uint16_t slots[];
};

struct tree {
    uint32_t pad; /* of the free tree: the page size */
    uint16_t flags, depth;
    uint64_t branches, leaves, overflows, entries, root;
};

struct meta {
    uint64_t number;
    uint16_t pad, flags;
    uint32_t unused;
    uint32_t magic, version;
    uint64_t address, map_bytes;
    struct tree free, main;
    uint64_t last_page, txnid;
};
_Static_assert(sizeof(struct tree) == 48 && sizeof(struct meta) == 152, "LMDB's layout");

struct node {
    uint64_t child; /* in a branch */
    uint32_t size;  /* of the value, in a leaf */
    uint16_t flags, key_len;
    const uint8_t *key, *data; /* data: the value, or the number of its overflow page */
};

enum { TREE_MAIN = STORE_DATABASES, TREE_FREE };

struct walk {
    const char *dir;
    struct mt_error *err;
    int fd;
    uint64_t file_bytes, page_bytes, pages, txnid;
    uint8_t *seen; /* a bit a page */
    struct tree databases[STORE_DATABASES];
    bool has[STORE_DATABASES];
    /* the tree being walked */
    int kind; /* STORE_META..., TREE_MAIN, TREE_FREE */
    struct tree expected, found;
    uint8_t key[KEY_MOST]; /* last one seen */
    size_t key_len;
    bool started, at_least; /* at_least: key is a separator, which the next may equal */
};

enum mt_status mt_store_damaged(const char *dir, struct mt_error *err, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                   "checkpoint %s is damaged: %s. Nothing was changed. Put back a copy: "
                   "of the folder, or what `moontide ckpt backup` made as its data.mdb (one "
                   "that is too old is noticed by the destination's own record of batches); or "
                   "use a new checkpoint and a new path",
                   dir, what);
}

/* ---- the two meta pages */

static const char *meta_fault(const struct meta *meta, uint64_t number, uint64_t file_bytes)
{
    uint64_t page_bytes = meta->free.pad;
    if (meta->flags != PAGE_META || meta->magic != MAGIC || meta->number != number)
        return "is not a head page of LMDB";
    if (meta->version != 1)
        return "is of another version of LMDB";
    if (page_bytes < 512 || page_bytes > 32768 || (page_bytes & (page_bytes - 1)))
        return "has an impossible page size";
    if (meta->free.flags != MDB_INTEGERKEY || meta->main.flags != 0 || meta->address != 0)
        return "has flags that Moontide never sets";
    if (meta->map_bytes >> 46 || meta->last_page < 1 ||
        meta->last_page >= meta->map_bytes / page_bytes ||
        meta->last_page > file_bytes / page_bytes + LEFT_OUT_MOST)
        return "has an impossible size";
    return NULL;
}

static const char *pair_fault(const struct meta metas[2])
{
    if (metas[0].free.pad != metas[1].free.pad)
        return "the two head pages differ in page size";
    if (metas[0].txnid & 1 || !(metas[1].txnid & 1) ||
        (metas[0].txnid + 1 != metas[1].txnid && metas[1].txnid + 1 != metas[0].txnid))
        return "the two head pages are not of two transactions that follow one another";
    return NULL;
}

/* Reads both; what is wrong with them, or "". False: cannot be read at all (errno). */
static bool read_metas(int fd, struct meta metas[2], char *fault, size_t cap)
{
    struct stat st;
    memset(metas, 0, 2 * sizeof *metas);
    fault[0] = '\0';
    if (fstat(fd, &st) != 0)
        return false;
    for (uint64_t i = 0; i < 2 && !fault[0]; i++) {
        ssize_t got = pread(fd, &metas[i], sizeof metas[i], (off_t)(i * metas[0].free.pad));
        if (got < 0)
            return false;
        const char *words = got < (ssize_t)sizeof metas[i]
                                ? "is cut off"
                                : meta_fault(&metas[i], i, (uint64_t)st.st_size);
        if (words)
            snprintf(fault, cap, "page %d of data.mdb %s", (int)i, words);
    }
    if (!fault[0] && pair_fault(metas))
        snprintf(fault, cap, "%s", pair_fault(metas));
    return true;
}

/* An owner may write between our two reads, which looks like damage: that is believed
 * only when a second look sees the very same bytes. */
static enum mt_status settled_metas(const char *dir, int fd, struct meta metas[2],
                                    struct mt_error *err)
{
    struct meta before[2];
    char fault[160];
    int looks = 0;
    do {
        memcpy(before, metas, sizeof before);
        if (!read_metas(fd, metas, fault, sizeof fault))
            return mt_store_fail(dir, errno, "reading data.mdb", err);
        if (!fault[0])
            return MT_OK;
    } while (looks++ == 0 || memcmp(before, metas, sizeof before) != 0);
    return mt_store_damaged(dir, err, "%s", fault);
}

enum mt_status mt_store_check_head(const char *dir, struct mt_error *err)
{
    struct stat st;
    struct meta metas[2] = {0};
    char *path = mt_format("%s/data.mdb", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (fd < 0)
        return mt_store_fail(dir, errno, "opening data.mdb", err);
    enum mt_status status;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = mt_store_damaged(dir, err, "data.mdb is not a file");
    else if (st.st_size == 0)
        status = mt_store_damaged(dir, err, "data.mdb is empty");
    else
        status = settled_metas(dir, fd, metas, err);
    close(fd);
    return status;
}

/* ---- pages */

static bool bad(struct walk *walk, uint64_t page, const char *what)
{
    mt_store_damaged(walk->dir, walk->err, "page %llu of data.mdb %s", (unsigned long long)page,
                     what);
    return false;
}

/* Marks a run of pages as met; false when one is outside of the file or was met before. */
static bool claim(struct walk *walk, uint64_t page, uint64_t n)
{
    if (page < 2 || page >= walk->pages || n > walk->pages - page)
        return bad(walk, page, "is referred to and lies outside of the file");
    for (uint64_t i = page; i < page + n; i++) {
        if (walk->seen[i / 8] >> (i % 8) & 1)
            return bad(walk, i, "is used twice");
        walk->seen[i / 8] |= (uint8_t)(1u << (i % 8));
    }
    return true;
}

static bool read_bytes(struct walk *walk, uint64_t page, void *out, uint64_t len)
{
    ssize_t got = pread(walk->fd, out, len, (off_t)(page * walk->page_bytes));
    if (got < 0) {
        mt_store_fail(walk->dir, errno, "reading data.mdb", walk->err);
        return false;
    }
    return (uint64_t)got == len || bad(walk, page, "is cut off");
}

static struct node node_at(const struct page *page, unsigned slot)
{
    const uint8_t *p = (const uint8_t *)page + page->slots[slot];
    uint16_t head[4];
    memcpy(head, p, sizeof head);
    return (struct node){
        .child = head[0] | (uint64_t)head[1] << 16 | (uint64_t)head[2] << 32,
        .size = head[0] | (uint32_t)head[1] << 16,
        .flags = head[2],
        .key_len = head[3],
        .key = p + NODE_HEAD,
        .data = p + NODE_HEAD + head[3],
    };
}

static unsigned slots_of(const struct page *page)
{
    return (page->lower - HEAD) / 2u;
}

static uint64_t node_bytes(const struct node *node, bool leaf)
{
    uint64_t value = !leaf ? 0 : node->flags & NODE_BIG ? sizeof(uint64_t) : node->size;
    return (NODE_HEAD + node->key_len + value + 1) & ~UINT64_C(1);
}

/* Slots and nodes fill their parts of the page exactly. */
static bool layout_is_sound(const struct walk *walk, const struct page *page, bool leaf)
{
    uint64_t used = 0, end = walk->page_bytes;
    if (page->lower < HEAD || page->lower % 2 || page->lower > page->upper || page->upper > end)
        return false;
    for (unsigned i = 0; i < slots_of(page); i++) {
        uint64_t at = page->slots[i];
        if (at < page->upper || at % 2 || at + NODE_HEAD > end)
            return false;
        struct node node = node_at(page, i);
        used += node_bytes(&node, leaf);
        if (at + node_bytes(&node, leaf) > end)
            return false;
    }
    return used == end - page->upper;
}

static int compare_keys(const struct walk *walk, const uint8_t *key, size_t len)
{
    if (walk->kind == TREE_FREE) {
        uint64_t a, b;
        memcpy(&a, walk->key, sizeof a);
        memcpy(&b, key, sizeof b);
        return a < b ? -1 : a > b;
    }
    size_t both = len < walk->key_len ? len : walk->key_len;
    int order = memcmp(walk->key, key, both);
    return order ? order : (walk->key_len > len) - (walk->key_len < len);
}

/* Keys ascend through the whole tree, separators included. */
static bool follows(struct walk *walk, const struct node *node, bool separator)
{
    if (node->key_len < 1 || node->key_len > KEY_MOST ||
        (walk->kind == TREE_FREE && node->key_len != sizeof(uint64_t)))
        return false;
    int order = walk->started ? compare_keys(walk, node->key, node->key_len) : -1;
    if (order > 0 || (order == 0 && !walk->at_least))
        return false;
    memcpy(walk->key, node->key, node->key_len);
    walk->key_len = node->key_len;
    walk->at_least = separator;
    walk->started = true;
    return true;
}

/* A record of the free list: how many, then page numbers from high to low. */
static bool free_list_is_sound(struct walk *walk, const struct node *node, const uint8_t *value)
{
    uint64_t id, n, page, above = walk->pages;
    memcpy(&id, node->key, sizeof id);
    if (id > walk->txnid || node->size < sizeof n || node->size % sizeof n)
        return false;
    memcpy(&n, value, sizeof n);
    if (n > node->size / sizeof n - 1)
        return false;
    for (uint64_t i = 1; i <= n; i++, above = page) {
        memcpy(&page, value + i * sizeof page, sizeof page);
        if (page >= above || !claim(walk, page, 1))
            return false;
    }
    return true;
}

static bool database_is_sound(struct walk *walk, const struct node *node, const uint8_t *value)
{
    for (int i = 0; i < STORE_DATABASES; i++) {
        const char *name = mt_store_names[i];
        if (node->key_len != strlen(name) || memcmp(node->key, name, node->key_len) != 0)
            continue;
        memcpy(&walk->databases[i], value, sizeof walk->databases[i]);
        walk->has[i] = true;
        return walk->databases[i].pad == 0 && walk->databases[i].flags == 0;
    }
    return false;
}

static bool record_is_sound(const struct walk *walk, const struct node *node, const uint8_t *value)
{
    size_t rest;
    bool by_id = walk->kind >= STORE_PLANS && walk->kind <= STORE_COMMITS;
    if (by_id && (node->key_len != sizeof(int64_t) || node->key[0] & 0x80))
        return false;
    return mt_store_unwrap(mt_store_names[walk->kind], node->key, node->key_len, value, node->size,
                           &rest) != NULL;
}

static bool value_is_sound(struct walk *walk, const struct node *node, const uint8_t *value)
{
    if (walk->kind == TREE_FREE)
        return free_list_is_sound(walk, node, value);
    if (walk->kind == TREE_MAIN)
        return database_is_sound(walk, node, value);
    return record_is_sound(walk, node, value);
}

/* A value on pages of its own. */
static bool visit_overflow(struct walk *walk, const struct node *node)
{
    struct page head;
    uint64_t number;
    memcpy(&number, node->data, sizeof number);
    if (number >= walk->pages || number * walk->page_bytes + HEAD + node->size > walk->file_bytes)
        return bad(walk, number, "is referred to and lies outside of the file");
    if (!read_bytes(walk, number, &head, sizeof head))
        return false;
    uint64_t needed = (HEAD - 1 + (uint64_t)node->size) / walk->page_bytes + 1;
    if (head.number != number || head.flags != PAGE_OVERFLOW || head.pages < needed)
        return bad(walk, number, "is not the large value that it should be");
    if (!claim(walk, number, head.pages))
        return false;
    walk->found.overflows += head.pages;
    uint8_t *bytes = mt_alloc(HEAD + node->size);
    bool sound = read_bytes(walk, number, bytes, HEAD + node->size);
    if (sound && !value_is_sound(walk, node, bytes + HEAD))
        sound = bad(walk, number, "holds a damaged record");
    free(bytes);
    return sound;
}

static bool visit_leaf(struct walk *walk, const struct page *page)
{
    walk->found.leaves++;
    for (unsigned i = 0; i < slots_of(page); i++) {
        struct node node = node_at(page, i);
        uint16_t wanted = walk->kind == TREE_MAIN ? NODE_TREE : node.flags & NODE_BIG;
        if (node.flags != wanted || !follows(walk, &node, false) ||
            (walk->kind == TREE_MAIN && node.size != sizeof(struct tree)))
            return bad(walk, page->number, "holds a key that cannot be there");
        walk->found.entries++;
        if (node.flags & NODE_BIG) {
            if (!visit_overflow(walk, &node))
                return false;
        } else if (!value_is_sound(walk, &node, node.data)) {
            return bad(walk, page->number, "holds a damaged record");
        }
    }
    return true;
}

static bool visit(struct walk *walk, uint64_t number, unsigned level);

static bool visit_branch(struct walk *walk, const struct page *page, unsigned level)
{
    walk->found.branches++;
    for (unsigned i = 0; i < slots_of(page); i++) {
        struct node node = node_at(page, i);
        /* what lies left of the first child has no lower bound: its key is unused */
        if (i > 0 && !follows(walk, &node, true))
            return bad(walk, page->number, "holds a key that cannot be there");
        if (!visit(walk, node.child, level + 1))
            return false;
    }
    return true;
}

static bool visit(struct walk *walk, uint64_t number, unsigned level)
{
    bool leaf = level == walk->expected.depth;
    unsigned least = leaf || walk->kind == TREE_FREE ? 1 : 2; /* children or records */
    if (!claim(walk, number, 1))
        return false;
    struct page *page = mt_alloc(walk->page_bytes);
    bool sound = read_bytes(walk, number, page, walk->page_bytes);
    if (sound && (page->number != number || page->flags != (leaf ? PAGE_LEAF : PAGE_BRANCH) ||
                  !layout_is_sound(walk, page, leaf) || slots_of(page) < least))
        sound = bad(walk, number, "is not what its place says");
    if (sound)
        sound = leaf ? visit_leaf(walk, page) : visit_branch(walk, page, level);
    free(page);
    return sound;
}

static bool check_tree(struct walk *walk, int kind, const struct tree *tree)
{
    const char *name = kind == TREE_MAIN   ? "main"
                       : kind == TREE_FREE ? "free"
                                           : mt_store_names[kind];
    walk->kind = kind;
    walk->expected = *tree;
    walk->found = (struct tree){
        .pad = tree->pad, .flags = tree->flags, .depth = tree->depth, .root = tree->root};
    walk->started = walk->at_least = false;
    if (tree->root == NO_PAGE ? tree->depth != 0 : tree->depth < 1 || tree->depth > DEPTH_MOST)
        mt_store_damaged(walk->dir, walk->err, "tree \"%s\" has an impossible depth", name);
    else if (tree->root != NO_PAGE && !visit(walk, tree->root, 1))
        return false;
    else if (memcmp(&walk->found, tree, sizeof *tree) != 0)
        mt_store_damaged(walk->dir, walk->err, "tree \"%s\" does not hold what it counts", name);
    else
        return true;
    return false;
}

static bool check_trees(struct walk *walk, const struct meta *meta)
{
    if (!check_tree(walk, TREE_MAIN, &meta->main))
        return false;
    for (int i = 0; i < STORE_DATABASES; i++) {
        if (!walk->has[i] && i == STORE_STATE)
            continue; /* checkpoints had none at first */
        if (!walk->has[i]) {
            mt_store_damaged(walk->dir, walk->err, "its database \"%s\" is missing",
                             mt_store_names[i]);
            return false;
        }
        if (!check_tree(walk, i, &walk->databases[i]))
            return false;
    }
    return check_tree(walk, TREE_FREE, &meta->free); /* last: what it lists must be unused */
}

enum mt_status mt_store_check_pages(const char *dir, int fd, size_t txnid, bool *gone,
                                    struct mt_error *err)
{
    struct meta metas[2] = {0};
    struct stat st;
    *gone = false;
    enum mt_status status = settled_metas(dir, fd, metas, err);
    if (status != MT_OK)
        return status;
    const struct meta *meta = &metas[txnid & 1];
    if (meta->txnid != txnid) {
        *gone = true;
        return MT_OK;
    }
    if (fstat(fd, &st) != 0)
        return mt_store_fail(dir, errno, "reading data.mdb", err);
    struct walk walk = {
        .dir = dir,
        .err = err,
        .fd = fd,
        .file_bytes = (uint64_t)st.st_size,
        .page_bytes = meta->free.pad,
        .pages = meta->last_page + 1,
        .txnid = txnid,
        .seen = mt_alloc(meta->last_page / 8 + 1),
    };
    status = check_trees(&walk, meta) ? MT_OK : MT_FATAL;
    free(walk.seen);
    return status;
}

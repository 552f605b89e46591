/* SPDX-License-Identifier: Apache-2.0
 *
 * script_job.c - one query of a job file as the engine's struct mt_job.
 *
 * The file is loaded by Lua (moontide.job), which hands back a plan: addresses of the source
 * and the sink that the declaration made, and one function that runs all steps over a struct
 * mt_run. That function is the only thing called afterwards, once a batch.
 *
 * A retry begins with a fresh state, so that what a failed attempt left in Lua variables does
 * not reach the next one. It is loaded from the texts that the first state was loaded from, and
 * not from the disk: a batch changes its script by a reload, which asks the rules first. In the
 * same way a batch that a sink holds a part of is run by the script that made that part, from
 * the texts that lie in the checkpoint.
 *
 * The first state lives to the end all the same: schemas that sink and batches borrow are kept
 * alive by it. A later state is made by the same declaration, so it has a source and a sink of
 * its own, which are never opened and go when it goes. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "script/script_int.h"

#define RECENT_MS 2000 /* a file this young when it was loaded may have changed since unseen */

struct state {
    lua_State *L;
    struct mt_plan plan;
};

/* A file of the job, or a folder with such a file, as it was when it was last looked at. */
struct stamp {
    char *path;
    bool folder;
    struct timespec changed; /* 0: never looked at */
    off_t size;
    ino_t inode;
    int missed; /* looks in a row that did not find it */
};

struct mt_script_job {
    char *file;
    struct mt_pairs set;
    struct mt_watch *watch;
    struct state first, fresh; /* fresh.L: NULL until the first reset */
    int64_t rows;
    int64_t n_queries;
    char *identity, *queries, *changes;
    char *before, *before_queries; /* bundle and queries of the one that it goes on as, or NULL */
    struct stamp *stamps;
    size_t n_stamps;
    bool young; /* a file was new when it was loaded: its text is read once more to be sure */
    char *bundle, bundle_hash[65];
};

/* ---- loading; inside a protected call */

struct loading {
    struct mt_script_job *job;
    struct state *state;
    struct mt_watch *watch;
    int64_t place;      /* of the query, or 0: by the job's identity */
    const char *bundle; /* to load in place of the file, or NULL */
    bool first;         /* what there is before does count */
    enum mt_status status;
    struct mt_error *err;
};

static void set_text(lua_State *L, const char *key, const char *text)
{
    lua_pushstring(L, text); /* NULL: nil */
    lua_setfield(L, -2, key);
}

static void push_how(lua_State *L, const struct loading *loading)
{
    const struct mt_script_job *job = loading->job;
    const struct mt_pairs *set = &job->set;
    lua_newtable(L);
    lua_newtable(L);
    for (size_t i = 0; i < set->n; i++)
        set_text(L, set->items[i].key, set->items[i].value);
    lua_setfield(L, -2, "set");
    set_text(L, "bundle", loading->bundle);
    set_text(L, "queries", loading->first ? job->before_queries : NULL);
    set_text(L, "before", loading->first ? job->before : NULL);
}

static void add_stamp(struct mt_script_job *job, const char *path, size_t len, bool folder)
{
    job->stamps = mt_realloc(job->stamps, (job->n_stamps + 1) * sizeof *job->stamps);
    job->stamps[job->n_stamps++] = (struct stamp){.path = mt_strndup(path, len), .folder = folder};
}

/* files: a line each */
static void add_stamps(struct mt_script_job *job, const char *files)
{
    while (*files) {
        size_t len = strcspn(files, "\n"), folder = len;
        while (folder > 0 && files[folder - 1] != '/')
            folder--;
        add_stamp(job, files, len, false);
        add_stamp(job, folder ? files : ".", folder ? folder : 1, true);
        files += len + (files[len] == '\n');
    }
}

/* What the job consists of; of the first state alone. */
static void read_facts(lua_State *L, int table, struct mt_script_job *job)
{
    lua_getfield(L, table, "n");
    job->n_queries = (int64_t)luaL_checknumber(L, -1);
    lua_pop(L, 1);
    if (!job->identity)
        job->identity = mt_lua_text(L, table, "identity");
    job->queries = mt_lua_text(L, table, "queries");
    job->changes = mt_lua_text(L, table, "changes");
    lua_getfield(L, table, "files");
    add_stamps(job, luaL_checkstring(L, -1));
    lua_pop(L, 1);
    job->bundle = mt_lua_text(L, table, "bundle");
}

/* moontide.declare.job.load(file, which, how) -> plan, facts */
static int load(lua_State *L)
{
    struct loading *loading = lua_touserdata(L, 1);
    struct mt_script_job *job = loading->job;
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moontide.declare.job");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "load");
    lua_pushstring(L, job->file);
    if (loading->place)
        lua_pushnumber(L, (lua_Number)loading->place);
    else
        lua_pushstring(L, job->identity);
    push_how(L, loading);
    lua_call(L, 3, 2);
    int facts = lua_gettop(L);
    mt_plan_read(L, facts - 1, &loading->state->plan);
    if (loading->state == &job->first)
        read_facts(L, facts, job);
    return 0;
}

static int try_load(lua_State *L)
{
    struct loading *loading = lua_touserdata(L, 1);
    lua_pushcfunction(L, load);
    lua_pushvalue(L, 1);
    loading->status = mt_lua_call(L, 1, 0, MT_CLASS_JOB, loading->err);
    return 0;
}

/* ---- states */

static void close_state(struct state *state)
{
    if (!state->L)
        return;
    mt_plan_clear(&state->plan, state->L);
    lua_close(state->L);
    *state = (struct state){0};
}

/* Fills loading->state; closed again on failure. */
static enum mt_status open_state(struct loading *loading, struct mt_error *err)
{
    struct state *state = loading->state;
    state->L = mt_lua_new(err);
    if (!state->L)
        return MT_FATAL;
    loading->err = err;
    mt_watch_enter(loading->watch, NULL, NULL, mt_clock_mono_us() / 1000);
    enum mt_status status = mt_lua_enter(state->L, try_load, loading, err);
    mt_watch_leave(loading->watch);
    if (status == MT_OK && loading->status == MT_OK)
        return MT_OK;
    close_state(state);
    return MT_FATAL;
}

/* ---- struct mt_job */

static enum mt_status job_run(void *self, struct mt_run *run, struct mt_error *err)
{
    struct mt_script_job *job = self;
    struct state *state = job->fresh.L ? &job->fresh : &job->first;
    for (int64_t i = 0; i < run->n_inputs; i++)
        job->rows += run->inputs[i].array.length;
    lua_rawgeti(state->L, LUA_REGISTRYINDEX, state->plan.run);
    lua_pushnumber(state->L, (lua_Number)(uintptr_t)run);
    mt_watch_enter(job->watch, job->first.plan.name, run, mt_clock_mono_us() / 1000);
    enum mt_status status = mt_lua_call(state->L, 1, 0, MT_CLASS_SCRIPT, err);
    mt_watch_leave(job->watch);
    return status;
}

static enum mt_status open_fresh(struct mt_script_job *job, const char *bundle,
                                 struct mt_error *err)
{
    close_state(&job->fresh);
    struct loading loading = {
        .job = job, .state = &job->fresh, .watch = job->watch, .bundle = bundle};
    return open_state(&loading, err);
}

static enum mt_status job_reset(void *self, struct mt_error *err)
{
    struct mt_script_job *job = self;
    if (open_fresh(job, job->bundle, err) == MT_OK)
        return MT_OK;
    return mt_fail_within(err, MT_FATAL, "loading %s again to retry its batch: ", job->file);
}

static enum mt_status job_replay(void *self, const char *bundle, size_t len, struct mt_error *err)
{
    struct mt_script_job *job = self;
    char *text = mt_strndup(bundle, len);
    enum mt_status status = open_fresh(job, text, err);
    free(text);
    if (status == MT_OK)
        return MT_OK;
    return mt_fail_within(err, MT_FATAL, "loading the script that its batch was made by: ");
}

static enum mt_status job_secret(void *self, const char *name, char **value, struct mt_error *err)
{
    const struct mt_script_job *job = self;
    return mt_lua_secret(job->first.L, name, value, err);
}

/* ---- for the query's thread */

/* One look may come while an editor puts another file there. */
static void miss(struct stamp *stamp)
{
    if (++stamp->missed == 2 && !stamp->folder)
        mt_log(MT_WARN, "%s is gone; the script that runs goes on with the text that it had",
               stamp->path);
}

/* Whether a file is another than it was; remembers how it is. A file that is not there is not.
 * since_ms: a first look takes what is younger for another. */
static bool look_again(struct stamp *stamp, int64_t since_ms)
{
    struct stat now;
    if (stat(stamp->path, &now) != 0) {
        miss(stamp);
        return false;
    }
    stamp->missed = 0;
    bool first = stamp->changed.tv_sec == 0;
    bool other = first ? now.st_mtim.tv_sec * 1000LL > since_ms
                       : now.st_mtim.tv_sec != stamp->changed.tv_sec ||
                             now.st_mtim.tv_nsec != stamp->changed.tv_nsec ||
                             now.st_size != stamp->size || now.st_ino != stamp->inode;
    stamp->changed = now.st_mtim;
    stamp->size = now.st_size;
    stamp->inode = now.st_ino;
    return other;
}

static bool look_at_all(struct mt_script_job *job, bool folders, int64_t since_ms)
{
    bool other = false;
    for (size_t i = 0; i < job->n_stamps; i++)
        if (look_again(&job->stamps[i], since_ms) && (folders || !job->stamps[i].folder))
            other = true;
    return other;
}

/* moontide.declare.job.edited() */
static int edited(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moontide.declare.job");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "edited");
    lua_call(L, 0, 1);
    return 1;
}

/* Whether a file that was new when it was loaded was written after it had been read. */
static bool other_text(struct mt_script_job *job)
{
    lua_State *L = job->first.L;
    struct mt_error err = {0};
    lua_pushcfunction(L, edited);
    if (mt_lua_call(L, 0, 1, MT_CLASS_JOB, &err) != MT_OK)
        return true;
    bool other = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return other;
}

bool mt_script_job_changed(struct mt_script_job *job, bool folders)
{
    bool changed = look_at_all(job, folders, INT64_MAX) || (job->young && other_text(job));
    job->young = false;
    return changed;
}

/* The first state. */
static enum mt_status load_first(struct mt_script_job *job, struct mt_watch *watch, int64_t place,
                                 struct mt_error *err)
{
    int64_t now_ms = mt_clock_ms();
    struct loading loading = {
        .job = job, .state = &job->first, .watch = watch, .place = place, .first = true};
    enum mt_status status = open_state(&loading, err);
    if (status != MT_OK)
        return status;
    mt_sha256_hex(job->bundle, strlen(job->bundle), job->bundle_hash);
    job->young = look_at_all(job, false, now_ms - RECENT_MS);
    return MT_OK;
}

static struct mt_script_job *new_job(const char *file, const struct mt_pairs *set,
                                     struct mt_watch *watch)
{
    struct mt_script_job *job = mt_alloc(sizeof *job);
    job->file = mt_strdup(file);
    for (size_t i = 0; i < set->n; i++)
        mt_pairs_add(&job->set, set->items[i].key, set->items[i].value);
    job->watch = watch;
    return job;
}

enum mt_status mt_script_job_open(const char *file, int64_t place, const struct mt_pairs *set,
                                  struct mt_watch *watch, struct mt_script_job **out,
                                  struct mt_error *err)
{
    struct mt_script_job *job = new_job(file, set, watch);
    enum mt_status status = load_first(job, watch, place, err);
    if (status == MT_OK)
        *out = job;
    else
        mt_script_job_close(job);
    return status;
}

struct mt_script_job *mt_script_job_next(const struct mt_script_job *before)
{
    struct mt_script_job *job = new_job(before->file, &before->set, before->watch);
    job->identity = mt_strdup(before->identity);
    job->before = mt_strdup(before->bundle);
    job->before_queries = mt_strdup(before->queries);
    return job;
}

enum mt_status mt_script_job_load(struct mt_script_job *job, struct mt_watch *watch, bool *same,
                                  struct mt_error *err)
{
    enum mt_status status = load_first(job, watch, 0, err);
    *same = status == MT_OK && strcmp(job->bundle, job->before) == 0;
    return status;
}

void mt_script_job_close(struct mt_script_job *job)
{
    if (!job)
        return;
    close_state(&job->fresh);
    close_state(&job->first);
    for (size_t i = 0; i < job->n_stamps; i++)
        free(job->stamps[i].path);
    free(job->stamps);
    mt_pairs_free(&job->set);
    free(job->file), free(job->identity), free(job->queries), free(job->changes);
    free(job->before), free(job->before_queries), free(job->bundle);
    free(job);
}

void mt_script_job_settings(struct mt_script_job *job, struct mt_query_settings *settings)
{
    mt_plan_settings(&job->first.plan, settings);
    settings->job =
        (struct mt_job){.self = job, .run = job_run, .reset = job_reset, .replay = job_replay};
    settings->secrets = (struct mt_secrets){.self = job, .get = job_secret};
    settings->bundle_hash = job->bundle_hash;
    settings->bundle = job->bundle;
}

int64_t mt_script_job_rows(const struct mt_script_job *job)
{
    return job->rows;
}

int64_t mt_script_job_queries(const struct mt_script_job *job)
{
    return job->n_queries;
}

void mt_script_job_set_rows(struct mt_script_job *job, int64_t rows)
{
    job->rows = rows;
}

const char *mt_script_job_changes(const struct mt_script_job *job)
{
    return job->changes;
}

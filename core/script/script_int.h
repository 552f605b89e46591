/* SPDX-License-Identifier: Apache-2.0
 *
 * script_int.h - what the files of this room share: a Lua state, a loaded job, a
 * run of it, and the table of functions that the command line sees. */
#ifndef MT_SCRIPT_INT_H
#define MT_SCRIPT_INT_H

#include <lauxlib.h>
#include <lua.h>
#include <pthread.h>
#include <signal.h>

#include "engine/engine.h"

/* ---- script_host.c: Lua states */

/* A fresh state: the whole LuaJIT library, Moontide's own modules, no job; NULL: there is no memory
 * for it. Outside any call a later want of memory ends the process with MT_CLASS_MACHINE. */
lua_State *mt_lua_new(struct mt_error *err);
/* Runs fn, which finds `self` as its argument, so that also what it pushes may want memory. */
enum mt_status mt_lua_enter(lua_State *L, lua_CFunction fn, void *self,
                            struct mt_error *err) MT_NODISCARD;
/* From now on the state may hold so many bytes; more is an error of the script. mt_lua_new has
 * done this already, with most of the machine's memory. Once a state. */
void mt_lua_bound(lua_State *L, size_t most);
/* lua_pcall that puts the error value into err. An error without a class of its own gets
 * class_, and a traceback if it names no place in the job. Nothing is left on the stack on failure.
 */
enum mt_status mt_lua_call(lua_State *L, int n_args, int n_results, enum mt_class class_,
                           struct mt_error *err) MT_NODISCARD;

/* The value that moontide.config has for the name of a secret; the caller frees it. */
enum mt_status mt_lua_secret(lua_State *L, const char *name, char **value,
                             struct mt_error *err) MT_NODISCARD;

/* sources() -> table of the texts of Moontide's own Lua files by name ("moontide/init.lua"),
 * which is how debug.getinfo names them behind "@<moontide>/". */
int mt_lua_sources(lua_State *L);

/* ---- script_watch.c: who has been inside the script for too long. Its caller says when
 * the script is entered and left; another thread asks. */

struct mt_watch {
    pthread_mutex_t mutex;
    int64_t entered_ms;       /* by the monotonic clock; 0: outside */
    const char *query;        /* its name, or NULL */
    const struct mt_run *run; /* the batch, while inside; NULL: the job file is being loaded */
    bool told;
};

void mt_watch_init(struct mt_watch *watch);
void mt_watch_deinit(struct mt_watch *watch);
/* query: its name, or NULL. All is borrowed until mt_watch_leave. */
void mt_watch_enter(struct mt_watch *watch, const char *query, const struct mt_run *run,
                    int64_t now_ms);
void mt_watch_leave(struct mt_watch *watch);
/* True once for a stay of 10 seconds or more; text then says where it is stuck. */
bool mt_watch_ask(struct mt_watch *watch, int64_t now_ms, char *text, size_t cap);

/* ---- script_plan.c: one query as Lua declares it */

struct mt_plan {
    struct mt_source **sources; /* NULL once moved */
    int64_t n_sources;
    struct mt_sink *sink; /* NULL once moved */
    int run, keep;        /* in the registry: the plan's function, and the plan */
    struct mt_trigger trigger;
    int64_t max_steps;
    char *name, *checkpoint, *start_options, *time_zone, *shape; /* NULL: the job says nothing */
};

/* The text in a table's field, to be freed, or NULL. Raises. */
char *mt_lua_text(lua_State *L, int table, const char *key);
/* Reads the mt.Plan at index table into plan, which is zeroed. Raises; what was read stays to be
 * cleared. */
void mt_plan_read(lua_State *L, int table, struct mt_plan *plan);
/* Fills what the plan says. Strings stay the plan's; sources and sink move: the caller hands them
 * to mt_query_open, or drops them. checkpoint is NULL when the job names none. */
void mt_plan_settings(struct mt_plan *plan, struct mt_query_settings *settings);
/* Frees sources and sink that mt_query_open was not given. */
void mt_settings_drop(struct mt_query_settings *settings);
/* Before the Lua state goes. */
void mt_plan_clear(struct mt_plan *plan, lua_State *L);

/* A new folder below TMPDIR, where that is a whole path, else /tmp; or NULL. */
char *mt_temporary_folder(struct mt_error *err);
/* In a new folder, a place for a checkpoint that nobody asked for, or NULL. */
char *mt_temporary_checkpoint(struct mt_error *err);
/* Removes the folder, when its query is closed, and frees the path; NULL is fine. */
void mt_temporary_remove(char *checkpoint);

/* ---- script_job.c: one query of a job file, as the engine's struct mt_job */

struct mt_script_job;

/* Loads the query at a place (from 1) in file with the values of --set. The watch is borrowed
 * while the job lives. */
enum mt_status mt_script_job_open(const char *file, int64_t place, const struct mt_pairs *set,
                                  struct mt_watch *watch, struct mt_script_job **out,
                                  struct mt_error *err) MT_NODISCARD;
/* One that is to go on as `before`, which may go meanwhile: the same query, not loaded yet. */
struct mt_script_job *mt_script_job_next(const struct mt_script_job *before);
/* Loads it from the files as they are now; any thread. *same: they say what they said. A failure
 * may be that the file has other queries. */
enum mt_status mt_script_job_load(struct mt_script_job *job, struct mt_watch *watch, bool *same,
                                  struct mt_error *err) MT_NODISCARD;
/* Whether a file that it was loaded from was written since the last time this was asked; with
 * folders: or something in their folders was. */
bool mt_script_job_changed(struct mt_script_job *job, bool folders);
/* "job.lua, lib/x.lua (new)": of a job that was loaded again. */
const char *mt_script_job_changes(const struct mt_script_job *job);
/* After mt_query_close. NULL is fine. */
void mt_script_job_close(struct mt_script_job *job);
/* As mt_plan_settings, and the job itself. */
void mt_script_job_settings(struct mt_script_job *job, struct mt_query_settings *settings);
/* Source rows the script was given, replays included. */
int64_t mt_script_job_rows(const struct mt_script_job *job);
void mt_script_job_set_rows(struct mt_script_job *job, int64_t rows);
/* How many queries the file has. */
int64_t mt_script_job_queries(const struct mt_script_job *job);

/* ---- script_outbox.c: lines on their way to standard output */

struct mt_outbox;

struct mt_outbox *mt_outbox_new(void);
void mt_outbox_free(struct mt_outbox *box);
/* Readable when there is something to take; -1: no file handle was left for it. */
int mt_outbox_fd(const struct mt_outbox *box);
/* The query's thread: whole lines (waits while a megabyte is not taken, unless hurried);
 * what it waits for ("": it is at work); that nothing more will come. */
void mt_outbox_put(struct mt_outbox *box, const char *text);
void mt_outbox_waits(struct mt_outbox *box, const char *what);
void mt_outbox_finish(struct mt_outbox *box);
/* The main thread. take: moves all lines to the end of `lines`, copies what is waited for,
 * and says whether that was all. */
void mt_outbox_hurry(struct mt_outbox *box);
bool mt_outbox_take(struct mt_outbox *box, struct mt_buf *lines, char waiting[256]);

/* ---- script_cli.c */

/* Pushes nil, the words and the class, as functions of the command line's table fail;
 * returns 3. */
int mt_lua_failure(lua_State *L, const struct mt_error *err);

/* ---- script_rows.c: module moontide._rows, rows for functions that are not compiled */

int mt_lua_rows(lua_State *L);

/* ---- script_mock.c: mock(topic, partitions) -> object with brokers, produce, stop; or a
 * failure */

int mt_lua_mock(lua_State *L);

/* ---- script_interrupt.c: Ctrl-C and SIGTERM as errors of a script */

/* From now on they raise "interrupted" and "terminated" in this state. */
void mt_interrupt_catch(lua_State *L);
/* Readable once one came; -1: nobody catches it. */
int mt_interrupt_fd(void);
/* Not before allow, which raises it if it came meanwhile, or leaves that to the next one. */
void mt_interrupt_hold(void);
void mt_interrupt_allow(lua_State *L, bool now);
/* The error that would be raised, in place of raising it; NULL: none came. */
const char *mt_interrupt_take(void);

/* ---- script_prompt.c: functions of the command line's table */

int mt_lua_prompt(lua_State *L);
int mt_lua_history(lua_State *L);

/* ---- script_handle.c: what opens `require "moontide._query"` */

int mt_lua_query(lua_State *L);

#endif

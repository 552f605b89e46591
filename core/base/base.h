/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h - the words every room speaks: a status with its error, options as
 * data, growable bytes, the log, the clock, names of folders. Writes to standard error
 * alone; no word of Kafka, LMDB, Arrow or Lua.
 *
 * Headers of this project are also read by LuaJIT's ffi.cdef, after the
 * preprocessor ran with MT_CDEF defined: what C alone needs stands inside
 * #ifndef MT_CDEF. */
#ifndef MT_BASE_H
#define MT_BASE_H

#ifndef MT_CDEF
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#define MT_VERSION "0.1.0"
#define MT_NODISCARD __attribute__((warn_unused_result))
#define MT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#ifdef __cplusplus
extern "C" {
#endif
#else
#define MT_NODISCARD
#define MT_PRINTF(fmt, args)
#endif

/* What the caller may do next. */
enum mt_status {
    MT_OK = 0,
    MT_RETRY,  /* the same call may work later: broker away, not all here yet */
    MT_REJECT, /* these rows can never work: dead letter or stop, as the job says */
    MT_FATAL,  /* stop the query; the last commit stands */
};

/* Whose trouble it is; also the exit code of the process. */
enum mt_class {
    MT_CLASS_NONE = 0,
    MT_CLASS_INTERNAL = 1,   /* our own bug */
    MT_CLASS_USAGE = 2,      /* command line */
    MT_CLASS_JOB = 3,        /* the job file does not load or declares nonsense */
    MT_CLASS_SCRIPT = 4,     /* a function of the job failed on a row */
    MT_CLASS_DATA = 5,       /* a record the job refuses (FAILFAST, wrong value for a column) */
    MT_CLASS_SOURCE = 6,     /* broker, topic, authentication */
    MT_CLASS_DATA_LOSS = 7,  /* offsets that are gone, under failOnDataLoss */
    MT_CLASS_SINK = 8,       /* destination refused or cannot be reached */
    MT_CLASS_CHECKPOINT = 9, /* damaged, owned by another process, older than its sink */
    MT_CLASS_MACHINE = 10,   /* disk full, out of memory, no file handles */
};

/* The words of a failure. Owned by the caller, last argument, never NULL.
 * `option` names the option at fault, when one is (for the job's line). */
struct mt_error {
    enum mt_class class_;
    char option[64];
    char text[3000];
};

#ifndef MT_CDEF
/* Fills err and returns status, so that callers write `return mt_fail(...)`. */
enum mt_status mt_fail(struct mt_error *err, enum mt_status status, enum mt_class class_,
                       const char *fmt, ...) MT_PRINTF(4, 5);
/* Puts words in front of what err already says. Returns status. */
enum mt_status mt_fail_within(struct mt_error *err, enum mt_status status, const char *fmt, ...)
    MT_PRINTF(3, 4);
/* Copies at most 200 bytes of a record into out (cap >= 8) for an error text:
 * control bytes and invalid UTF-8 as \xNN, "..." at a cut. Returns out. */
const char *mt_quote(const void *bytes, size_t len, char *out, size_t cap);

/* ---- memory: running out ends the process with MT_CLASS_MACHINE and a line
 * on standard error; the next start recovers, as after any kill. */
void *mt_alloc(size_t size); /* zeroed */
void *mt_realloc(void *p, size_t size);
char *mt_strdup(const char *s);
char *mt_strndup(const char *s, size_t n);
char *mt_format(const char *fmt, ...) MT_PRINTF(1, 2); /* caller frees */

/* Growable bytes. {0} is a valid empty buffer; deinit with mt_buf_free. */
struct mt_buf {
    char *data; /* always NUL-terminated once anything was added */
    size_t len, cap;
};
void mt_buf_reserve(struct mt_buf *buf, size_t more);
void mt_buf_add(struct mt_buf *buf, const void *bytes, size_t len);
void mt_buf_adds(struct mt_buf *buf, const char *s);
void mt_buf_addf(struct mt_buf *buf, const char *fmt, ...) MT_PRINTF(2, 3);
/* Adds s as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void mt_buf_add_json(struct mt_buf *buf, const char *s, size_t len);
void mt_buf_free(struct mt_buf *buf);
#endif

/* True when the bytes are well-formed UTF-8 (no surrogates, no overlongs). */
_Bool mt_utf8_valid(const void *bytes, size_t len);

/* ---- options as data: parsing, help, docs and completion read these tables */
enum mt_opt_type {
    MT_OPT_STRING,   /* char *, owned by the instance */
    MT_OPT_INT,      /* int64_t */
    MT_OPT_BOOL,     /* bool */
    MT_OPT_BYTES,    /* int64_t; "64m", "1g", "1024" */
    MT_OPT_DURATION, /* int64_t milliseconds; "10 seconds", "500ms", "1 minute" */
    MT_OPT_MAP,      /* struct mt_pairs; the option's name ends with ".*" */
    MT_OPT_SECRET,   /* char *, as MT_OPT_STRING; given as a secret alone, and never shown */
};

struct mt_option {
    const char *name;
    enum mt_opt_type type;
    const char *preset; /* default as text; NULL: none (NULL, 0, false, empty) */
    size_t offset;      /* of the field in the instance struct */
    const char *values; /* "a|b|c" when only these are allowed (any case), else NULL */
    const char *help;   /* one line, for the reference */
};

/* An option that people will try and that is not taken. */
struct mt_refusal {
    const char *name;
    const char *why; /* a sentence without its point */
};

struct mt_pair {
    char *key, *value;
    /* NULL, or what a record holds in place of a value that is a secret or has one in it, as JSON:
     * {"secret":"NAME"}, or the value's parts: ["Uid=me;Pwd=",{"secret":"NAME"}] */
    char *secret;
};
/* Also the form in which options come from a job: in the order they were set. */
struct mt_pairs {
    struct mt_pair *items;
    size_t n;
};

#ifndef MT_CDEF
/* Sets every field named by table in *instance: presets first, then given.
 * Names match without case. Unknown name: error with a suggestion, err->option
 * set. On failure the instance is cleared. */
enum mt_status mt_options_apply(const struct mt_option *table, const char *owner,
                                const struct mt_pairs *given, void *instance,
                                struct mt_error *err) MT_NODISCARD;
void mt_options_clear(const struct mt_option *table, void *instance);
void mt_pairs_free(struct mt_pairs *pairs);
/* The last value set for key (any case), or NULL. */
const char *mt_pairs_get(const struct mt_pairs *pairs, const char *key);
enum mt_status mt_parse_duration(const char *text, int64_t *ms, struct mt_error *err) MT_NODISCARD;
enum mt_status mt_parse_bytes(const char *text, int64_t *bytes, struct mt_error *err) MT_NODISCARD;
/* The nearest of names (NULL-terminated) to word, or NULL when none is near. */
const char *mt_suggest(const char *word, const char *const *names);
#endif

void mt_pairs_add(struct mt_pairs *pairs, const char *key, const char *value);
/* The same of a value with a secret in it; NULL: it has none. */
void mt_pairs_add_secret(struct mt_pairs *pairs, const char *key, const char *value,
                         const char *secret);

/* From now on these bytes are shown as "***" by the log, and by whoever calls mt_mask. Of fewer
 * than 4 bytes nothing would be left to read: they are let be. Any thread. */
void mt_mask_add(const char *secret, size_t len);
/* Masks text (len bytes and a NUL) in place, where it never gets longer. Returns its length. */
size_t mt_mask(char *text, size_t len);

/* For memory that a caller of another language is given. */
void mt_free(void *p);

/* The absolute form of a local path ("out", "file:out", "file:///out"), links of its
 * existing part resolved, so that one folder has one name. UTF-8. Reads the disk only. The
 * caller frees *out with mt_free. */
enum mt_status mt_path_absolute(const char *path, char **out, struct mt_error *err) MT_NODISCARD;
/* The files below a folder, hidden ones too, sorted: JSON ["a", "sub/b"], names from the folder
 * on. Of a file: [""]. The caller frees *json with mt_free. */
enum mt_status mt_path_files(const char *path, char **json, struct mt_error *err) MT_NODISCARD;

/* ---- log: standard error, one line each, with the thread's query and batch */
enum mt_level { MT_DEBUG, MT_INFO, MT_WARN, MT_ERROR };
void mt_log_text(enum mt_level level, const char *text);
#ifndef MT_CDEF
void mt_log(enum mt_level level, const char *fmt, ...) MT_PRINTF(2, 3);
/* Query name and batch id that this thread's lines carry; NULL and -1 for none. */
void mt_log_context(const char *query, int64_t batch_id);
void mt_log_level(enum mt_level least);
/* A terminal's line, from the cursor on: goes. */
#define MT_ERASE "\033[K"
/* Whether lines begin with MT_ERASE, for they come out where a status line may stand. */
void mt_log_erases(bool on);
#endif

/* ---- clock: only main and the query's thread ask, and a job outside any batch; all else is given
 * `now` */
int64_t mt_clock_ms(void);      /* since 1970 UTC */
int64_t mt_clock_mono_us(void); /* monotonic, for durations */

#ifndef MT_CDEF
/* SHA-256 as 64 hex digits and NUL. */
void mt_sha256_hex(const void *bytes, size_t len, char out[65]);
/* A random (version 4) UUID, 36 characters and NUL. */
void mt_uuid(char out[37]);

#ifdef __cplusplus
}
#endif
#endif /* MT_CDEF */
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * files_types.c - the formats of files, one sink each over the same eight functions.
 *
 * Options have Spark's names and presets; those of Spark's that are not here are refused by
 * name. What Spark has in a positive sense and the encoder in a negative one
 * (ignoreNullFields, ...) is turned round in files_open. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/files/files_int.h"

#define AT(field) offsetof(struct files_sink, field)

/* clang-format off */
#define OPTIONS_OF_ALL \
    {"path", MT_OPT_STRING, NULL, AT(path_option), NULL, "folder of the table"}, \
    {"allowOtherQueries", MT_OPT_BOOL, "false", AT(allow_other_queries), NULL, \
     "write into a folder that holds data of something else"}, \
    {"maxRecordsPerFile", MT_OPT_INT, "0", AT(max_records), NULL, \
     "rows of a file at most; 0: all that a batch has for it"}, \
    {"targetFileSize", MT_OPT_BYTES, "0", AT(target_bytes), NULL, \
     "a batch begins another file when one has about this size; 0: it does not (no option of " \
     "Spark's)"}, \
    {"retention", MT_OPT_DURATION, NULL, AT(retention_ms), NULL, \
     "the log forgets files older than this when it is compacted: its readers see them no " \
     "more, and they stay where they are"}
#define OPTIONS_OF_TEXT \
    {"compression", MT_OPT_STRING, "none", AT(file.compression), \
     "none|uncompressed|gzip|zstd|bzip2|deflate", "codec of the files"}, \
    {"lineSep", MT_OPT_STRING, NULL, AT(file.line_sep), NULL, \
     "what ends a line (default: a line feed)"}
#define OPTIONS_OF_TIMES \
    {"dateFormat", MT_OPT_STRING, NULL, AT(file.date_format), NULL, \
     "pattern of a DATE (default: yyyy-MM-dd)"}, \
    {"timestampFormat", MT_OPT_STRING, NULL, AT(file.timestamp_format), NULL, \
     "pattern of a TIMESTAMP (default: yyyy-MM-dd'T'HH:mm:ss.SSSXXX, with six digits of a " \
     "second where three would lose some)"}
/* clang-format on */

static const struct mt_option parquet_options[] = {
    OPTIONS_OF_ALL,
    {"compression", MT_OPT_STRING, "snappy", AT(file.compression),
     "none|uncompressed|snappy|gzip|zstd|lz4", "codec of the columns"},
    {0},
};
static const struct mt_option orc_options[] = {
    OPTIONS_OF_ALL,
    {"compression", MT_OPT_STRING, "zstd", AT(file.compression),
     "none|uncompressed|snappy|zlib|zstd|lz4", "codec of the columns"},
    {0},
};
static const struct mt_option json_options[] = {
    OPTIONS_OF_ALL,
    OPTIONS_OF_TEXT,
    OPTIONS_OF_TIMES,
    {"ignoreNullFields", MT_OPT_BOOL, "true", AT(ignore_null_fields), NULL,
     "leave null fields out"},
    {0},
};
static const struct mt_option csv_options[] = {
    OPTIONS_OF_ALL,
    OPTIONS_OF_TEXT,
    OPTIONS_OF_TIMES,
    {"header", MT_OPT_BOOL, "false", AT(file.header), NULL, "begin files with the columns' names"},
    {"sep", MT_OPT_STRING, NULL, AT(file.sep), NULL, "stands between values (default: a comma)"},
    {"quote", MT_OPT_STRING, NULL, AT(file.quote), NULL,
     "stands around values that need it (default: \")"},
    {"escape", MT_OPT_STRING, NULL, AT(file.escape), NULL,
     "stands before a quote inside (default: a backslash)"},
    {"quoteAll", MT_OPT_BOOL, "false", AT(file.quote_all), NULL, "put quotes around all values"},
    {"escapeQuotes", MT_OPT_BOOL, "true", AT(escape_quotes), NULL,
     "put quotes around values that hold one"},
    {"nullValue", MT_OPT_STRING, NULL, AT(file.null_value), NULL,
     "stands for null (default: nothing)"},
    {"emptyValue", MT_OPT_STRING, NULL, AT(file.empty_value), NULL,
     "stands for the empty text (default: \"\")"},
    {"ignoreLeadingWhiteSpace", MT_OPT_BOOL, "true", AT(trim_before), NULL,
     "drop blanks before values"},
    {"ignoreTrailingWhiteSpace", MT_OPT_BOOL, "true", AT(trim_behind), NULL,
     "drop blanks behind values"},
    {0},
};
static const struct mt_option text_options[] = {OPTIONS_OF_ALL, OPTIONS_OF_TEXT, {0}};

static const char *const parquet_not_yet[] = {"partitionOverwriteMode",
                                              "mergeSchema",
                                              "datetimeRebaseMode",
                                              "int96RebaseMode",
                                              "parquet.block.size",
                                              "parquet.page.size",
                                              "parquet.dictionary.page.size",
                                              "parquet.enable.dictionary",
                                              "parquet.compression",
                                              "parquet.writer.version",
                                              NULL};
static const char *const orc_not_yet[] = {"partitionOverwriteMode", "mergeSchema", "orc.compress",
                                          "orc.stripe.size", NULL};
static const char *const json_not_yet[] = {"partitionOverwriteMode",
                                           "timeZone",
                                           "encoding",
                                           "charset",
                                           "timestampNTZFormat",
                                           "locale",
                                           "pretty",
                                           "writeNonAsciiCharacterAsCodePoint",
                                           NULL};
static const char *const csv_not_yet[] = {"partitionOverwriteMode",
                                          "timeZone",
                                          "encoding",
                                          "charset",
                                          "delimiter",
                                          "timestampNTZFormat",
                                          "charToEscapeQuoteEscaping",
                                          "comment",
                                          "locale",
                                          NULL};
static const char *const text_not_yet[] = {"partitionOverwriteMode", "encoding", NULL};

/* ---- names of files: as Spark has them. Parquet's "lz4" is LZ4_RAW. */

static const char *const parquet_codecs[][2] = {
    {"snappy", ".snappy"}, {"gzip", ".gz"}, {"zstd", ".zstd"}, {"lz4", ".lz4raw"}, {NULL, NULL}};
static const char *const orc_codecs[][2] = {
    {"snappy", ".snappy"}, {"zlib", ".zlib"}, {"zstd", ".zstd"}, {"lz4", ".lz4"}, {NULL, NULL}};
static const char *const text_codecs[][2] = {
    {"gzip", ".gz"}, {"zstd", ".zst"}, {"bzip2", ".bz2"}, {"deflate", ".deflate"}, {NULL, NULL}};

static const struct files_format formats[] = {
    {"parquet", MT_FILE_PARQUET, ".parquet", true, parquet_codecs},
    {"orc", MT_FILE_ORC, ".orc", true, orc_codecs},
    {"json", MT_FILE_JSON, ".json", false, text_codecs},
    {"csv", MT_FILE_CSV, ".csv", false, text_codecs},
    {"text", MT_FILE_TEXT, ".txt", false, text_codecs},
};

const struct files_format *files_format_of(const char *name)
{
    const struct files_format *format = formats;
    while (strcmp(format->name, name) != 0)
        format++;
    return format;
}

char *files_ending(const struct files_format *format, const char *compression)
{
    const char *codec = "";
    for (int i = 0; format->codecs[i][0]; i++)
        if (strcasecmp(format->codecs[i][0], compression) == 0)
            codec = format->codecs[i][1];
    return format->codec_first ? mt_format("%s%s", codec, format->ending)
                               : mt_format("%s%s", format->ending, codec);
}

/* ---- the sinks */

#define FILE_SINK(format, words)                                                                   \
    const struct mt_sink_type sink_##format = {                                                    \
        .name = #format,                                                                           \
        .help = words,                                                                             \
        .options = format##_options,                                                               \
        .not_yet = format##_not_yet,                                                               \
        .size = sizeof(struct files_sink),                                                         \
        .exactly_once = true,                                                                      \
        .needs_path = true,                                                                        \
        .needs_checkpoint = true,                                                                  \
        .partitions = true,                                                                        \
        .open = files_open,                                                                        \
        .recover = files_recover,                                                                  \
        .begin = files_begin,                                                                      \
        .write = files_write,                                                                      \
        .commit = files_commit,                                                                    \
        .abort = files_abort,                                                                      \
        .describe = files_describe,                                                                \
        .close = files_close,                                                                      \
    }

FILE_SINK(parquet, "a table of Parquet files, with the log by which Spark reads whole batches");
FILE_SINK(orc, "a table of ORC files, otherwise as parquet");
FILE_SINK(json, "a table of files with a JSON object a line, otherwise as parquet");
FILE_SINK(csv, "a table of CSV files, otherwise as parquet");
FILE_SINK(text, "a table of files with a line a row, of one STRING column, otherwise as parquet");

/* SPDX-License-Identifier: Apache-2.0
 *
 * path_test.c - one name for one folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static void assert_absolute(const char *path, const char *expected)
{
    char *out = NULL;
    struct mt_error err = {0};
    if (mt_path_absolute(path, &out, &err) != MT_OK)
        fail_msg("%s: %s", path, err.text);
    assert_string_equal(out, expected);
    free(out);
}

static void one_folder_has_one_name_however_it_is_written(void **state)
{
    (void)state;
    char root[] = "/tmp/mt-path-XXXXXX";
    assert_non_null(mkdtemp(root));
    char *real = realpath(root, NULL), *before = getcwd(NULL, 0);
    char *a = mt_format("%s/a", root), *link = mt_format("%s/link", root);
    assert_int_equal(mkdir(a, 0777) | symlink("a", link) | chdir(root), 0);
    char *table = mt_format("%s/a/out/t", real);
    const char *const forms[] = {"a/out/t",      "./a//out/./t/",   "link/out/t",
                                 "file:a/out/t", "a/out/none/../t", "link/../a/out/t"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        assert_absolute(forms[i], table);
    char *form = mt_format("file://%s/link/out/t", root);
    assert_absolute(form, table);
    free(form);
    form = mt_format("file://localhost%s/a/out/t", root);
    assert_absolute(form, table);
    free(form);
    form = mt_format("FILE:%s/a/out%%20t", root); /* as in Hadoop, no decoding */
    char *percent = mt_format("%s/a/out%%20t", real);
    assert_absolute(form, percent);
    assert_absolute("/../nowhere/../../there", "/there");
    assert_absolute("/", "/");
    assert_int_equal(chdir(before), 0);
    free(form);
    free(percent);
    free(table);
    free(a);
    free(link);
    free(real);
    free(before);
    char *command = mt_format("rm -r %s", root);
    assert_int_equal(system(command), 0);
    free(command);
}

static void assert_refused(const char *path, const char *words)
{
    char *out = NULL;
    struct mt_error err = {0};
    assert_int_equal(mt_path_absolute(path, &out, &err), MT_FATAL);
    if (!strstr(err.text, words))
        fail_msg("%s: %s", path, err.text);
}

static void what_is_no_local_path_is_refused(void **state)
{
    (void)state;
    assert_refused("", "empty");
    assert_refused("file:", "empty");
    assert_refused("file://elsewhere/out", "names another host");
    assert_refused("s3://bucket/out", "s3:// is not here yet");
    assert_refused("/tmp/\xff", "not UTF-8");
    assert_refused("/dev/null/out", "Not a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_folder_has_one_name_however_it_is_written),
        cmocka_unit_test(what_is_no_local_path_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

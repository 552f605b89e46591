/* SPDX-License-Identifier: Apache-2.0
 *
 * save_test.c - foreachBatch: any number of saves and a state, each batch once in all of them. */
#include <signal.h>
#include <sys/wait.h>

#include "saves.h"

#define HASH_1 "1111111111111111111111111111111111111111111111111111111111111111"
#define HASH_2 "2222222222222222222222222222222222222222222222222222222222222222"

static enum mt_status two_sinks_and_state(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save(run, "a", 0, 6, err);
    if (status == MT_OK)
        status = save(run, "b", 6, 4, err);
    return status == MT_OK ? count_rows(run, err) : status;
}

static void test_each_save_and_the_state_have_each_batch_once(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, two_sinks_and_state, 30);
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 3, 18);
    expect_stored("vault b", 3, 12);
    assert_int_equal(state_rows(&bench), 30);
    expect_shown(&bench, "\"sinks\":[{\"sink\":\"vault a\",\"given\":6,\"stored\":6,");
    assert_non_null(strstr(bench.last_json,
                           "\"sink\":{\"description\":\"ForeachBatchSink\",\"numOutputRows\":-1}"));
    assert_int_equal(sinks_made, 2); /* and kept for all batches */
    saves_deinit(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_save_and_the_state_have_each_batch_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

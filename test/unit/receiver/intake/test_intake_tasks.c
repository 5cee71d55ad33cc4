/* SPDX-License-Identifier: Apache-2.0 */
/* What the tick has of the task that a thread runs becomes an attribute of its sample. */
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "test/support/rigs/samples_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static int64_t named(const char *outcome)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "outcome=\"%s\"", outcome);
    return stats_find("spanprof_task_names_total", labels);
}

static void assert_task(struct samples_rig *rig, const struct record_task *task, size_t size,
                        const char *name)
{
    struct samples_rig_left left;
    struct record_parts parts = samples_rig_record(RIG_PID);
    struct buf expected _cleanup_buf_ = BUF_INIT(0);
    int64_t before[] = {named("named"), named("unreadable")};
    parts.task = BYTES(task, size);
    if (name)
        otlp_attribute_string(&expected, 9, "python.asyncio.task.name", BYTES_STR(name));
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_true(bytes_equal(left.sample.attributes, buf_bytes(&expected)));
    assert_int_equal(named("named") - before[0], name != NULL);
    assert_int_equal(named("unreadable") - before[1], name == NULL);
}

static void names(void **state)
{
    struct record_task text = {.form = RECORD_TASK_LATIN1, .size = 5, .text = "gr\xf6\xdf!"};
    struct record_task number = {.form = RECORD_TASK_NUMBER, .size = 8, .words = {12}};
    struct record_task none = {.form = RECORD_TASK_UNREADABLE};
    struct record_task lies = {.form = 7, .size = 255};
    struct record_task longer = {RECORD_TASK_UCS4, 64, {0}, {""}};
    assert_task(*state, &text, 16, "größ!");
    assert_task(*state, &number, 16, "Task-12");
    assert_task(*state, &none, RECORD_TASK_HEAD, NULL);
    assert_task(*state, &lies, sizeof(lies), NULL);
    assert_task(*state, &longer, 16, NULL); /* than what is there of it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names, samples_rig_setup, samples_rig_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

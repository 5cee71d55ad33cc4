/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A store whose outbox a reader looks at, for a test each. */
#include "test/support/store_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

struct test {
    struct fixture fixture;
    struct db *reader_db;
    struct outbox_reader *reader;
};

static inline int set_up(void **state)
{
    static struct test test;
    fixture_make(&test.fixture);
    fixture_open(&test.fixture);
    assert_int_equal(db_open_reader(&test.fixture.settings.db, &test.reader_db), 0);
    assert_int_equal(outbox_reader_open(test.reader_db, &test.reader), 0);
    *state = &test;
    return 0;
}

static inline int tear_down(void **state)
{
    struct test *test = *state;
    outbox_reader_close(test->reader);
    db_close(test->reader_db);
    fixture_remove(&test->fixture);
    return 0;
}

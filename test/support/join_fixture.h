/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Samples and spans that meet in the store of a fixture, and what the join counts of them. Asserts
 * with cmocka. Thread: one.
 */
#include "base/stats.h"
#include "test/support/store_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static inline int64_t counted(const char *result)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "result=\"%s\"", result);
    int64_t n = stats_find("spanprof_join_samples_total", labels);
    assert_true(n >= 0);
    return n;
}

static inline void add(struct fixture *fixture, uint64_t time, struct fixture_ids ids,
                       unsigned stack, int64_t process)
{
    struct sample sample = fixture_sample(time, ids, fixture_stack(fixture, stack), process);
    fixture_add(fixture, &sample);
}

static inline struct join_result join(struct fixture *fixture, struct fixture_span *span,
                                      int expected)
{
    struct join_result result;
    assert_int_equal(fixture_join(fixture, span, &result), expected);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of others wait for their spans: limits, failures, damage. What they look like when they
 * have met is test_otlp_profiles_links.c's and the integration test's. */
#include "store/pending_profiles/pending_profiles_state.h"
#include "test/support/faults/aborts.h"
#include "base/stats.h"
#include "proto/otlp/otlp_items.h"
#include "proto/wire.h"
#include "store/pending_profiles/recent_spans.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/fixtures/store_fixture.h"
#include "test/support/fixtures/trace_request.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { NESTED_MAX = 1 << 20 };

struct profile {
    struct buf body;
    struct profiles_links links;
    unsigned n;
};

static bool no_ids(void *context, const struct profiles_text *texts, size_t n,
                   struct profiles_ids *ids)
{
    (void)context, (void)texts, (void)n, (void)ids;
    return false;
}

/* A sample for each of the spans 1 … n of a trace, and one without. */
static void make_profile(struct profile *profile, unsigned trace, unsigned n, size_t padding)
{
    struct wire_nest resource, scope, message, sample, dictionary, link;
    struct buf *out = &profile->body;
    uint8_t trace_id[16], span_id[8];
    *profile = (struct profile){.body = BUF_INIT(0), .n = n};
    fixture_trace_id(trace, trace_id);
    wire_begin(out, 1, NESTED_MAX, &resource);
    wire_begin(out, 2, NESTED_MAX, &scope);
    wire_begin(out, 2, NESTED_MAX, &message);
    for (unsigned i = 0; i <= n; i++) {
        wire_begin(out, 2, NESTED_MAX, &sample);
        wire_put_varint(out, 3, i);
        wire_put_fixed64(out, 5, 1000 + i);
        wire_end(out, &sample);
    }
    wire_end(out, &message);
    wire_end(out, &scope);
    wire_end(out, &resource);
    wire_begin(out, 2, NESTED_MAX, &dictionary);
    wire_put_bytes(out, 4, BYTES(NULL, 0));
    for (unsigned i = 1; i <= n; i++) {
        fixture_span_id(i, span_id);
        wire_begin(out, 4, 64, &link);
        wire_put_bytes(out, 1, BYTES(trace_id, 16));
        wire_put_bytes(out, 2, BYTES(span_id, 8));
        wire_end(out, &link);
    }
    char *text = calloc(1, padding + 1);
    assert_non_null(text);
    memset(text, 'x', padding);
    wire_put_bytes(out, 5, BYTES(NULL, 0));
    wire_put_bytes(out, 5, BYTES(text, padding));
    free(text);
    wire_put_bytes(out, 6, BYTES(NULL, 0));
    wire_end(out, &dictionary);
    assert_int_equal(profiles_links_read(buf_bytes(out), no_ids, NULL, &profile->links), 0);
    assert_int_equal(profile->links.n_contexts, n);
}

static void close_profile(struct profile *profile)
{
    buf_close(&profile->body);
    profiles_links_close(&profile->links);
}

/* ---- a store ---- */

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture_make(&fixture);
    fixture.settings.pending_profiles =
        (struct pending_profiles_settings){.enabled = true,
                                           .wait_ns = 10 * FIXTURE_SECOND,
                                           .max_bytes = 100000,
                                           .max_recent_bytes = 1 << 20,
                                           .destinations = 1,
                                           .max_body_bytes = 50000};
    fixture_open(&fixture);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

static int put(struct fixture *fixture, const struct profile *profile, uint64_t now_unix_ns)
{
    return pending_profiles_put(store_pending_profiles(fixture->store), buf_bytes(&profile->body),
                                profile->n + 1, &profile->links, now_unix_ns);
}

static int put_span(struct fixture *fixture, unsigned trace, unsigned id)
{
    struct fixture_span span;
    fixture_span(&span, trace, id, 0, 1, 0);
    int error = pending_profiles_span(store_pending_profiles(fixture->store), &span.span);
    fixture_span_close(&span);
    return error;
}

static void commit_put(struct fixture *fixture, const struct profile *profile, uint64_t now)
{
    fixture_begin(fixture);
    assert_int_equal(put(fixture, profile, now), 0);
    fixture_commit(fixture);
}

static void commit_span(struct fixture *fixture, unsigned trace, unsigned id)
{
    fixture_begin(fixture);
    assert_int_equal(put_span(fixture, trace, id), 0);
    fixture_commit(fixture);
}

static void expire(struct fixture *fixture, uint64_t now_unix_ns)
{
    fixture_begin(fixture);
    pending_profiles_expire(store_pending_profiles(fixture->store), now_unix_ns);
    fixture_commit(fixture);
}

static int64_t n_held(void)
{
    return stats_find("spanprof_pending_profiles", "");
}

static int64_t spans_that(const char *result)
{
    char labels[32];
    snprintf(labels, sizeof(labels), "result=\"%s\"", result);
    return stats_find("spanprof_profile_spans_total", labels);
}

/* How many left, and how many of their samples were annotated: by the name of fixture_span(). */
static size_t n_out(struct fixture *fixture, unsigned *n_annotated)
{
    struct outgoing outgoing;
    outgoing_read(&outgoing, &fixture->settings.db, SIGNAL_PROFILES);
    size_t n = outgoing.n;
    *n_annotated = 0;
    for (size_t i = 0; i < n; i++) {
        struct profiles_links links;
        struct bytes body = buf_bytes(&outgoing.items[i].body);
        assert_int_equal(otlp_items_check(SIGNAL_PROFILES, body), OTLP_OK);
        assert_int_equal(profiles_links_read(body, no_ids, NULL, &links), 0);
        for (size_t k = 0; k < links.n_samples; k++)
            *n_annotated += links.contexts_of[k] == 0; /* joined ones name no span any more */
        *n_annotated -= 1;                             /* the one without */
        profiles_links_close(&links);
    }
    outgoing_close(&outgoing);
    return n;
}

static unsigned count_rows(struct fixture *fixture)
{
    static const char sql[] =
        "SELECT (SELECT count(*) FROM held) + (SELECT count(*) FROM held_body)"
        " + (SELECT count(*) FROM held_span)";
    sqlite3_stmt *statement;
    assert_int_equal(db_prepare(store_db(fixture->store), sql, &statement), 0);
    assert_int_equal(db_step(store_db(fixture->store), statement), 1);
    unsigned n = (unsigned)sqlite3_column_int64(statement, 0);
    db_unprepare(store_db(fixture->store), &statement);
    return n;
}

/* ---- waiting ---- */

static void test_waits(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    int64_t matched = spans_that("joined"), known = spans_that("known");
    make_profile(&profile, 1, 3, 10);
    commit_span(fixture, 1, 3);
    commit_put(fixture, &profile, FIXTURE_T0);
    commit_span(fixture, 1, 1);
    commit_span(fixture, 1, 1); /* again */
    commit_span(fixture, 2, 2); /* of another trace */
    expire(fixture, FIXTURE_T0 + 9 * FIXTURE_SECOND);
    assert_int_equal(n_out(fixture, &annotated), 0);
    fixture_reopen(fixture);
    assert_int_equal(n_held(), 1);
    commit_span(fixture, 1, 2);
    assert_int_equal(n_out(fixture, &annotated), 1);
    assert_int_equal(annotated, 3);
    assert_int_equal(n_held(), 0);
    assert_int_equal(count_rows(fixture), 0);
    assert_int_equal(spans_that("joined") - matched, 2);
    assert_int_equal(spans_that("known") - known, 1);
    close_profile(&profile);
}

static void test_does_not_wait_for_ever(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    int64_t timeout = spans_that("timeout");
    make_profile(&profile, 1, 3, 10);
    commit_put(fixture, &profile, FIXTURE_T0);
    commit_span(fixture, 1, 2);
    expire(fixture, FIXTURE_T0 + 10 * FIXTURE_SECOND);
    assert_int_equal(n_out(fixture, &annotated), 1);
    assert_int_equal(annotated, 1);
    assert_int_equal(spans_that("timeout") - timeout, 2);
    assert_int_equal(count_rows(fixture), 0);

    commit_put(fixture, &profile, FIXTURE_T0 + 100 * FIXTURE_SECOND);
    expire(fixture, FIXTURE_T0); /* the clock was set back */
    assert_int_equal(n_out(fixture, &annotated), 2);
    close_profile(&profile);
}

/* Two that name the same span: both get it, also when one has left meanwhile. */
static void test_same_span_twice(void **state)
{
    struct fixture *fixture = *state;
    struct profile first, second;
    unsigned annotated;
    make_profile(&first, 1, 1, 10);
    make_profile(&second, 1, 1, 20);
    commit_put(fixture, &first, FIXTURE_T0);
    commit_put(fixture, &second, FIXTURE_T0 + 5 * FIXTURE_SECOND);
    commit_put(fixture, &first, FIXTURE_T0 + 6 * FIXTURE_SECOND);
    expire(fixture, FIXTURE_T0 + 10 * FIXTURE_SECOND);
    assert_int_equal(n_out(fixture, &annotated), 1);
    commit_span(fixture, 1, 1);
    assert_int_equal(n_out(fixture, &annotated), 3);
    assert_int_equal(annotated, 2);
    close_profile(&first);
    close_profile(&second);
}

static void test_not_enabled(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    fixture->settings.pending_profiles.enabled = false;
    fixture_reopen(fixture);
    make_profile(&profile, 1, 2, 10);
    commit_span(fixture, 1, 1);
    commit_put(fixture, &profile, FIXTURE_T0);
    assert_int_equal(n_out(fixture, &annotated), 1);
    assert_int_equal(annotated, 0);
    close_profile(&profile);
}

/* ---- limits ---- */

static void test_oldest_makes_room(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    int64_t evicted = spans_that("evicted");
    make_profile(&profile, 1, 2, 40000);
    for (unsigned i = 0; i < 4; i++)
        commit_put(fixture, &profile, FIXTURE_T0);
    assert_int_equal(n_held(), 2);
    assert_in_range(stats_find("spanprof_pending_profiles_bytes", ""), 80000, 100000);
    assert_int_equal(n_out(fixture, &annotated), 2);
    assert_int_equal(spans_that("evicted") - evicted, 4);
    close_profile(&profile);
}

static void test_too_large_to_wait(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    make_profile(&profile, 1, 2, 60000);
    fixture_begin(fixture);
    assert_int_equal(put(fixture, &profile, FIXTURE_T0), OTLP_TOO_BIG);
    fixture_commit(fixture);
    assert_int_equal(n_out(fixture, &annotated), 0);
    assert_int_equal(n_held(), 0);
    close_profile(&profile);
}

/* Annotated, it would be larger than a peer takes: it goes as it came. */
static void test_too_large_when_annotated(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    int64_t before = stats_find("spanprof_profiles_not_annotated_total", "");
    make_profile(&profile, 1, 2, 100);
    fixture->settings.pending_profiles.max_body_bytes = profile.body.len;
    fixture_reopen(fixture);
    commit_span(fixture, 1, 1);
    commit_span(fixture, 1, 2);
    commit_put(fixture, &profile, FIXTURE_T0);
    assert_int_equal(n_out(fixture, &annotated), 1);
    assert_int_equal(annotated, 0);
    assert_int_equal(stats_find("spanprof_profiles_not_annotated_total", "") - before, 1);
    close_profile(&profile);
}

/* ---- failures ---- */

static void test_rolled_back(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    make_profile(&profile, 1, 2, 10);
    fixture_begin(fixture);
    assert_int_equal(put(fixture, &profile, FIXTURE_T0), 0);
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    assert_int_equal(n_held(), 0);

    commit_put(fixture, &profile, FIXTURE_T0);
    commit_span(fixture, 1, 1);
    fixture_begin(fixture);
    assert_int_equal(put_span(fixture, 1, 2), 0); /* it would leave now */
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    assert_int_equal(n_held(), 1);
    assert_int_equal(n_out(fixture, &annotated), 0);
    commit_span(fixture, 1, 2);
    assert_int_equal(n_out(fixture, &annotated), 1);
    assert_int_equal(annotated, 2);
    close_profile(&profile);
}

static bool step(struct fixture *fixture, const struct profile *profile, unsigned span)
{
    int error = store_begin(fixture->store);
    if (error)
        return false;
    error = span ? put_span(fixture, 1, span) : put(fixture, profile, FIXTURE_T0);
    if (error)
        store_fail(fixture->store, error);
    return store_end(fixture->store) == 0;
}

/* The n-th allocation fails, the sender tries again: once each, and whole. */
static void test_no_memory(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated, n = 1, n_hit = 0;
    make_profile(&profile, 1, 2, 10);
    for (bool hit = true; hit; n++) {
        size_t before = n_out(fixture, &annotated);
        fail_alloc_at(n);
        for (unsigned span = 0; span <= 2; span++)
            for (unsigned tries = 0; !step(fixture, &profile, span); tries++)
                assert_true(tries < 3);
        hit = fail_alloc_hit();
        n_hit += hit;
        assert_int_equal(n_out(fixture, &annotated) - before, 1);
        assert_int_equal(annotated, 2 * (before + 1));
        assert_int_equal(n_held(), 0);
        assert_int_equal(count_rows(fixture), 0);
        fixture_reopen(fixture); /* spans that came before are forgotten */
        if (before == OUTGOING_MAX - 2) {
            fixture_remove(fixture);
            set_up(state);
        }
    }
    assert_in_range(n_hit, 10, 200);
    close_profile(&profile);
}

static void test_damaged_row(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile;
    unsigned annotated;
    int64_t before = stats_find("spanprof_store_damaged_rows_total", "table=\"pending_profiles\"");
    make_profile(&profile, 1, 1, 10);
    for (unsigned i = 0; i < 3; i++)
        commit_put(fixture, &profile, FIXTURE_T0);
    assert_int_equal(
        db_exec(store_db(fixture->store), "UPDATE held SET contexts = x'01ffffff' WHERE seq = 2"),
        0);
    assert_int_equal(
        db_exec(store_db(fixture->store),
                "UPDATE held_body SET samples = x'ffffffffffffffffffff01' WHERE seq = 3"),
        0);
    fixture_reopen(fixture);
    assert_int_equal(n_held(), 2);
    assert_int_equal(
        stats_find("spanprof_store_damaged_rows_total", "table=\"pending_profiles\"") - before, 1);
    commit_span(fixture, 1, 1);
    assert_int_equal(n_out(fixture, &annotated), 2);
    assert_int_equal(annotated, 1); /* the other's samples cannot be told apart any more */
    assert_int_equal(count_rows(fixture), 0);
    close_profile(&profile);
}

/* ---- spans that came last ---- */

static struct profiles_span numbered(unsigned n, const char *name)
{
    struct profiles_span span = {.name = BYTES_STR(name), .kind = n % 6};
    fixture_trace_id(n, span.ids.trace_id);
    fixture_span_id(n, span.ids.span_id);
    return span;
}

static void test_recent_spans(void **state)
{
    struct recent_spans *spans;
    struct profiles_span span, got;
    struct owner_mark mark = {.service = 7}, got_mark;
    char name[400];
    unsigned n_found = 0, first = 0;
    (void)state;
    assert_int_equal(recent_spans_open(20000, &spans), 0);
    for (unsigned i = 1; i <= 5000; i++) {
        snprintf(name, sizeof(name), "%u %.*s", i, (int)(i * 7 % 300),
                 "                          ");
        span = numbered(i % 3 ? i : i - 1, name); /* each third takes the place of the one before */
        span.attributes = BYTES_LIT("\x4a\x01x");
        assert_int_equal(recent_spans_put(spans, &span, &mark), 0);
        assert_true(recent_spans_get(spans, &span.ids, &got, &got_mark));
        assert_true(bytes_is(got.name, name));
        assert_int_equal(got_mark.service, 7);
        assert_int_equal(got.attributes.len, 3);
    }
    for (unsigned i = 1; i <= 5000; i++) {
        span = numbered(i, "");
        if (!recent_spans_get(spans, &span.ids, &got, &got_mark))
            continue;
        first = first ? first : i;
        n_found++;
        snprintf(name, sizeof(name), "%u", i % 3 == 2 && i < 5000 ? i + 1 : i);
        assert_memory_equal(got.name.data, name, strlen(name));
    }
    assert_in_range(n_found, 100, 250);
    assert_in_range(5000 - first, n_found, n_found * 2); /* the latest, without gaps */
    span = numbered(9000, "");
    span.name = BYTES(name, 30000); /* never read: it is too large */
    assert_int_equal(recent_spans_put(spans, &span, &mark), 0);
    assert_false(recent_spans_get(spans, &span.ids, &got, &got_mark));
    recent_spans_close(spans);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void settle_twice(void *context)
{
    struct request *request = context;
    request->awaited[0].settled = false; /* the break: it is counted out a second time */
    pending_profiles_settle(NULL, &request->awaited[0]);
}

static void test_a_wrong_count_is_noticed(void **state)
{
    struct request *request = calloc(1, sizeof(*request) + sizeof(request->awaited[0]));
    (void)state;
    assert_non_null(request);
    request->n_awaited = 1;
    request->awaited[0].request = request;
    request->awaited[0].settled = true;
    assert_true(aborts(settle_twice, request));
    free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_count_is_noticed),
        TEST(test_waits),
        TEST(test_does_not_wait_for_ever),
        TEST(test_same_span_twice),
        TEST(test_not_enabled),
        TEST(test_oldest_makes_room),
        TEST(test_too_large_to_wait),
        TEST(test_too_large_when_annotated),
        TEST(test_rolled_back),
        TEST(test_no_memory),
        TEST(test_damaged_row),
        cmocka_unit_test(test_recent_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are larger than the backend takes. */
#include "base/clock.h"
#include "proto/otlp/otlp_items.h"
#include "proto/wire.h"
#include "test/support/rigs/exporter_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct backend_answer too_big = {
    .status = GRPC_RESOURCE_EXHAUSTED,
    .message = "grpc: received message larger than max (5000 vs. 1000)"};

static void allow(struct rig *rig, size_t size)
{
    backend_rule(&rig->backend, NULL, 0, too_big);
    rig->backend.rules[0].larger_than = size;
}

/* n spans of some 100 bytes named "[0]" and so on, the large-th of 3000. */
static void make_spans(struct buf *out, unsigned n, unsigned large)
{
    enum { ROOM = 1 << 20 };
    static uint8_t padding[3000];
    struct wire_nest resource, scope, span;
    wire_begin(out, 1, ROOM, &resource);
    wire_begin(out, 2, ROOM, &scope);
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof(name), "[%u]", i);
        wire_begin(out, 2, ROOM, &span);
        wire_put_bytes(out, 5, BYTES_STR(name));
        wire_put_bytes(out, 99, BYTES(padding, i == large ? 3000 : 80));
        wire_end(out, &span);
    }
    wire_end(out, &scope);
    wire_end(out, &resource);
}

/* How many requests that are no larger than that have this text. */
static size_t count(const struct rig *rig, const char *text, size_t size)
{
    struct backend_request *request;
    size_t n = 0;
    for (size_t i = 0; (request = backend_request(&rig->backend, "", i)); i++) {
        const struct buf *message = &request->reader.message;
        n += message->len <= size && memmem(message->data, message->len, text, strlen(text));
    }
    return n;
}

static void assert_each_taken_once(const struct rig *rig, unsigned n, unsigned but, size_t size)
{
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof(name), "[%u]", i);
        assert_int_equal(count(rig, name, size), i != but);
    }
}

/* Only the span that alone is too big is lost; the others leave together as far as they may. */
static void test_one_is_too_big(void **state)
{
    enum { N = 64, LARGE = 20, LIMIT = 1000 };
    struct rig *rig = *state;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    int64_t before = rig_dropped("too_big"), refused = rig_dropped("refused");
    make_spans(&body, N, LARGE);
    allow(rig, LIMIT);
    rig_put_bytes(rig, SIGNAL_TRACES, buf_bytes(&body));
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("too_big"), before + 1);
    assert_int_equal(rig_dropped("refused"), refused);
    assert_each_taken_once(rig, N, LARGE, LIMIT);
    assert_in_range(rig->backend.n_requests, 64 / 8, 40);
}

/* What it was joined with is not affected, and the next request is sent whole. */
static void test_joined(void **state)
{
    enum { N = 16, LIMIT = 1500 };
    struct rig *rig = *state;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    int64_t before = rig_dropped("too_big");
    make_spans(&body, N, N);
    backend_leave(&rig->backend);
    rig_put(rig, SIGNAL_TRACES, "first");
    rig_pause(rig, 50);
    rig_put(rig, SIGNAL_TRACES, "{small}");
    rig_put_bytes(rig, SIGNAL_TRACES, buf_bytes(&body));
    allow(rig, LIMIT);
    backend_return(&rig->backend);
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("too_big"), before);
    assert_each_taken_once(rig, N, N, LIMIT);
    assert_int_equal(count(rig, "{small}", LIMIT), 1);
    size_t n = rig->backend.n_requests;
    rig_put(rig, SIGNAL_TRACES, "later");
    rig_await_empty(rig);
    assert_int_equal(rig->backend.n_requests, n + 1);
}

/* A part meets a backend that is away in between: it waits, and no other part is sent twice. */
static void test_away_in_between(void **state)
{
    enum { N = 32, LIMIT = 1000 };
    struct rig *rig = *state;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    make_spans(&body, N, N);
    allow(rig, LIMIT);
    backend_rule(&rig->backend, NULL, 3, (struct backend_answer){.status = GRPC_UNAVAILABLE});
    rig->backend.rules[1].body = "[20]";
    rig_put_bytes(rig, SIGNAL_TRACES, buf_bytes(&body));
    rig_await_empty(rig);
    assert_int_equal(count(rig, "[20]", LIMIT), 4);
    assert_int_equal(count(rig, "[0]", LIMIT), 1);
    assert_int_equal(count(rig, "[31]", LIMIT), 1);
}

/* As by a kill: the row stays until its last part is answered. */
static void test_closed_in_between(void **state)
{
    enum { N = 32, LIMIT = 1000 };
    struct rig *rig = *state;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    make_spans(&body, N, N);
    allow(rig, LIMIT);
    backend_rule(&rig->backend, NULL, 1, (struct backend_answer){.manner = BACKEND_SILENT});
    rig->backend.rules[1].body = "[20]";
    rig_put_bytes(rig, SIGNAL_TRACES, buf_bytes(&body));
    for (int ms = 0; ms < 5000 && !count(rig, "[20]", LIMIT); ms += 10)
        rig_pause(rig, 10);
    assert_int_equal(count(rig, "[0]", LIMIT), 1);
    exporter_close(rig->exporter);
    rig_pause(rig, 50);
    assert_false(rig_is_empty(rig));
    exporter_rig_start(rig);
    rig_await_empty(rig);
    assert_int_equal(count(rig, "[0]", LIMIT), 2);
    assert_int_equal(count(rig, "[20]", LIMIT), 2);
    assert_int_equal(count(rig, "[31]", LIMIT), 1);
}

/* Nothing to take apart: one span, or what is no request. */
static void test_alone(void **state)
{
    struct rig *rig = *state;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    int64_t before = rig_dropped("too_big");
    make_spans(&body, 1, 0);
    allow(rig, 100);
    rig_put_bytes(rig, SIGNAL_TRACES, buf_bytes(&body));
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("too_big"), before + 3);
    memset(body.data, 0xff, body.len);
    rig_put_bytes(rig, SIGNAL_TRACES, buf_bytes(&body));
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("too_big"), before + 6);
    assert_int_equal(rig->backend.n_requests, 2); /* each asked for once */
}

/* The same status for another reason: nothing smaller would be taken. */
static void test_a_quota(void **state)
{
    struct rig *rig = *state;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    int64_t before = rig_dropped("refused");
    make_spans(&body, 10, 10);
    backend_rule(
        &rig->backend, NULL, 0,
        (struct backend_answer){.status = GRPC_RESOURCE_EXHAUSTED, .message = "quota exceeded"});
    rig_put_bytes(rig, SIGNAL_TRACES, buf_bytes(&body));
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("refused"), before + 3);
    assert_int_equal(rig->backend.n_requests, 1);
}

#define RIG_TEST(name)                                                                             \
    cmocka_unit_test_setup_teardown(name, exporter_rig_setup, exporter_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_one_is_too_big),    RIG_TEST(test_joined), RIG_TEST(test_away_in_between),
        RIG_TEST(test_closed_in_between), RIG_TEST(test_alone),  RIG_TEST(test_a_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

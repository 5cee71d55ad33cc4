/* SPDX-License-Identifier: Apache-2.0 */
/* A request without room waits, and what was sent arrives all the same. */
#include "receiver/admission/admission.h"
#include "base/clock.h"
#include "base/stats.h"
#include "receiver/grpc/grpc_call.h"
#include "receiver/health.h"
#include "test/support/net/http_rig.h"
#include "test/support/net/otlp_client.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MESSAGE = 100000 };

static int64_t n_waiting(void)
{
    return stats_find("spanprof_receiver_waiting_requests", "");
}

/* ---- who is let in, and when ---- */

struct guest {
    struct admission_request request;
    int order; /* 0: not let in */
    int n_expired;
};

static int n_let_in;

static void on_let_in(struct admission_request *request)
{
    container_of(request, struct guest, request)->order = ++n_let_in;
}

static void on_expired(struct admission_request *request)
{
    container_of(request, struct guest, request)->n_expired++;
    admission_leave(request);
}

static void ask_by(struct admission *admission, struct sender *sender, struct guest *guest,
                   size_t bytes)
{
    *guest = (struct guest){.request = {.let_in = on_let_in, .expired = on_expired}};
    admission_ask(admission, sender, &guest->request, bytes);
}

/* By a connection and a peer of its own. */
static void ask(struct admission *admission, struct guest *guest, size_t bytes)
{
    static uint64_t next_peer = 1000;
    struct sender *sender = sender_open(&admission->senders, next_peer++);
    ask_by(admission, sender, guest, bytes);
    sender_release(sender); /* the request holds it */
}

static struct loop *loop_for(struct admission *admission, size_t bytes, size_t requests)
{
    struct loop *loop;
    assert_int_equal(loop_open(&loop), 0);
    admission_init(admission, loop, bytes, requests);
    n_let_in = 0;
    return loop;
}

static void close_all(struct admission *admission, struct loop *loop)
{
    assert_int_equal(n_waiting(), 0);
    admission_close(admission);
    loop_close(loop);
}

static void test_bytes_in_order(void **state)
{
    struct admission admission;
    struct guest guests[5];
    (void)state;
    struct loop *loop = loop_for(&admission, 100, 10);
    ask(&admission, &guests[0], 85);
    ask(&admission, &guests[1], 20); /* has to wait */
    ask(&admission, &guests[2], 10); /* also, though it would fit */
    ask(&admission, &guests[3], 1);
    assert_int_equal(guests[0].order, 1);
    assert_int_equal(n_let_in, 1);
    assert_int_equal(n_waiting(), 3);
    admission_leave(&guests[2].request); /* goes while it waits */
    admission_received(&guests[0].request);
    assert_int_equal(n_let_in, 1); /* its room is taken until it is done */
    admission_leave(&guests[0].request);
    admission_leave(&guests[0].request); /* again: no harm */
    assert_int_equal(guests[1].order, 2);
    assert_int_equal(guests[3].order, 3);
    assert_int_equal(guests[2].order, 0);
    admission_leave(&guests[1].request);
    admission_leave(&guests[3].request);
    ask(&admission, &guests[4], 1000); /* larger than all the room: alone */
    assert_int_equal(guests[4].order, 4);
    admission_leave(&guests[4].request);
    close_all(&admission, loop);
}

static void test_requests(void **state)
{
    struct admission admission;
    struct guest guests[4];
    (void)state;
    struct loop *loop = loop_for(&admission, 100, 2);
    for (int i = 0; i < 4; i++)
        ask(&admission, &guests[i], 0);
    assert_int_equal(n_let_in, 2);
    admission_leave(&guests[1].request);
    assert_int_equal(guests[2].order, 3);
    for (int i = 0; i < 4; i++)
        admission_leave(&guests[i].request);
    close_all(&admission, loop);
}

/* A connection has a quarter of the room, a peer three quarters; others find room at once. */
static void test_shares(void **state)
{
    struct admission admission;
    struct guest greedy[20], other, more;
    struct sender *connections[4];
    (void)state;
    struct loop *loop = loop_for(&admission, 100, 100);
    for (int i = 0; i < 4; i++)
        connections[i] = sender_open(&admission.senders, 7);
    for (int i = 0; i < 5; i++)
        ask_by(&admission, connections[0], &greedy[i], 10);
    assert_int_equal(n_let_in, 2);
    for (int i = 5; i < 20; i++)
        ask_by(&admission, connections[i % 4], &greedy[i], 10);
    assert_int_equal(n_let_in, 7); /* 2 of each, but 70 + 10 is more than three quarters */
    ask(&admission, &other, 25);
    assert_int_equal(other.order, 8);
    ask(&admission, &more, 5);
    assert_int_equal(more.order, 9);
    admission_leave(&more.request);
    admission_leave(&other.request);
    assert_int_equal(n_let_in, 9);
    assert_false(admission_is_stuck(&admission));
    for (int i = 0; i < 20; i++)
        admission_leave(&greedy[i].request);
    for (int i = 0; i < 4; i++)
        sender_release(connections[i]);
    close_all(&admission, loop);
}

/* Of those that wait each peer has its turn, and each connection of a peer. */
static void test_turns(void **state)
{
    struct admission admission;
    struct guest first, many[6], few[2];
    (void)state;
    struct loop *loop = loop_for(&admission, 100, 1);
    struct sender *a = sender_open(&admission.senders, 1);
    struct sender *b = sender_open(&admission.senders, 1);
    struct sender *c = sender_open(&admission.senders, 2);
    ask_by(&admission, a, &first, 1);
    for (int i = 0; i < 6; i++)
        ask_by(&admission, i < 4 ? a : b, &many[i], 1);
    for (int i = 0; i < 2; i++)
        ask_by(&admission, c, &few[i], 1);
    struct admission_request *leaves = &first.request;
    struct guest *const expected[] = {&many[0], &few[0],  &many[4], &few[1],
                                      &many[1], &many[5], &many[2], &many[3]};
    for (int i = 0; i < 8; i++) {
        admission_leave(leaves);
        assert_int_equal(expected[i]->order, i + 2);
        leaves = &expected[i]->request;
    }
    admission_leave(leaves);
    sender_release(a);
    sender_release(b);
    sender_release(c);
    close_all(&admission, loop);
}

/* One request may be larger than a quarter; a second one waits, and does not hold up the others. */
static void test_large(void **state)
{
    struct admission admission;
    struct guest large[2], small;
    (void)state;
    struct loop *loop = loop_for(&admission, 100, 10);
    ask(&admission, &large[0], 40);
    ask(&admission, &large[1], 40);
    ask(&admission, &small, 20);
    assert_int_equal(large[1].order, 0);
    assert_int_equal(small.order, 2);
    admission_leave(&large[0].request);
    assert_int_equal(large[1].order, 3);
    admission_leave(&large[1].request);
    admission_leave(&small.request);
    close_all(&admission, loop);
}

static void turn_until(struct loop *loop, const int *order)
{
    uint64_t start_ns = clock_monotonic_ns();
    while (!*order && clock_monotonic_ns() - start_ns < 20 * NS_PER_SEC)
        loop_once(loop, 50);
    assert_true(*order);
}

/* All that arrive too slowly make room at once, if it is wanted. */
static void test_expiry(void **state)
{
    enum { SLOW = 3, AT_WRITER = 3, FAST, ALL };
    struct admission admission;
    struct guest guests[ALL], another;
    (void)state;
    struct loop *loop = loop_for(&admission, 100, ALL);
    for (int i = 0; i < ALL; i++) {
        ask(&admission, &guests[i], 20);
        guests[i].request.since_ns -= 10 * NS_PER_SEC;
    }
    admission_received(&guests[AT_WRITER].request); /* it waits for the writer: not its fault */
    admission_progress(&guests[FAST].request, 100 * ADMISSION_BYTES_PER_SEC);
    admission_progress(&guests[0].request, 7 * ADMISSION_BYTES_PER_SEC);
    loop_once(loop, 300);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(guests[i].n_expired, 0); /* nobody waits */
    ask(&admission, &another, 20);
    assert_int_equal(another.order, 0);
    turn_until(loop, &another.order);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(guests[i].n_expired, i < SLOW);
    admission_leave(&guests[AT_WRITER].request);
    admission_leave(&guests[FAST].request);
    admission_leave(&another.request);
    close_all(&admission, loop);
}

/* A new request has time to begin. */
static void test_grace(void **state)
{
    struct admission admission;
    struct guest fresh, another;
    (void)state;
    struct loop *loop = loop_for(&admission, 100, 1);
    ask(&admission, &fresh, 20);
    ask(&admission, &another, 20);
    fresh.request.since_ns -= ADMISSION_GRACE_NS / 2;
    uint64_t start_ns = clock_monotonic_ns();
    turn_until(loop, &another.order);
    assert_int_equal(fresh.n_expired, 1);
    assert_true(clock_monotonic_ns() - start_ns >= ADMISSION_GRACE_NS / 2);
    admission_leave(&another.request);
    close_all(&admission, loop);
}

static void test_stuck(void **state)
{
    struct admission admission;
    struct guest first, another;
    (void)state;
    struct loop *loop = loop_for(&admission, 100, 1);
    ask(&admission, &first, 20);
    ask(&admission, &another, 20);
    assert_false(admission_is_stuck(&admission));
    another.request.since_ns -= ADMISSION_LONG_NS;
    assert_true(admission_is_stuck(&admission));
    admission_leave(&first.request);
    assert_false(admission_is_stuck(&admission));
    admission_leave(&another.request);
    close_all(&admission, loop);
}

/* ---- the servers ---- */

struct rig {
    struct http_rig *http; /* also the loop, the intake and the budget */
    struct config_otlp_grpc_server config;
    struct health health;
    struct grpc_server *grpc;
    uint16_t port;
};

static const char *no_problem(void *context)
{
    (void)context;
    return NULL;
}

static int setup(void **state)
{
    struct listen_sockets sockets;
    struct rig *rig = calloc(1, sizeof(*rig));
    if (!rig || http_rig_setup((void **)&rig->http))
        return -1;
    *state = rig;
    rig->health = (struct health){no_problem, rig};
    rig->config = (struct config_otlp_grpc_server){.endpoint = {.host = "127.0.0.1"},
                                                   .max_recv_msg_size_bytes = MESSAGE,
                                                   .max_connections = 64};
    rig->http->budget.limit_bytes = 64 << 20;
    if (listen_open(&rig->config.endpoint, "grpc::endpoint", &sockets, NULL))
        return -1;
    rig->port = sockets.port;
    return grpc_server_open(&(struct grpc_server_settings){.loop = rig->http->loop,
                                                           .intake = &rig->http->intake,
                                                           .budget = &rig->http->budget,
                                                           .health = &rig->health,
                                                           .config = &rig->config},
                            &sockets, &rig->grpc);
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    grpc_server_close(rig->grpc);
    int error = http_rig_teardown((void **)&rig->http);
    free(rig);
    return error;
}

static void set_room(struct rig *rig, size_t bytes)
{
    rig->http->intake.admission.limit_bytes = bytes;
}

/* Bytes of requests that are not whole, or not let in. */
static size_t received(const struct rig *rig)
{
    return rig->http->budget.used_bytes;
}

struct calls {
    struct h2_end end;
    struct h2_end_stream *streams[32];
    size_t n;
};

static bool all_closed(void *context)
{
    struct calls *calls = context;
    for (size_t i = 0; i < calls->n; i++)
        if (!calls->streams[i]->closed)
            return false;
    return true;
}

static bool last_closed(void *context)
{
    struct calls *calls = context;
    return calls->streams[calls->n - 1]->closed;
}

static void start_calls(struct rig *rig, struct calls *calls, size_t n)
{
    static uint8_t message[MESSAGE];
    h2_end_init(&calls->end);
    otlp_client_open(&calls->end, rig->http->loop, rig->port);
    calls->n = n;
    for (size_t i = 0; i < n; i++)
        calls->streams[i] = otlp_client_send(
            &calls->end, &(struct otlp_client_call){.message = BYTES(message, MESSAGE)});
}

static void assert_all_accepted(struct rig *rig, struct calls *calls)
{
    assert_true(h2_run_loop(rig->http->loop, all_closed, calls, 10000));
    for (size_t i = 0; i < calls->n; i++)
        assert_int_equal(otlp_client_number(calls->streams[i], "grpc-status"), 0);
}

/* Of 20 there is room for five at a time; of the others only the beginning comes. */
static void test_grpc(void **state)
{
    struct rig *rig = *state;
    struct calls calls;
    rig->http->intake.hold = true;
    set_room(rig, 4 * (5 * MESSAGE + 5)); /* the connection's share */
    start_calls(rig, &calls, 20);
    http_rig_pause(rig->http, NULL, 300);
    assert_int_equal(rig->http->intake.n_requests, 5);
    assert_int_equal(n_waiting(), 15);
    assert_int_equal(received(rig), 15 * GRPC_CALL_FIRST_WINDOW);
    for (int i = 0; i < 100 && rig->http->intake.n_requests < 20; i++) {
        assert_true(rig->http->intake.n_waiting <= 5);
        fake_intake_release(&rig->http->intake);
        http_rig_pause(rig->http, NULL, 20);
        rig->http->intake.hold = true;
    }
    fake_intake_release(&rig->http->intake);
    assert_all_accepted(rig, &calls);
    assert_int_equal(n_waiting(), 0);
    h2_end_clear(&calls.end);
}

/* All streams of many connections at once, which send in turns: none keeps another from its end. */
static void test_grpc_many_at_once(void **state)
{
    enum { N = 20 };
    static struct calls calls[N];
    struct rig *rig = *state;
    set_room(rig, 12 * MESSAGE);
    for (size_t i = 0; i < N; i++)
        start_calls(rig, &calls[i], 30);
    for (size_t i = 0; i < N; i++)
        assert_all_accepted(rig, &calls[i]);
    assert_int_equal(rig->http->intake.n_requests, 30 * N);
    for (size_t i = 0; i < N; i++)
        h2_end_clear(&calls[i].end);
}

static void test_others_are_served(void **state)
{
    struct rig *rig = *state;
    struct calls calls, probe = {.n = 1};
    rig->http->intake.hold = true;
    set_room(rig, MESSAGE);
    start_calls(rig, &calls, 20);
    http_rig_pause(rig->http, NULL, 50);
    h2_end_init(&probe.end);
    otlp_client_open(&probe.end, rig->http->loop, rig->port);
    probe.streams[0] =
        otlp_client_send(&probe.end, &(struct otlp_client_call){.path = HEALTH_CHECK_METHOD});
    assert_true(h2_run_loop(rig->http->loop, last_closed, &probe, 10000));
    assert_int_equal(otlp_client_number(probe.streams[0], "grpc-status"), 0);
    h2_end_clear(&probe.end);
    h2_end_clear(&calls.end); /* goes while it waits */
    http_rig_pause(rig->http, NULL, 50);
    assert_int_equal(n_waiting(), 0);
    assert_int_equal(received(rig), 0);
    fake_intake_release(&rig->http->intake);
    http_rig_pause(rig->http, NULL, 50);
    assert_int_equal(rig->http->intake.admission.n, 0);
}

static void test_http(void **state)
{
    static uint8_t body[BODY_MAX];
    struct rig *rig = *state;
    struct talk first, whole, parts;
    talk_open(&first, rig->http);
    talk_open(&whole, rig->http);
    talk_open(&parts, rig->http);
    set_room(rig, BODY_MAX + 1000);
    rig->http->intake.hold = true;
    talk_say_traces(&first, "", BYTES(body, 20000));
    http_rig_pause(rig->http, &first, 50);
    assert_int_equal(rig->http->intake.n_requests, 1);
    talk_say_traces(&whole, "", BYTES(body, BODY_MAX));
    talk_say(&parts, "POST", "/v1/traces", PROTOBUF "Transfer-Encoding: chunked\r\n",
             (struct bytes){0});
    assert_int_equal(buf_printf(&parts.out, "5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n"), 0);
    http_rig_pause(rig->http, &whole, 50);
    http_rig_pause(rig->http, &parts, 50);
    assert_int_equal(rig->http->intake.n_requests, 1);
    assert_in_range(received(rig), 10, BODY_MAX / 2);
    assert_int_equal(n_waiting(), 2);
    fake_intake_release(&rig->http->intake);
    assert_int_equal(talk_hear(&first), 200);
    assert_int_equal(talk_hear(&whole), 200);
    assert_int_equal(talk_hear(&parts), 200);
    assert_int_equal(rig->http->intake.n_requests, 3);
    assert_int_equal(rig->http->intake.n_bytes, 20000 + BODY_MAX + 10);
    talk_close(&first);
    talk_close(&whole);
    talk_close(&parts);
}

static void test_http_closes_while_it_waits(void **state)
{
    static const uint8_t body[20000];
    struct rig *rig = *state;
    struct talk first, second;
    talk_open(&first, rig->http);
    talk_open(&second, rig->http);
    rig->http->intake.hold = true;
    set_room(rig, 5);
    talk_say_traces(&first, "", BYTES(body, sizeof(body)));
    http_rig_pause(rig->http, &first, 50);
    talk_say_traces(&second, "", BYTES(body, sizeof(body)));
    http_rig_pause(rig->http, &second, 50);
    assert_int_equal(n_waiting(), 1);
    http_server_close(rig->http->server);
    rig->http->server = NULL;
    assert_int_equal(talk_hear(&first), 503);
    assert_int_equal(talk_hear(&second), 503); /* whole, but there is nobody to wait for */
    assert_int_equal(rig->http->intake.n_requests, 1);
    assert_int_equal(n_waiting(), 0);
    talk_close(&first);
    talk_close(&second);
}

/* What is whole within its first window passes, although there is no room. */
static void test_small_ones_pass(void **state)
{
    static const uint8_t body[20000];
    struct rig *rig = *state;
    struct talk first, small;
    struct calls calls = {.n = 1};
    rig->http->intake.hold = true;
    set_room(rig, 5);
    talk_open(&first, rig->http);
    talk_open(&small, rig->http);
    talk_say_traces(&first, "", BYTES(body, sizeof(body)));
    http_rig_pause(rig->http, &first, 50);
    start_calls(rig, &calls, 10);
    http_rig_pause(rig->http, NULL, 50);
    assert_int_equal(rig->http->intake.n_requests, 1);
    talk_say_traces(&small, "", BYTES(body, ADMISSION_SMALL));
    http_rig_pause(rig->http, &small, 50);
    assert_int_equal(rig->http->intake.n_requests, 2);
    struct h2_end_stream *call = otlp_client_send(
        &calls.end,
        &(struct otlp_client_call){.message = BYTES(body, ADMISSION_SMALL - GRPC_PREFIX_SIZE)});
    http_rig_pause(rig->http, NULL, 50);
    assert_int_equal(rig->http->intake.n_requests, 3);
    assert_false(call->closed);
    set_room(rig, 32 << 20);
    fake_intake_release(&rig->http->intake);
    assert_int_equal(talk_hear(&small), 200);
    assert_int_equal(talk_hear(&first), 200);
    assert_all_accepted(rig, &calls);
    assert_int_equal(otlp_client_number(call, "grpc-status"), 0);
    assert_int_equal(received(rig), 0);
    h2_end_clear(&calls.end);
    talk_close(&first);
    talk_close(&small);
}

/* A part of a request, and then nothing more: others have its room after a while. */
static void test_http_that_stalls(void **state)
{
    struct rig *rig = *state;
    struct talk stalls, other;
    talk_open(&stalls, rig->http);
    talk_open(&other, rig->http);
    set_room(rig, 20000);
    talk_say(&stalls, "POST", "/v1/traces", PROTOBUF "Content-Length: 20000\r\n",
             BYTES_LIT("hello"));
    http_rig_pause(rig->http, &stalls, 50);
    container_of(rig->http->intake.admission.receiving.next, struct admission_request, link)
        ->since_ns -= ADMISSION_GRACE_NS;
    static const uint8_t body[20000];
    talk_say_traces(&other, "", BYTES(body, sizeof(body)));
    assert_int_equal(talk_hear(&other), 200);
    assert_int_equal(received(rig), 0);
    assert_int_equal(buf_append(&stalls.out, body, sizeof(body) - 5), 0);
    assert_int_equal(talk_hear(&stalls), 503);
    talk_close(&stalls);
    talk_close(&other);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_in_order),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_stuck),
        RIG_TEST(test_grpc),
        RIG_TEST(test_grpc_many_at_once),
        RIG_TEST(test_others_are_served),
        RIG_TEST(test_http),
        RIG_TEST(test_http_closes_while_it_waits),
        RIG_TEST(test_small_ones_pass),
        RIG_TEST(test_http_that_stalls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

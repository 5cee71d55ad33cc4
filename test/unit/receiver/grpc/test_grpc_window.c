/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of calls, against a peer that counts them by hand and says itself when it takes note of
 * SETTINGS: none waits for what the server keeps. */
#include "base/clock.h"
#include "receiver/grpc/grpc_call.h"
#include "receiver/grpc/grpc_server.h"
#include "test/support/net/fake_intake.h"
#include "test/support/net/h2_raw.h"
#include "test/support/net/otlp_client.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { CALLS_MAX = 64, SETTINGS_MAX = 8, PIECE = 16384, MESSAGE_MAX = 1 << 20, KB = 1000 };

struct call {
    uint32_t id;
    size_t size, sent;    /* of the body */
    size_t stops_at;      /* sends no more than this for now; 0: all */
    int64_t window;       /* that the peer has */
    size_t n_updates;     /* WINDOW_UPDATE */
    bool answered, reset; /* by the server */
};

struct test_peer {
    int fd;
    struct buf out, in;
    int64_t initial, window;
    int64_t settings[SETTINGS_MAX]; /* windows offered, of which the first `applied` are in force */
    size_t n_settings, applied;
    bool ignores_settings; /* for now */
    struct call calls[CALLS_MAX];
    size_t n;
};

struct rig {
    struct loop *loop;
    struct intake intake;
    struct budget budget;
    struct health health;
    struct config_otlp_grpc_server config;
    struct grpc_server *server;
    uint16_t port;
    struct test_peer peer;
};

static const char *no_problem(void *context)
{
    (void)context;
    return NULL;
}

/* ---- the peer ---- */

static void peer_open(struct test_peer *peer, uint16_t port)
{
    const int on = 1;
    *peer = (struct test_peer){.fd = otlp_client_connect(port, false),
                               .out = BUF_INIT(0),
                               .in = BUF_INIT(0),
                               .initial = 65535,
                               .window = 65535};
    assert_true(peer->fd >= 0);
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    assert_int_equal(buf_append(&peer->out, H2_RAW_PREFACE, sizeof(H2_RAW_PREFACE) - 1), 0);
    h2_raw_frame(&peer->out, RAW_SETTINGS, 0, 0, (struct bytes){0});
}

static void peer_close(struct test_peer *peer)
{
    close(peer->fd);
    buf_close(&peer->out);
    buf_close(&peer->in);
}

static void note_settings(struct test_peer *peer, struct bytes payload)
{
    assert_true(peer->n_settings < SETTINGS_MAX);
    for (; payload.len; payload = bytes_skip(payload, 6))
        if (payload.data[1] == 4 /* INITIAL_WINDOW_SIZE */)
            peer->settings[peer->n_settings++] = h2_raw_u32(payload.data + 2);
}

static void apply_settings(struct test_peer *peer)
{
    while (!peer->ignores_settings && peer->applied < peer->n_settings) {
        int64_t initial = peer->settings[peer->applied++];
        for (size_t i = 0; i < peer->n; i++)
            peer->calls[i].window += initial - peer->initial;
        peer->initial = initial;
        h2_raw_frame(&peer->out, RAW_SETTINGS, RAW_ACK, 0, (struct bytes){0});
    }
}

static struct call *call_of(struct test_peer *peer, uint32_t id)
{
    assert_true(id % 2 == 1 && id / 2 < peer->n);
    return &peer->calls[id / 2];
}

static void note_frame(struct test_peer *peer, const struct h2_raw_seen *frame)
{
    struct call *call = frame->stream ? call_of(peer, frame->stream) : NULL;
    if (frame->type == RAW_SETTINGS && !(frame->flags & RAW_ACK))
        note_settings(peer, frame->payload);
    else if (frame->type == RAW_WINDOW_UPDATE && !call)
        peer->window += h2_raw_u32(frame->payload.data);
    else if (frame->type == RAW_WINDOW_UPDATE)
        call->window += h2_raw_u32(frame->payload.data), call->n_updates++;
    else if (frame->type == RAW_RST_STREAM)
        call->reset = true;
    else if (frame->type == RAW_HEADERS && frame->flags & RAW_END_STREAM)
        call->answered = true;
    else
        assert_int_not_equal(frame->type, RAW_GOAWAY);
}

static void peer_read(struct test_peer *peer)
{
    uint8_t piece[16384];
    struct h2_raw_seen frame;
    ssize_t n;
    while ((n = recv(peer->fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
        assert_int_equal(buf_append(&peer->in, piece, (size_t)n), 0);
    struct bytes in = buf_bytes(&peer->in);
    while (h2_raw_next(&in, &frame))
        note_frame(peer, &frame);
    buf_consume(&peer->in, peer->in.len - in.len);
    apply_settings(peer);
}

/* A frame of the body, as far as the windows go. */
static void peer_send(struct test_peer *peer, struct call *call)
{
    static const uint8_t zero[PIECE];
    uint8_t piece[PIECE] = {0};
    int64_t n = (int64_t)((call->stops_at ? call->stops_at : call->size) - call->sent);
    n = n < PIECE ? n : PIECE;
    n = n < call->window ? n : call->window;
    n = n < peer->window ? n : peer->window;
    if (n <= 0 || call->reset)
        return;
    bool last = call->sent + (size_t)n == call->size;
    if (!call->sent) /* at least the prefix comes in one */
        grpc_prefix_write(piece, false, (uint32_t)(call->size - GRPC_PREFIX_SIZE));
    h2_raw_frame(&peer->out, RAW_DATA, last ? RAW_END_STREAM : 0, call->id,
                 BYTES(call->sent ? zero : piece, (size_t)n));
    call->sent += (size_t)n;
    call->window -= n;
    peer->window -= n;
}

static void peer_turn(struct test_peer *peer)
{
    ssize_t n;
    peer_read(peer);
    for (size_t i = 0; i < peer->n; i++)
        peer_send(peer, &peer->calls[i]);
    while (peer->out.len &&
           (n = send(peer->fd, peer->out.data, peer->out.len, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0)
        buf_consume(&peer->out, (size_t)n);
}

/* Its message is that large; the stream begins with the window that the peer knows of. */
static struct call *begin(struct test_peer *peer, size_t size)
{
    _cleanup_buf_ struct buf block = BUF_INIT(0);
    assert_true(peer->n < CALLS_MAX);
    struct call *call = &peer->calls[peer->n];
    *call = (struct call){.id = (uint32_t)(2 * peer->n + 1),
                          .size = GRPC_PREFIX_SIZE + size,
                          .window = peer->initial};
    peer->n++;
    h2_raw_request_block(&block, OTLP_TRACES_PATH);
    h2_raw_frame(&peer->out, RAW_HEADERS, RAW_END_HEADERS, call->id, buf_bytes(&block));
    return call;
}

/* ---- both ---- */

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct listen_sockets sockets;
    if (!rig || loop_open(&rig->loop))
        return -1;
    *state = rig;
    fake_intake_open(&rig->intake, rig->loop);
    rig->budget.limit_bytes = 64 << 20;
    rig->health = (struct health){no_problem, rig};
    rig->config = (struct config_otlp_grpc_server){.endpoint = {.host = "127.0.0.1"},
                                                   .max_recv_msg_size_bytes = MESSAGE_MAX,
                                                   .max_connections = 64};
    if (listen_open(&rig->config.endpoint, "grpc::endpoint", &sockets, NULL))
        return -1;
    rig->port = sockets.port;
    const struct grpc_server_settings settings = {.loop = rig->loop,
                                                  .intake = &rig->intake,
                                                  .budget = &rig->budget,
                                                  .health = &rig->health,
                                                  .config = &rig->config};
    peer_open(&rig->peer, rig->port);
    return grpc_server_open(&settings, &sockets, &rig->server);
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    peer_close(&rig->peer);
    grpc_server_close(rig->server);
    fake_intake_close(&rig->intake);
    int error = rig->budget.used_bytes ? -1 : 0;
    loop_close(rig->loop);
    free(rig);
    return error;
}

static void turns(struct rig *rig, int n)
{
    for (int i = 0; i < n; i++) {
        peer_turn(&rig->peer);
        assert_int_equal(loop_once(rig->loop, 1), 0);
    }
    peer_read(&rig->peer);
}

static bool all_answered(const struct test_peer *peer)
{
    for (size_t i = 0; i < peer->n; i++)
        if (!peer->calls[i].answered)
            return false;
    return true;
}

/* They are in less than the time after which a call makes room for others. */
static void assert_all_accepted(struct rig *rig)
{
    uint64_t end_ns = clock_monotonic_ns() + 4 * NS_PER_SEC;
    while (!all_answered(&rig->peer) && clock_monotonic_ns() < end_ns)
        turns(rig, 1);
    assert_true(all_answered(&rig->peer));
    assert_int_equal(rig->intake.n_requests, rig->peer.n);
}

static struct call *call(struct rig *rig, size_t size)
{
    struct call *begun = begin(&rig->peer, size);
    assert_all_accepted(rig);
    return begun;
}

static void become_calm(struct rig *rig)
{
    for (int i = 0; i < 2; i++)
        call(rig, 10);
    turns(rig, 20);
    assert_int_equal(rig->peer.initial, GRPC_CALL_CALM_WINDOW);
}

static void set_room(struct rig *rig, size_t bytes)
{
    rig->intake.admission.limit_bytes = bytes;
}

static void begin_many(struct test_peer *peer, size_t n, size_t size, size_t stops_at)
{
    for (size_t i = 0; i < n; i++)
        begin(peer, size)->stops_at = stops_at;
}

static void send_the_rest(struct test_peer *peer)
{
    for (size_t i = 0; i < peer->n; i++)
        peer->calls[i].stops_at = 0;
}

/* ---- calm ---- */

static void test_calm_calls_cost_no_update(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(call(rig, 33 * KB)->n_updates, 1); /* sent before SETTINGS have come */
    assert_int_equal(rig->peer.n_settings, 1);          /* it may have been the only one */
    become_calm(rig);
    assert_int_equal(rig->peer.n_settings, 2);
    for (int i = 0; i < 5; i++)
        assert_int_equal(call(rig, 33 * KB)->n_updates, 0);
    struct call *first = begin(&rig->peer, 33 * KB), *second = begin(&rig->peer, 48 * KB);
    assert_all_accepted(rig);
    assert_int_equal(first->n_updates + second->n_updates, 0);
    assert_int_equal(rig->peer.n_settings, 2);
}

static void test_calls_larger_than_the_window(void **state)
{
    struct rig *rig = *state;
    become_calm(rig);
    assert_true(call(rig, GRPC_CALL_CALM_WINDOW - GRPC_PREFIX_SIZE)->n_updates <= 2);
    assert_int_equal(call(rig, GRPC_CALL_CALM_WINDOW)->n_updates, 1);
    assert_true(call(rig, MESSAGE_MAX)->n_updates >= 3);
}

/* The server's SETTINGS are on their way: the peer has the window that it knows. */
static void test_not_calm_yet(void **state)
{
    struct rig *rig = *state;
    call(rig, 10);
    turns(rig, 5);
    rig->peer.ignores_settings = true;
    assert_true(call(rig, 33 * KB)->n_updates > 0);
    assert_true(call(rig, 90 * KB)->n_updates > 0);
    rig->peer.ignores_settings = false;
    assert_int_equal(call(rig, 10)->n_updates, 0);
    assert_int_equal(call(rig, 33 * KB)->n_updates, 0);
}

static void test_only_some_connections(void **state)
{
    enum { OTHERS = 32 };
    struct rig *rig = *state;
    int fds[OTHERS];
    for (size_t i = 0; i < OTHERS; i++)
        fds[i] = otlp_client_connect(rig->port, false);
    peer_close(&rig->peer);
    turns(rig, 0);
    peer_open(&rig->peer, rig->port);
    for (int i = 0; i < 3; i++)
        call(rig, 10);
    turns(rig, 20);
    assert_int_equal(rig->peer.initial, GRPC_CALL_FIRST_WINDOW);
    for (size_t i = 0; i < OTHERS; i++)
        close(fds[i]);
}

/* ---- crowded ---- */

static void test_a_crowd_has_small_windows_for_good(void **state)
{
    struct rig *rig = *state;
    become_calm(rig);
    begin_many(&rig->peer, H2_CALM_STREAMS, 10, 0);
    assert_all_accepted(rig);
    assert_int_equal(rig->peer.n_settings, 2);
    begin_many(&rig->peer, H2_CALM_STREAMS + 1, 10, 0);
    assert_all_accepted(rig);
    assert_int_equal(rig->peer.initial, GRPC_CALL_FIRST_WINDOW);
    for (int i = 0; i < 5; i++)
        call(rig, 33 * KB);
    assert_int_equal(rig->peer.n_settings, 3);
}

/* All of the old windows is used before the peer knows of the new one. */
static void test_crowd_before_the_peer_knows(void **state)
{
    struct rig *rig = *state;
    become_calm(rig);
    set_room(rig, 300 * KB);
    rig->intake.hold = true;
    rig->peer.ignores_settings = true;
    begin_many(&rig->peer, 30, 100 * KB, 0);
    turns(rig, 200);
    for (size_t i = rig->peer.n - 20; i < rig->peer.n; i++)
        assert_int_equal(rig->peer.calls[i].window, 0);
    rig->peer.ignores_settings = false;
    turns(rig, 20);
    assert_int_equal(rig->peer.initial, GRPC_CALL_FIRST_WINDOW);
    fake_intake_release(&rig->intake);
    assert_all_accepted(rig);
}

/* Most of a call came while it waited, and it is let in when its window is about to shrink: the
 * rest would fit into the old one only. */
static void test_let_in_before_the_peer_knows(void **state)
{
    struct rig *rig = *state;
    become_calm(rig);
    set_room(rig, 100 * KB);
    rig->intake.hold = true;
    rig->peer.ignores_settings = true;
    begin_many(&rig->peer, 1, 10, 0);
    begin_many(&rig->peer, 20, 90 * KB, 60 * KB);
    turns(rig, 200);
    assert_int_equal(rig->peer.n_settings, 3);
    set_room(rig, 32 << 20);
    fake_intake_release(&rig->intake);
    turns(rig, 50);
    rig->peer.ignores_settings = false;
    turns(rig, 50);
    send_the_rest(&rig->peer);
    assert_all_accepted(rig);
}

/* The same, but let in before the crowd comes: then all fits, and no window is widened. */
static void test_let_in_before_the_crowd(void **state)
{
    struct rig *rig = *state;
    become_calm(rig);
    set_room(rig, 50 * KB);
    rig->intake.hold = true;
    begin(&rig->peer, 10);
    struct call *waits = begin(&rig->peer, 90 * KB);
    waits->stops_at = 60 * KB;
    turns(rig, 50);
    fake_intake_release(&rig->intake);
    turns(rig, 20);
    assert_int_equal(rig->peer.n_settings, 2);
    begin_many(&rig->peer, H2_CALM_STREAMS, 10, 0);
    turns(rig, 20);
    assert_int_equal(rig->peer.initial, GRPC_CALL_FIRST_WINDOW);
    send_the_rest(&rig->peer);
    assert_all_accepted(rig);
}

/* Wider and narrower at once. */
static void test_crowd_before_it_was_calm(void **state)
{
    struct rig *rig = *state;
    call(rig, 10);
    set_room(rig, 300 * KB);
    rig->peer.ignores_settings = true;
    begin_many(&rig->peer, 30, 90 * KB, 0);
    turns(rig, 50);
    assert_int_equal(rig->peer.n_settings, 3);
    rig->peer.ignores_settings = false;
    assert_all_accepted(rig);
}

static void test_any_order(void **state)
{
    struct rig *rig = *state;
    srand(1);
    for (int round = 0; round < 60; round++) {
        peer_close(&rig->peer);
        peer_open(&rig->peer, rig->port);
        rig->intake.n_requests = 0;
        set_room(rig, (size_t)(rand() % 1000) * KB);
        while (rig->peer.n < CALLS_MAX - 1) {
            struct call *begun = begin(&rig->peer, (size_t)(rand() % (120 * KB)));
            begun->stops_at = rand() % 2 ? 0 : 1 + (size_t)rand() % begun->size;
            rig->peer.ignores_settings = rand() % 3;
            turns(rig, rig->peer.n < 4 ? 4 : rand() % 2);
            if (rand() % 4 == 0)
                send_the_rest(&rig->peer);
        }
        send_the_rest(&rig->peer);
        rig->peer.ignores_settings = false;
        assert_all_accepted(rig);
    }
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_calm_calls_cost_no_update),
        RIG_TEST(test_calls_larger_than_the_window),
        RIG_TEST(test_not_calm_yet),
        RIG_TEST(test_only_some_connections),
        RIG_TEST(test_a_crowd_has_small_windows_for_good),
        RIG_TEST(test_crowd_before_the_peer_knows),
        RIG_TEST(test_let_in_before_the_peer_knows),
        RIG_TEST(test_let_in_before_the_crowd),
        RIG_TEST(test_crowd_before_it_was_calm),
        RIG_TEST(test_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What stands between a socket that was accepted and the server behind it: handshake, proxy,
 * HTTP/2. */
#include "base/clock.h"
#include "base/stats.h"
#include "proto/tls/tls_proxy.h"
#include "proto/tls/tls_accept.h"
#include "test/support/net/h2_end.h"
#include "test/support/net/tls_rig.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { BODY_BYTES = 3000000 };

static bool never(void *context)
{
    (void)context;
    return false;
}

/* ---- handshakes ---- */

struct accept_rig {
    struct tls_accept handshakes;
    struct tls *tls; /* of the one that passed */
    int fd;
    unsigned n_passed;
};

static void on_passed(struct tls_accept *handshakes, struct tls *tls, int fd)
{
    struct accept_rig *at = container_of(handshakes, struct accept_rig, handshakes);
    assert_null(at->tls);
    at->n_passed++;
    at->tls = tls;
    at->fd = fd;
}

static bool is_hung_up(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static int64_t crowded_out(void)
{
    return stats_find("spanprof_tls_handshakes_total", "role=\"server\",outcome=\"crowded_out\"");
}

/* Silent peers reach the limit of handshakes; one that speaks passes, and the oldest is ended. */
static void test_too_many_handshakes(void **state)
{
    struct tls_rig *rig = *state;
    enum { SILENT = TLS_ACCEPT_MAX + 5 };
    int silent[SILENT][2], pair[2];
    char why[TLS_WHY_MAX];
    int64_t before = crowded_out();
    assert_int_equal(tls_context_open(&rig->server_end.settings, &rig->server_end.material,
                                      &rig->server_end.context, why),
                     0);
    assert_int_equal(tls_context_open(&rig->client_end.settings, &rig->client_end.material,
                                      &rig->client_end.context, why),
                     0);
    struct accept_rig at = {.handshakes = {.loop = rig->loop,
                                           .context = rig->server_end.context,
                                           .area = "test",
                                           .passed = on_passed}};
    tls_accept_init(&at.handshakes);
    for (int i = 0; i < SILENT; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, silent[i]), 0);
        tls_accept_enter(&at.handshakes, silent[i][0]);
    }
    assert_int_equal(at.handshakes.n_entering, TLS_ACCEPT_MAX);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    tls_accept_enter(&at.handshakes, pair[0]);
    assert_int_equal(tls_handshake_start(&rig->client_end.handshake, rig->loop,
                                         rig->client_end.context, pair[1], NS_PER_SEC),
                     0);
    assert_true(tls_rig_await(rig, &rig->client_end));
    h2_run_loop(rig->loop, never, NULL, 50);
    assert_int_equal(at.n_passed, 1);
    assert_int_equal(crowded_out(), before + 6);
    for (int i = 0; i < SILENT; i++)
        assert_true(is_hung_up(silent[i][1]) == (i < 6));
    assert_int_equal(at.handshakes.n_entering, TLS_ACCEPT_MAX - 1);
    tls_accept_close(&at.handshakes);
    tls_accept_close(&at.handshakes);
    for (int i = 0; i < SILENT; i++) {
        assert_true(is_hung_up(silent[i][1]));
        close(silent[i][1]);
    }
    tls_close(at.tls);
    close(at.fd);
}

/* ---- the proxy ---- */

struct crossing {
    struct tls_rig *rig;
    struct tls_proxies proxies;
    int plain; /* the server behind it */
};

static void open_proxy(struct crossing *at, struct tls_rig *rig)
{
    tls_rig_handshake(rig);
    at->rig = rig;
    tls_proxies_init(&at->proxies, rig->loop);
    struct tls *tls = rig->server_end.tls;
    int fd = rig->server_end.fd;
    rig->server_end.tls = NULL;
    rig->server_end.fd = -1;
    assert_int_equal(tls_proxy_open(&at->proxies, tls, fd, &at->plain), 0);
    assert_int_equal(at->proxies.n, 1);
}

static void fill(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 13 + i / 253);
}

static size_t at_least_zero(ssize_t n)
{
    assert_true(n > 0 || n == -EAGAIN || (n < 0 && errno == EAGAIN));
    return n > 0 ? (size_t)n : 0;
}

static void test_proxy_bytes(void **state)
{
    struct crossing at;
    uint8_t *data = malloc(BODY_BYTES), *seen = malloc(BODY_BYTES);
    size_t sent = 0, n_seen = 0, back = 0, n_back = 0;
    open_proxy(&at, *state);
    struct tls *client = at.rig->client_end.tls;
    fill(data, BODY_BYTES);
    while (n_seen < BODY_BYTES) {
        if (sent < BODY_BYTES)
            sent += at_least_zero(tls_write(client, data + sent, BODY_BYTES - sent));
        assert_int_equal(loop_once(at.rig->loop, 1), 0);
        n_seen += at_least_zero(read(at.plain, seen + n_seen, BODY_BYTES - n_seen));
    }
    assert_memory_equal(data, seen, BODY_BYTES);
    while (n_back < BODY_BYTES) {
        if (back < BODY_BYTES)
            back += at_least_zero(write(at.plain, data + back, BODY_BYTES - back));
        assert_int_equal(loop_once(at.rig->loop, 1), 0);
        uint8_t room[65536];
        size_t n = at_least_zero(tls_read(client, room, sizeof(room)));
        memcpy(seen + n_back, room, n);
        n_back += n;
    }
    assert_memory_equal(data, seen, BODY_BYTES);
    close(at.plain);
    tls_proxies_close(&at.proxies);
    free(data);
    free(seen);
}

/* A server that answers and closes at once, with the request half read: the answer arrives. */
static void test_proxy_server_ends(void **state)
{
    struct crossing at;
    uint8_t *data = malloc(BODY_BYTES), room[1000];
    size_t sent = 0, seen = 0;
    open_proxy(&at, *state);
    struct tls *client = at.rig->client_end.tls;
    fill(data, BODY_BYTES);
    while (sent < 100000) {
        sent += at_least_zero(tls_write(client, data + sent, BODY_BYTES - sent));
        assert_int_equal(loop_once(at.rig->loop, 1), 0);
    }
    assert_int_equal(read(at.plain, room, 500), 500);
    assert_int_equal(write(at.plain, "answer", 6), 6);
    close(at.plain);
    for (int i = 0; i < 100 && at.proxies.n; i++)
        assert_int_equal(loop_once(at.rig->loop, 5), 0);
    assert_int_equal(at.proxies.n, 0);
    seen = at_least_zero(tls_read(client, room, sizeof(room)));
    assert_int_equal(seen, 6);
    assert_memory_equal(room, "answer", 6);
    assert_true(tls_read(client, room, sizeof(room)) != -EAGAIN);
    free(data);
}

static bool bridge_is_gone(void *context)
{
    return ((struct crossing *)context)->proxies.n == 0;
}

static void test_proxy_client_ends(void **state)
{
    struct crossing at;
    char room[100];
    open_proxy(&at, *state);
    assert_int_equal(tls_write(at.rig->client_end.tls, "request", 7), 7);
    tls_close(at.rig->client_end.tls);
    at.rig->client_end.tls = NULL;
    close(at.rig->client_end.fd);
    at.rig->client_end.fd = -1;
    h2_run_loop(at.rig->loop, never, NULL, 30);
    assert_int_equal(read(at.plain, room, sizeof(room)), 7);
    assert_int_equal(read(at.plain, room, sizeof(room)), 0); /* the server sees its end */
    assert_int_equal(at.proxies.n, 1);                       /* and may still answer */
    close(at.plain);
    assert_true(h2_run_loop(at.rig->loop, bridge_is_gone, &at, 5000));
}

/* What is said last leaves before the end. */
static void test_proxys_closed(void **state)
{
    struct crossing at;
    char room[100];
    open_proxy(&at, *state);
    assert_int_equal(write(at.plain, "last word", 9), 9);
    tls_proxies_close(&at.proxies);
    assert_int_equal(tls_read(at.rig->client_end.tls, room, sizeof(room)), 9);
    assert_int_equal(tls_read(at.rig->client_end.tls, room, sizeof(room)), 0);
    close(at.plain);
}

/* ---- HTTP/2 ---- */

static const struct h2_header headers[] = {
    {":method", {(const uint8_t *)"POST", 4}, false},
    {":scheme", {(const uint8_t *)"https", 5}, false},
    {":path", {(const uint8_t *)"/x", 2}, false},
    {":authority", {(const uint8_t *)"here", 4}, false},
};

static void open_h2(struct h2_end *end, struct tls_rig *rig, struct tls_end *from, bool server)
{
    struct h2_settings settings = h2_pair_settings(&(struct h2_settings){0}, server);
    h2_end_init(end);
    end->is_server = server;
    settings.tls = from->tls;
    assert_int_equal(h2_open(rig->loop, from->fd, &settings, &h2_end_handler, end, &end->conn), 0);
    from->tls = NULL;
    from->fd = -1;
}

static bool stream_closed(void *context)
{
    return ((struct h2_end_stream *)context)->closed;
}

static bool end_ended(void *context)
{
    return ((struct h2_end *)context)->ended;
}

static void test_h2(void **state)
{
    struct tls_rig *rig = *state;
    struct h2_end client, server;
    struct buf body = BUF_INIT(0);
    tls_rig_handshake(rig);
    open_h2(&client, rig, &rig->client_end, false);
    open_h2(&server, rig, &rig->server_end, true);
    assert_int_equal(buf_reserve(&body, BODY_BYTES), 0);
    body.len = BODY_BYTES;
    fill(body.data, body.len);
    struct h2_end_stream *stream =
        h2_end_request(&client, headers, sizeof(headers) / sizeof(headers[0]), &body);
    assert_true(h2_run_loop(rig->loop, stream_closed, stream, 20000));
    assert_int_equal(stream->h2_error, 0);
    assert_int_equal(stream->body.len, BODY_BYTES);
    uint8_t *expected = malloc(BODY_BYTES);
    fill(expected, BODY_BYTES);
    assert_memory_equal(stream->body.data, expected, BODY_BYTES);
    free(expected);
    h2_shutdown(server.conn);
    assert_true(h2_run_loop(rig->loop, end_ended, &server, 5000));
    assert_int_equal(server.error, 0);
    assert_true(h2_run_loop(rig->loop, end_ended, &client, 5000));
    assert_int_equal(client.error, 0);
    h2_end_clear(&client);
    h2_end_clear(&server);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, tls_rig_setup, tls_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_too_many_handshakes), RIG_TEST(test_proxy_bytes),
        RIG_TEST(test_proxy_server_ends),   RIG_TEST(test_proxy_client_ends),
        RIG_TEST(test_proxys_closed),       RIG_TEST(test_h2),
    };
    return cmocka_run_group_tests_name("tls_server", tests, NULL, NULL);
}

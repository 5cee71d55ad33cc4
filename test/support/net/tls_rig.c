/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/tls_rig.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static void on_done(struct tls_handshake *handshake, enum tls_outcome outcome, const char *why)
{
    struct tls_end *end = container_of(handshake, struct tls_end, handshake);
    assert_false(end->done);
    end->done = true;
    end->outcome = outcome;
    snprintf(end->why, sizeof(end->why), "%s", why);
    if (outcome == TLS_OK) {
        end->tls = handshake->tls;
        end->fd = handshake->fd;
        handshake->tls = NULL;
        handshake->fd = -1;
    }
    tls_handshake_stop(handshake); /* the peer sees the end */
}

static void end_init(struct tls_end *end)
{
    *end = (struct tls_end){.fd = -1, .handshake = {.fd = -1, .done = on_done}};
}

static void presets(struct tls_rig *rig)
{
    end_init(&rig->server_end);
    end_init(&rig->client_end);
    rig->raw = -1;
    rig->server_end.settings = (struct tls_settings){.server = true,
                                                     .name = "the server",
                                                     .min_version = TLS_1_2,
                                                     .max_version = TLS_1_3,
                                                     .alpn = "h2",
                                                     .alpn_required = true};
    rig->server_end.material = (struct tls_material){.certificate = certificate_pem(&rig->server),
                                                     .key = certificate_key(&rig->server)};
    rig->client_end.settings = (struct tls_settings){.name = "the client",
                                                     .min_version = TLS_1_2,
                                                     .max_version = TLS_1_3,
                                                     .alpn = "h2",
                                                     .alpn_required = true,
                                                     .server_name = "backend.example"};
    rig->client_end.material = (struct tls_material){.cas = certificate_pem(&rig->ca)};
}

int tls_rig_setup(void **state)
{
    struct tls_rig *rig = calloc(1, sizeof(*rig));
    if (!rig || loop_open(&rig->loop))
        return -1;
    certificate_make(&rig->ca, &(struct certificate_wish){.name = "ca", .ca = true});
    certificate_make(&rig->other_ca, &(struct certificate_wish){.name = "other", .ca = true});
    certificate_make(&rig->server, &(struct certificate_wish){.name = "server",
                                                              .issuer = &rig->ca,
                                                              .host = "backend.example",
                                                              .address = "192.0.2.1"});
    certificate_make(&rig->client, &(struct certificate_wish){
                                       .name = "client", .issuer = &rig->ca, .for_clients = true});
    presets(rig);
    *state = rig;
    return 0;
}

static void end_clear(struct tls_end *end)
{
    tls_handshake_stop(&end->handshake);
    tls_close(end->tls);
    tls_context_close(end->context);
    if (end->fd >= 0)
        close(end->fd);
}

void tls_rig_reset(struct tls_rig *rig)
{
    end_clear(&rig->server_end);
    end_clear(&rig->client_end);
    if (rig->raw >= 0)
        close(rig->raw);
    presets(rig);
}

int tls_rig_teardown(void **state)
{
    struct tls_rig *rig = *state;
    tls_rig_reset(rig);
    certificate_free(&rig->client);
    certificate_free(&rig->server);
    certificate_free(&rig->other_ca);
    certificate_free(&rig->ca);
    loop_close(rig->loop);
    free(rig);
    return 0;
}

static void open_context(struct tls_end *end)
{
    char why[TLS_WHY_MAX];
    if (!end->context && tls_context_open(&end->settings, &end->material, &end->context, why))
        fail_msg("%s", why);
}

static void socket_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

void tls_rig_start(struct tls_rig *rig, uint64_t timeout_ns)
{
    int fds[2];
    struct tls_end *ends[2] = {&rig->server_end, &rig->client_end};
    socket_pair(fds);
    for (int i = 0; i < 2; i++) {
        open_context(ends[i]);
        assert_int_equal(tls_handshake_start(&ends[i]->handshake, rig->loop, ends[i]->context,
                                             fds[i], timeout_ns),
                         0);
    }
}

void tls_rig_raw(struct tls_rig *rig, uint64_t timeout_ns)
{
    int fds[2];
    socket_pair(fds);
    open_context(&rig->server_end);
    assert_int_equal(tls_handshake_start(&rig->server_end.handshake, rig->loop,
                                         rig->server_end.context, fds[0], timeout_ns),
                     0);
    rig->raw = fds[1];
}

bool tls_rig_await(struct tls_rig *rig, const struct tls_end *end)
{
    uint64_t until_ns = clock_monotonic_ns() + 10 * NS_PER_SEC;
    while (!end->done && clock_monotonic_ns() < until_ns)
        assert_int_equal(loop_once(rig->loop, 20), 0);
    return end->done;
}

void tls_rig_handshake(struct tls_rig *rig)
{
    tls_rig_start(rig, 10 * NS_PER_SEC);
    assert_true(tls_rig_await(rig, &rig->server_end));
    assert_true(tls_rig_await(rig, &rig->client_end));
}

void tls_rig_pass(struct tls_end *from, struct tls_end *to, size_t size, size_t piece)
{
    uint8_t *sent = malloc(size), *seen = malloc(size), *room = malloc(65536);
    size_t n_sent = 0, n_seen = 0;
    unsigned waits = 0;
    assert_true(sent && seen && room);
    for (size_t i = 0; i < size; i++)
        sent[i] = (uint8_t)(i * 31 + i / 257);
    while (n_seen < size) {
        ssize_t n = n_sent == size ? -EAGAIN
                                   : tls_write(from->tls, sent + n_sent,
                                               size - n_sent < piece ? size - n_sent : piece);
        assert_true(n > 0 || n == -EAGAIN);
        waits += n == -EAGAIN && n_sent < size;
        n_sent += n > 0 ? (size_t)n : 0;
        if (n > 0 && waits % 3 == 0) /* a reader that comes late */
            continue;
        n = tls_read(to->tls, room, 65536);
        assert_true(n > 0 || n == -EAGAIN);
        if (n > 0)
            memcpy(seen + n_seen, room, (size_t)n);
        n_seen += n > 0 ? (size_t)n : 0;
        assert_true(n_seen <= n_sent);
    }
    assert_memory_equal(sent, seen, size);
    free(sent);
    free(seen);
    free(room);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What clients say first, and which of them wait. */
#include "proto/http/http_sniffer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { TOLD_MAX = HTTP_SNIFFER_MAX + 8 };

struct rig {
    struct loop *loop;
    struct http_sniffer sniffer;
    size_t n_told;
    struct {
        int fd;
        enum http_version version;
    } told[TOLD_MAX];
};

static void on_told(struct http_sniffer *sniffer, const struct http_arrival *arrival,
                    enum http_version version)
{
    struct rig *rig = container_of(sniffer, struct rig, sniffer);
    assert_true(rig->n_told < TOLD_MAX);
    assert_int_equal(arrival->peer_key, 7);
    assert_int_equal(arrival->peer.uid, 8);
    rig->told[rig->n_told].fd = arrival->fd;
    rig->told[rig->n_told++].version = version;
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_int_equal(loop_open(&rig->loop), 0);
    rig->sniffer = (struct http_sniffer){.loop = rig->loop, .own = HTTP_1, .told = on_told};
    http_sniffer_init(&rig->sniffer);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    http_sniffer_stop(&rig->sniffer);
    loop_close(rig->loop);
    free(rig);
    return 0;
}

struct client {
    int ours, its;
};

static struct client client_open(void)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    return (struct client){.ours = fds[0], .its = fds[1]};
}

static void client_say(const struct client *client, const char *text)
{
    assert_int_equal(send(client->its, text, strlen(text), 0), strlen(text));
}

static void client_close(const struct client *client)
{
    close(client->its);
    close(client->ours);
}

static void enter(struct rig *rig, const struct client *client)
{
    http_sniffer_enter(&rig->sniffer, &(struct http_arrival){
                                          .fd = client->ours, .peer = {.uid = 8}, .peer_key = 7});
}

static void run_until_told(struct rig *rig, size_t n)
{
    uint64_t end_ns = clock_monotonic_ns() + 10 * NS_PER_SEC;
    while (rig->n_told < n) {
        assert_true(clock_monotonic_ns() < end_ns);
        assert_int_equal(loop_once(rig->loop, 100), 0);
    }
}

/* Both before the server looks, and later. All that was said is still in the socket. */
static void test_first_bytes(void **state)
{
    static const struct {
        const char *said;
        enum http_version of_http1, of_http2; /* on a port for it */
    } rows[] = {
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP_2, HTTP_2},
        {"POST /v1/traces HTTP/1.1\r\n", HTTP_1, HTTP_1},
        {"OPTIONS * HTTP/1.1\r\n", HTTP_1, HTTP_1},
        {"PUT / HTTP/1.1\r\n", HTTP_1, HTTP_1},
        {"\x16\x03\x01\x02", HTTP_1, HTTP_2},
        {"post /v1/traces", HTTP_1, HTTP_2},
        {"PR", HTTP_1, HTTP_2},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < 4 * sizeof(rows) / sizeof(rows[0]); i++) {
        const char *said = rows[i / 4].said;
        struct client client = client_open();
        char in_socket[64];
        rig->sniffer.own = i % 2 ? HTTP_1 : HTTP_2;
        rig->n_told = 0;
        if (i % 4 < 2)
            client_say(&client, said);
        enter(rig, &client);
        assert_int_equal(rig->n_told, i % 4 < 2);
        if (i % 4 >= 2)
            client_say(&client, said);
        run_until_told(rig, 1);
        assert_int_equal(rig->told[0].fd, client.ours);
        assert_int_equal(rig->told[0].version, i % 2 ? rows[i / 4].of_http1 : rows[i / 4].of_http2);
        assert_int_equal(recv(client.ours, in_socket, sizeof(in_socket), 0), strlen(said));
        client_close(&client);
    }
}

static void test_end_before_a_word(void **state)
{
    struct rig *rig = *state;
    struct client early = client_open(), late = client_open();
    assert_int_equal(shutdown(early.its, SHUT_RDWR), 0);
    enter(rig, &early);
    assert_int_equal(rig->n_told, 1);
    enter(rig, &late);
    assert_int_equal(shutdown(late.its, SHUT_RDWR), 0);
    run_until_told(rig, 2);
    assert_int_equal(rig->told[0].version, HTTP_1);
    assert_int_equal(rig->told[1].version, HTTP_1);
    client_close(&early);
    client_close(&late);
}

static void test_silence(void **state)
{
    struct rig *rig = *state;
    struct client first = client_open(), second = client_open();
    uint64_t began_ns = clock_monotonic_ns();
    enter(rig, &first);
    assert_int_equal(loop_once(rig->loop, 100), 0);
    enter(rig, &second);
    run_until_told(rig, 1);
    assert_true(clock_monotonic_ns() - began_ns >= HTTP_SNIFFER_WAIT_NS);
    run_until_told(rig, 2);
    assert_int_equal(rig->told[0].fd, first.ours);
    assert_int_equal(rig->told[1].fd, second.ours);
    client_close(&first);
    client_close(&second);
}

/* The one that waits longest goes to the port's own server; nothing is closed. */
static void test_many(void **state)
{
    struct rig *rig = *state;
    struct client clients[HTTP_SNIFFER_MAX + 2];
    for (size_t i = 0; i < HTTP_SNIFFER_MAX + 2; i++) {
        clients[i] = client_open();
        enter(rig, &clients[i]);
    }
    assert_int_equal(rig->n_told, 2);
    assert_int_equal(rig->told[0].fd, clients[0].ours);
    assert_int_equal(rig->told[1].fd, clients[1].ours);
    http_sniffer_stop(&rig->sniffer);
    assert_int_equal(rig->n_told, HTTP_SNIFFER_MAX + 2);
    for (size_t i = 0; i < HTTP_SNIFFER_MAX + 2; i++) {
        assert_int_equal(rig->told[i].version, HTTP_1);
        client_close(&clients[i]);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_first_bytes),
        TEST(test_end_before_a_word),
        TEST(test_silence),
        TEST(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

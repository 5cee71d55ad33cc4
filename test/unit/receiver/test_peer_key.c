/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/peer_key.h"
#include "test/support/fixtures/skip.h"
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static const struct peer unknown = {.uid = PEER_UID_UNKNOWN};

/* The peer of a connection from one address of loopback. */
static uint64_t peer_from(const char *from_v4, int family)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT}}, from;
    socklen_t size = sizeof(address.v6);
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        skip_because("no IPv6");
    assert_int_equal(bind(listener, &address.any, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, &address.any, &size), 0);
    in_port_t port = address.v6.sin6_port;
    int client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(&from, 0, sizeof(from));
    if (family == AF_INET) {
        from.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                       .sin_addr.s_addr =
                                           (in_addr_t)htonl(0x7f000000u + (unsigned)atoi(from_v4))};
        assert_int_equal(bind(client, &from.any, sizeof(from.v4)), 0);
        address.v4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        size = sizeof(address.v4);
    } else {
        address.v6.sin6_addr = (struct in6_addr)IN6ADDR_LOOPBACK_INIT;
    }
    assert_int_equal(connect(client, &address.any, size), 0);
    int fd = accept(listener, NULL, NULL);
    uint64_t peer = peer_key(&unknown, fd);
    close(fd);
    close(client);
    close(listener);
    return peer;
}

/* A local process chooses its address within loopback: that makes it no other peer. */
static void test_loopback_is_one(void **state)
{
    (void)state;
    uint64_t peer = peer_from("1", AF_INET);
    assert_true(peer);
    assert_true(peer_from("7", AF_INET) == peer);
    assert_true(peer_from("", AF_INET6) == peer);
}

static void test_what_is_known(void **state)
{
    const struct peer peers[] = {
        {.cgroup_id = 7, .uid = 1000}, {.cgroup_id = 8, .uid = 1000}, {.uid = 1000}, {.uid = 1001}};
    (void)state;
    for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++)
        for (size_t j = 0; j < sizeof(peers) / sizeof(*peers); j++)
            assert_int_equal(peer_key(&peers[i], -1) == peer_key(&peers[j], -1), i == j);
    const struct peer other_user = {.cgroup_id = 7, .uid = 0};
    assert_true(peer_key(&peers[0], -1) == peer_key(&other_user, -1)); /* one container */
}

static void test_no_peer(void **state)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(peer_key(&unknown, fd), 0);
    assert_int_equal(peer_key(&unknown, -1), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback_is_one),
        cmocka_unit_test(test_what_is_known),
        cmocka_unit_test(test_no_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

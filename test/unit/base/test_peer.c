/* SPDX-License-Identifier: Apache-2.0 */
/* The peer is this process, so what is known of it is compared with what we know of ourselves. */
#include "base/peer.h"
#include "base/cgroup.h"
#include "base/fd.h"
#include "test/support/fixtures/skip.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { OTHER_UID = 65534 };

static uint64_t own_cgroup(void)
{
    char mount[256], text[8192];
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof(text));
    close(fd);
    if (n <= 0 || !cgroup_mount_find(mount, sizeof(mount)))
        return 0;
    return cgroup_id_of_path(mount, cgroup_path_of_text(BYTES(text, (size_t)n)));
}

struct pair {
    int listener, client, server;
};

static void pair_connect(struct pair *pair, int family, const struct sockaddr_in6 *bound)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = *bound};
    const int off = 0;
    socklen_t size = sizeof(address);
    pair->listener = socket(bound->sin6_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(pair->listener >= 0);
    if (bound->sin6_family == AF_INET6)
        setsockopt(pair->listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    assert_int_equal(bind(pair->listener, &address.any, size), 0);
    assert_int_equal(listen(pair->listener, 1), 0);
    assert_int_equal(getsockname(pair->listener, &address.any, &size), 0);
    if (family == AF_INET) {
        address.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = address.v4.sin_port,
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        size = sizeof(address.v4);
    } else {
        address.v6.sin6_addr = in6addr_loopback;
    }
    pair->client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(pair->client, &address.any, size), 0);
    pair->server = accept(pair->listener, NULL, NULL);
    assert_true(pair->server >= 0);
}

static void pair_close(struct pair *pair)
{
    fd_closep(&pair->client);
    fd_closep(&pair->server);
    fd_closep(&pair->listener);
}

static void check_is_us(const struct peer *peer)
{
    assert_int_equal(peer->uid, geteuid());
    if (own_cgroup())
        assert_int_equal(peer->cgroup_id, own_cgroup());
}

static void check_tcp(struct peer_finder *finder, int client, const struct sockaddr_in6 *bound)
{
    struct pair pair;
    struct peer peer;
    pair_connect(&pair, client, bound);
    assert_true(peer_find(finder, pair.server, &peer));
    check_is_us(&peer);
    assert_true(peer_find(finder, pair.server, &peer)); /* again */
    pair_close(&pair);
}

static const struct sockaddr_in6 any_v6 = {.sin6_family = AF_INET6};
static const struct sockaddr_in6 any_v4 = {.sin6_family = AF_INET};

static void test_tcp(void **state)
{
    struct peer_finder finder;
    (void)state;
    peer_finder_open(&finder);
    check_tcp(&finder, AF_INET, &any_v4);
    check_tcp(&finder, AF_INET6, &any_v6);
    check_tcp(&finder, AF_INET, &any_v6); /* ::ffff:127.0.0.1 */
    peer_finder_close(&finder);
}

/* Puts a listener where the client of a pair was. False: another program took the port in between.
 */
static bool listener_at_the_port_of_client(struct pair *pair, int *listener)
{
    struct sockaddr_in address;
    const struct linger reset = {.l_onoff = 1};
    const int on = 1;
    socklen_t size = sizeof(address);
    assert_int_equal(getsockname(pair->client, (struct sockaddr *)&address, &size), 0);
    setsockopt(pair->client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    fd_closep(&pair->client);
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(*listener, (struct sockaddr *)&address, size) == 0 && listen(*listener, 1) == 0)
        return true;
    assert_int_equal(errno, EADDRINUSE);
    fd_closep(listener);
    return false;
}

/* The other end is gone; a listener has its port. It must not count as the peer. */
static void test_listener_at_the_port(void **state)
{
    struct peer_finder finder;
    struct pair pair;
    struct peer peer;
    int listener;
    (void)state;
    peer_finder_open(&finder);
    pair_connect(&pair, AF_INET, &any_v4);
    for (int i = 0; !listener_at_the_port_of_client(&pair, &listener); i++) {
        assert_true(i < 100);
        pair_close(&pair);
        pair_connect(&pair, AF_INET, &any_v4);
    }
    assert_false(peer_find(&finder, pair.server, &peer));
    assert_int_equal(peer.cgroup_id, 0);
    assert_int_equal(peer.uid, PEER_UID_UNKNOWN);
    close(listener);
    pair_close(&pair);
    peer_finder_close(&finder);
}

static void test_unix(void **state)
{
    struct peer_finder finder;
    struct peer peer;
    int fds[2];
    (void)state;
    peer_finder_open(&finder);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_true(peer_find(&finder, fds[0], &peer));
    check_is_us(&peer);
    close(fds[0]);
    close(fds[1]);
    peer_finder_close(&finder);
}

/* A pair that a child made and left us; its process has ended, so its cgroup is not known. */
static void test_process_has_ended(void **state)
{
    struct peer_finder finder;
    struct peer peer;
    int fds[2], pidfd = -1;
    socklen_t size = sizeof(pidfd);
    (void)state;
    peer_finder_open(&finder);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    if (getsockopt(fds[0], SOL_SOCKET, 77, &pidfd, &size)) {
        close(fds[0]);
        close(fds[1]);
        peer_finder_close(&finder);
        skip_because("SO_PEERPIDFD needs Linux 6.5");
    }
    close(pidfd);
    pid_t child = fork();
    if (child == 0) {
        int pair[2];
        char control[CMSG_SPACE(sizeof(int))] = {0};
        char byte = 0;
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
            _exit(1);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
        _exit(sendmsg(fds[1], &message, 0) != 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    int left;
    assert_int_equal(recvmsg(fds[0], &message, 0), 1);
    memcpy(&left, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(left));
    assert_true(peer_find(&finder, left, &peer));
    assert_int_equal(peer.uid, geteuid());
    assert_int_equal(peer.cgroup_id, 0);
    close(left);
    close(fds[0]);
    close(fds[1]);
    peer_finder_close(&finder);
}

/* Neither the answer nor the question needs a right. */
static void test_other_user(void **state)
{
    struct pair pair;
    (void)state;
    if (geteuid() != 0)
        skip_because("root is needed");
    pair_connect(&pair, AF_INET, &any_v4);
    pid_t child = fork();
    if (child == 0) {
        struct peer_finder finder;
        struct peer peer;
        if (setresuid(OTHER_UID, OTHER_UID, OTHER_UID))
            _exit(1);
        peer_finder_open(&finder);
        bool found = peer_find(&finder, pair.server, &peer) && peer.uid == 0;
        _exit(found ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pair_close(&pair);
}

static void test_no_socket(void **state)
{
    struct peer_finder finder;
    struct peer peer;
    (void)state;
    peer_finder_open(&finder);
    assert_false(peer_find(&finder, STDERR_FILENO + 100, &peer));
    assert_int_equal(peer.uid, PEER_UID_UNKNOWN);
    peer_finder_close(&finder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp),        cmocka_unit_test(test_listener_at_the_port),
        cmocka_unit_test(test_unix),       cmocka_unit_test(test_process_has_ended),
        cmocka_unit_test(test_other_user), cmocka_unit_test(test_no_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

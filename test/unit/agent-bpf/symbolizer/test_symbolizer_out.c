/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer's send queue: order, congestion, descriptors, and a peer that is gone. */
#include "agent-bpf/symbolizer/symbolizer_out.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define RESOURCE_BYTES 60000

struct fixture {
    struct symbolizer_out out;
    int peer;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    int fds[2], size = 256 * 1024;
    assert_non_null(fixture);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    symbolizer_out_init(&fixture->out, fds[0]);
    fixture->peer = fds[1];
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    symbolizer_out_close(&fixture->out);
    close(fixture->out.fd);
    if (fixture->peer >= 0)
        close(fixture->peer);
    free(fixture);
    return 0;
}

/* A large message, with its number as pid. */
static void send_large(struct fixture *fixture, uint32_t number)
{
    static const uint8_t resource[RESOURCE_BYTES];
    symbolizer_send(&fixture->out,
                    &(struct symbolizer_message){
                        .kind = SYMBOLIZER_CONTEXT,
                        .context = {.pid = number, .resource = BYTES(resource, RESOURCE_BYTES)}});
}

/* The number of the next message, and a descriptor that came with it; -1: there is none. */
static int64_t receive(struct fixture *fixture, int *fd)
{
    static uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {.iov_base = datagram, .iov_len = sizeof(datagram)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(fixture->peer, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -1;
    struct symbolizer_message message;
    struct arena arena;
    arena_init(&arena, 65536);
    assert_int_equal(symbolizer_message_decode(BYTES(datagram, (size_t)n), &arena, &message), 0);
    int64_t number = message.kind == SYMBOLIZER_CONTEXT ? message.context.pid : message.process.pid;
    arena_close(&arena);
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
    *fd = -1;
    if (cmsg)
        memcpy(fd, CMSG_DATA(cmsg), sizeof(*fd));
    return number;
}

static void order_and_congestion(void **state)
{
    struct fixture *fixture = *state;
    uint32_t n = 0, expected = 0;
    int fd;
    while (!symbolizer_congested(&fixture->out) && n < 10000)
        send_large(fixture, n++);
    assert_true(symbolizer_congested(&fixture->out));
    assert_true(fixture->out.bytes > SYMBOLIZER_OUT_BYTES_MAX);
    assert_true(fixture->out.bytes < SYMBOLIZER_OUT_BYTES_MAX + SYMBOLIZER_MESSAGE_MAX);
    for (int64_t number; (number = receive(fixture, &fd)) >= 0; symbolizer_flush(&fixture->out))
        assert_int_equal(number, expected++);
    assert_int_equal(expected, n);
    assert_false(symbolizer_congested(&fixture->out));
    assert_true(list_empty(&fixture->out.unsent));
    assert_int_equal(fixture->out.bytes, 0);
}

static void descriptors(void **state)
{
    struct fixture *fixture = *state;
    uint32_t n_large = 0, n_fds = 0;
    while (list_empty(&fixture->out.unsent)) /* the socket is full from here on */
        send_large(fixture, n_large++);
    for (uint32_t i = 0; i < SYMBOLIZER_OUT_FDS_MAX + 10; i++) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        symbolizer_send_fd(&fixture->out,
                           &(struct symbolizer_message){.kind = SYMBOLIZER_CORRELATION,
                                                        .process = {.pid = 1000 + i}},
                           fd);
    }
    assert_int_equal(fixture->out.n_fds, SYMBOLIZER_OUT_FDS_MAX);
    int fd;
    for (int64_t number; (number = receive(fixture, &fd)) >= 0; symbolizer_flush(&fixture->out)) {
        assert_int_equal(number < 1000, fd < 0);
        if (fd < 0)
            continue;
        assert_int_equal(number, 1000 + n_fds++);
        assert_int_equal(close(fd), 0);
    }
    assert_int_equal(n_fds, SYMBOLIZER_OUT_FDS_MAX); /* those beyond the limit are lost */
    assert_int_equal(fixture->out.n_fds, 0);
    assert_int_equal(fixture->out.bytes, 0);
}

/* Nothing waits for a peer that is gone: the end is noticed when reading. */
static void peer_gone(void **state)
{
    struct fixture *fixture = *state;
    close(fixture->peer);
    fixture->peer = -1;
    send_large(fixture, 1);
    assert_true(list_empty(&fixture->out.unsent));
    assert_int_equal(fixture->out.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(order_and_congestion, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(peer_gone, setup, teardown),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}

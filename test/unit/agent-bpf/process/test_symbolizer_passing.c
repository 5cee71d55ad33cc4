/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that come with the symbolizer's messages: one of one kind is taken, all others are
 * closed, whatever the symbolizer sends. */
#include "agent-bpf/process/symbolizer_client.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define FDS_MAX 300 /* more than one message may hold */

struct passing {
    struct loop *loop;
    struct symbolizer_client *client;
    int peer;
    unsigned n_answered;
    unsigned n_correlated;
    uint32_t pid;
    uint64_t time_ns;
    int fd;
};

static void answered(void *context, struct symbolizer_answer *answer)
{
    struct passing *passing = context;
    passing->n_answered++;
    symbolizer_answer_free(answer);
}

static void correlated(void *context, const struct symbolizer_process *process, int fd)
{
    struct passing *passing = context;
    passing->n_correlated++;
    passing->pid = process->pid;
    passing->time_ns = process->time_ns;
    passing->fd = fd;
}

static void open_client(struct passing *passing, bool wants)
{
    int fds[2];
    *passing = (struct passing){.fd = -1};
    assert_int_equal(loop_open(&passing->loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    struct symbolizer_client_settings settings = {.loop = passing->loop,
                                                  .answered = answered,
                                                  .correlated = wants ? correlated : NULL,
                                                  .context = passing};
    assert_int_equal(symbolizer_client_open(&settings, &passing->client), 0);
    assert_int_equal(symbolizer_client_attach(passing->client, fds[0]), 0);
    passing->peer = fds[1];
}

static void close_client(struct passing *passing)
{
    if (passing->fd >= 0)
        close(passing->fd);
    close(passing->peer);
    symbolizer_client_close(passing->client);
    loop_close(passing->loop);
}

static unsigned open_fds(void)
{
    unsigned n = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory))
        n++;
    closedir(directory);
    return n;
}

static void say_with(struct passing *passing, struct bytes text, const int *fds, size_t n)
{
    static union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } space;
    struct iovec part = {.iov_base = (void *)text.data, .iov_len = text.len};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (n) {
        header.msg_control = &space;
        header.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, n * sizeof(int));
    }
    assert_int_equal(sendmsg(passing->peer, &header, 0), text.len);
    assert_int_equal(loop_once(passing->loop, 200), 0);
}

static void say(struct passing *passing, enum symbolizer_kind kind, const int *fds, size_t n)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct symbolizer_message message = {.kind = kind};
    if (kind == SYMBOLIZER_CORRELATION || kind == SYMBOLIZER_GONE)
        message.process = (struct symbolizer_process){.pid = 4711, .time_ns = 12};
    assert_int_equal(symbolizer_message_encode(&message, &text), 0);
    say_with(passing, buf_bytes(&text), fds, n);
}

static int datagram_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static void test_taken(void **state)
{
    (void)state;
    struct passing passing;
    open_client(&passing, true);
    int fd = datagram_socket();
    unsigned before = open_fds();
    say(&passing, SYMBOLIZER_CORRELATION, &fd, 1);
    assert_int_equal(passing.n_correlated, 1);
    assert_int_equal(passing.n_answered, 0);
    assert_int_equal(passing.pid, 4711);
    assert_int_equal(passing.time_ns, 12);
    assert_int_equal(open_fds(), before + 1);
    assert_int_equal(fcntl(passing.fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    close_client(&passing);
}

static void test_without(void **state)
{
    (void)state;
    struct passing passing;
    open_client(&passing, true);
    say(&passing, SYMBOLIZER_CORRELATION, NULL, 0);
    assert_int_equal(passing.n_correlated, 0);
    assert_int_equal(passing.n_answered, 0);
    assert_true(symbolizer_client_attached(passing.client));
    close_client(&passing);

    open_client(&passing, false); /* nobody wants it */
    int fd = datagram_socket();
    unsigned before = open_fds();
    say(&passing, SYMBOLIZER_CORRELATION, &fd, 1);
    assert_int_equal(open_fds(), before);
    close(fd);
    close_client(&passing);
}

static void test_not_alone(void **state)
{
    (void)state;
    struct passing passing;
    static const size_t counts[] = {2, 3, 4, 100, 253 /* SCM_MAX_FD */};
    int fds[FDS_MAX];
    open_client(&passing, true);
    int fd = datagram_socket();
    for (size_t i = 0; i < FDS_MAX; i++)
        fds[i] = fd;
    unsigned before = open_fds();
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        say(&passing, SYMBOLIZER_CORRELATION, fds, counts[i]);
    assert_int_equal(passing.n_correlated, 0);
    assert_int_equal(open_fds(), before);
    assert_true(symbolizer_client_attached(passing.client));
    close(fd);
    close_client(&passing);
}

static void test_other_messages(void **state)
{
    (void)state;
    struct passing passing;
    open_client(&passing, true);
    int fd = datagram_socket();
    unsigned before = open_fds();
    say(&passing, SYMBOLIZER_GONE, &fd, 1);
    say(&passing, SYMBOLIZER_SCAN_DONE, &fd, 1);
    assert_int_equal(passing.n_answered, 2);
    assert_int_equal(open_fds(), before);
    say_with(&passing, BYTES_LIT("\xff\xff"), &fd, 1); /* malformed: it is disconnected */
    assert_false(symbolizer_client_attached(passing.client));
    assert_int_equal(open_fds(), before - 1);
    assert_int_equal(passing.n_correlated, 0);
    close(fd);
    close_client(&passing);
}

static void test_other_descriptors(void **state)
{
    (void)state;
    struct passing passing;
    open_client(&passing, true);
    int pipes[2], others[] = {open("/dev/null", O_RDWR | O_CLOEXEC),
                              socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                              socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
                              socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), -1};
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    others[4] = pipes[1];
    unsigned before = open_fds();
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        assert_true(others[i] >= 0);
        say(&passing, SYMBOLIZER_CORRELATION, &others[i], 1);
        assert_int_equal(open_fds(), before);
    }
    assert_int_equal(passing.n_correlated, 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        close(others[i]);
    close(pipes[0]);
    close_client(&passing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_not_alone),
        cmocka_unit_test(test_other_messages),
        cmocka_unit_test(test_other_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

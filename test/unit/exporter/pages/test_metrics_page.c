/* SPDX-License-Identifier: Apache-2.0 */
/* The page over real sockets. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/stats.h"
#include "exporter/pages/metrics_page.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum kind { KIND_A, KINDS };

static const char *const kind_names[] = {"a"};
STAT_COUNTERS(counted, "spanprof_test_things_total", "Things, \\ and\nmore.",
              STAT_LABEL("kind", kind_names, KINDS));

#define CROWDED_OUT "reason=\"crowded_out\""

enum { SOCKETS = 2 };

struct test {
    struct loop *loop;
    struct metrics_page *page;
    uint16_t ports[SOCKETS];
};

static int listening(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static int set_up(void **state)
{
    static struct test test;
    int fds[SOCKETS];
    assert_int_equal(loop_open(&test.loop), 0);
    for (size_t i = 0; i < SOCKETS; i++)
        fds[i] = listening(&test.ports[i]);
    assert_int_equal(metrics_page_open(test.loop, fds, SOCKETS, NULL, &test.page), 0);
    for (size_t i = 0; i < SOCKETS; i++)
        assert_int_equal(fds[i], -1); /* taken over */
    *state = &test;
    return 0;
}

static int tear_down(void **state)
{
    struct test *test = *state;
    metrics_page_close(test->page);
    loop_close(test->loop);
    return 0;
}

static int dial(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Reads until the server closes, or `ms` are over. */
static bool read_all(struct test *test, int fd, struct buf *out, int ms)
{
    uint64_t end_ns = clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;
    char piece[4096];
    while (clock_monotonic_ns() < end_ns) {
        ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return true;
        if (n > 0)
            assert_int_equal(buf_append(out, piece, (size_t)n), 0);
        else
            assert_int_equal(loop_once(test->loop, 5), 0);
    }
    return false;
}

/* The status; the whole answer in *out, NUL-terminated. */
static int ask(struct test *test, size_t socket, const char *request, struct buf *out)
{
    int fd = dial(test->ports[socket]), status = 0;
    buf_clear(out);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    assert_true(read_all(test, fd, out, 10000));
    close(fd);
    assert_int_equal(buf_append(out, "", 1), 0);
    sscanf((const char *)out->data, "HTTP/1.1 %d", &status);
    return status;
}

static const char *text(const struct buf *out)
{
    return (const char *)out->data;
}

static const char *body(const struct buf *out)
{
    const char *head_end = strstr(text(out), "\r\n\r\n");
    assert_non_null(head_end);
    return head_end + 4;
}

#define REQUEST(method, path, more)                                                                \
    method " " path " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" more "\r\n"

static void test_get(void **state)
{
    struct test *test = *state;
    struct buf out _cleanup_buf_ = BUF_INIT(0);
    stat_set_of(&counted, KIND_A, 41);
    for (size_t i = 0; i < SOCKETS; i++) {
        stat_add_of(&counted, KIND_A, 1);
        assert_int_equal(ask(test, i, REQUEST("GET", "/metrics", ""), &out), 200);
        assert_non_null(strstr(text(&out), "Content-Type: text/plain; version=0.0.4"));
        assert_non_null(strstr(body(&out), "# TYPE spanprof_test_things_total counter\n"));
        assert_non_null(
            strstr(body(&out), "# HELP spanprof_test_things_total Things, \\\\ and\\n"));
        assert_non_null(strstr(body(&out), i ? "things_total{kind=\"a\"} 43\n"
                                             : "things_total{kind=\"a\"} 42\n"));
    }
    assert_int_equal(ask(test, 0, REQUEST("GET", "/metrics?name=x", ""), &out), 200);
}

static void test_head(void **state)
{
    struct test *test = *state;
    struct buf out _cleanup_buf_ = BUF_INIT(0);
    size_t length = 0;
    assert_int_equal(ask(test, 0, REQUEST("HEAD", "/metrics", ""), &out), 200);
    assert_string_equal(body(&out), "");
    const char *header = strstr(text(&out), "Content-Length: ");
    assert_non_null(header);
    assert_int_equal(sscanf(header, "Content-Length: %zu", &length), 1);
    assert_true(length > 100);
}

static void test_other_methods(void **state)
{
    struct test *test = *state;
    struct buf out _cleanup_buf_ = BUF_INIT(0);
    assert_int_equal(
        ask(test, 0, REQUEST("POST", "/metrics", "Content-Length: 5\r\n") "hello", &out), 405);
    assert_non_null(strstr(text(&out), "Allow: GET, HEAD\r\n"));
    assert_int_equal(ask(test, 0, REQUEST("DELETE", "/metrics", ""), &out), 405);
}

static void test_other_paths(void **state)
{
    struct test *test = *state;
    struct buf out _cleanup_buf_ = BUF_INIT(0);
    assert_int_equal(ask(test, 0, REQUEST("GET", "/", ""), &out), 404);
    assert_non_null(strstr(body(&out), "/metrics"));
    assert_int_equal(ask(test, 0, REQUEST("GET", "/metrics/", ""), &out), 404);
}

static void test_bad_requests(void **state)
{
    struct test *test = *state;
    struct buf out _cleanup_buf_ = BUF_INIT(0), large _cleanup_buf_ = BUF_INIT(0);
    assert_in_range(ask(test, 0, "hello\r\n\r\n", &out), 0, 499);
    assert_int_equal(buf_printf(&large, "GET /metrics HTTP/1.1\r\nX: "), 0);
    for (int i = 0; i < 800; i++)
        assert_int_equal(buf_append(&large, "0123456789", 10), 0);
    assert_int_equal(buf_append(&large, "\r\n\r\n", 5), 0);
    assert_in_range(ask(test, 0, (const char *)large.data, &out), 400, 499);
    assert_int_equal(ask(test, 0, REQUEST("GET", "/metrics", ""), &out), 200);
}

/* Silent ones, more than there is room for, at both sockets: the oldest give way. */
static void test_many_connections(void **state)
{
    enum { SILENT = 40 };
    struct test *test = *state;
    struct buf out _cleanup_buf_ = BUF_INIT(0);
    int64_t before = stats_find("spanprof_telemetry_connections_ended_total", CROWDED_OUT);
    int fds[SILENT];
    for (size_t i = 0; i < SILENT; i++) {
        fds[i] = dial(test->ports[i % SOCKETS]);
        assert_int_equal(loop_once(test->loop, 5), 0);
    }
    for (size_t i = 0; i < SOCKETS; i++)
        assert_int_equal(ask(test, i, REQUEST("GET", "/metrics", ""), &out), 200);
    assert_true(read_all(test, fds[0], &out, 1000));
    assert_false(read_all(test, fds[SILENT - 1], &out, 50));
    assert_in_range(stats_find("spanprof_telemetry_connections", ""), 1, 16);
    assert_in_range(stats_find("spanprof_telemetry_connections_ended_total", CROWDED_OUT) - before,
                    SILENT + 1 - 16, SILENT);
    for (size_t i = 0; i < SILENT; i++)
        close(fds[i]);
    assert_int_equal(ask(test, 0, REQUEST("GET", "/metrics", ""), &out), 200);
}

static void test_closed_while_connected(void **state)
{
    struct test *test = *state;
    struct buf out _cleanup_buf_ = BUF_INIT(0);
    int fd = dial(test->ports[0]);
    assert_int_equal(send(fd, "GET /met", 8, MSG_NOSIGNAL), 8);
    assert_false(read_all(test, fd, &out, 50));
    metrics_page_close(test->page);
    test->page = NULL;
    assert_true(read_all(test, fd, &out, 1000));
    assert_int_equal(out.len, 0);
    close(fd);
}

/* One socket that is none: nothing is taken over. */
static void test_open_fails(void **state)
{
    struct test *test = *state;
    struct metrics_page *page = NULL;
    uint16_t port;
    int fds[] = {listening(&port), 100000}; /* no descriptor of ours */
    int type;
    socklen_t size = sizeof(type);
    assert_true(metrics_page_open(test->loop, fds, 2, NULL, &page) < 0);
    assert_null(page);
    assert_true(fds[0] >= 0);
    assert_int_equal(getsockopt(fds[0], SOL_SOCKET, SO_TYPE, &type, &size), 0);
    close(fds[0]);
    metrics_page_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_get),
        TEST(test_head),
        TEST(test_other_methods),
        TEST(test_other_paths),
        TEST(test_bad_requests),
        TEST(test_many_connections),
        TEST(test_closed_while_connected),
        TEST(test_open_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Phases of 100 ms, and clients that take longer. */
#include "proto/http/http1_connections.h"
#include "base/clock.h"
#include "proto/http/acceptor.h"
#include "proto/http/http1.h"
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define PHASE_MS 100

STAT_GAUGE(open_connections, "spanprof_test_connections", "Of this test.");
enum phase { WAITING, WORKING, PHASES };

static const char *const phase_names[] = {"waiting", "working"};
STAT_COUNTERS(timed_out, "spanprof_test_timeouts_total", "Of this test.",
              STAT_LABEL("phase", phase_names, PHASES));
STAT_COUNTER(crowded_out, "spanprof_test_crowded_out_total", "Of this test.");

struct rig {
    struct loop *loop;
    struct http1 http;
    struct acceptor acceptor;
    struct http1_connections connections;
    struct sockaddr_in address;
    struct MHD_Connection *asleep; /* whose request came */
    bool is_over;
};

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct rig *rig = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        http1_connections_end(&rig->connections, socket_context);
    else
        http1_connections_begin(&rig->connections, mhd, socket_context, &(struct peer){0}, 1);
}

/* No request is answered: it sleeps, in no phase. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **request)
{
    struct rig *rig = context;
    (void)path, (void)method, (void)version, (void)data, (void)size;
    if (rig->is_over)
        return MHD_NO;
    if (*request) {
        rig->asleep = mhd;
        http1_connection_enter(http1_connection_of(mhd), HTTP1_NO_PHASE);
        MHD_suspend_connection(mhd);
    }
    *request = rig;
    return MHD_YES;
}

static void on_accepted(struct acceptor *acceptor, int fd)
{
    struct rig *rig = container_of(acceptor, struct rig, acceptor);
    assert_int_equal(
        http1_add(&rig->http, fd, (struct sockaddr *)&rig->address, sizeof(rig->address)), 0);
}

static int listen_anywhere(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    int fd = listen_anywhere(&rig->address);
    const struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)http1_log, (void *)"test"},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, rig},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct http1_settings settings = {.flags = MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
                                            .handler = on_request,
                                            .context = rig,
                                            .options = options};
    assert_int_equal(loop_open(&rig->loop), 0);
    rig->connections =
        (struct http1_connections){.loop = rig->loop,
                                   .gauge = &open_connections,
                                   .phases = {[WAITING] = {.timeout_ns = PHASE_MS * NS_PER_MS,
                                                           .timed_out = {&timed_out, WAITING}},
                                              [WORKING] = {.timeout_ns = PHASE_MS * NS_PER_MS,
                                                           .timed_out = {&timed_out, WORKING}}},
                                   .n_phases = 2,
                                   .crowded_out = {&crowded_out, 0}};
    http1_connections_init(&rig->connections);
    assert_int_equal(http1_open(&rig->http, rig->loop, &settings), 0);
    rig->acceptor = (struct acceptor){.loop = rig->loop, .area = "test", .accepted = on_accepted};
    assert_int_equal(acceptor_start(&rig->acceptor, &fd, 1), 0);
    stat_set_of(&timed_out, WAITING, 0);
    stat_set_of(&timed_out, WORKING, 0);
    stat_set(&crowded_out, 0);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    acceptor_stop(&rig->acceptor);
    http1_close(&rig->http);
    assert_int_equal(rig->connections.n, 0);
    assert_int_equal(stats_find("spanprof_test_connections", ""), 0);
    http1_connections_close(&rig->connections);
    loop_close(rig->loop);
    free(rig);
    return 0;
}

static int connect_to(struct rig *rig)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&rig->address, sizeof(rig->address)), 0);
    return fd;
}

static void run_for(struct rig *rig, unsigned ms)
{
    uint64_t end_ns = clock_monotonic_ns() + ms * NS_PER_MS;
    while (clock_monotonic_ns() < end_ns)
        assert_int_equal(loop_once(rig->loop, 5), 0);
}

static bool is_ended(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* Runs until the other side ends the connection; milliseconds. */
static unsigned wait_for_end(struct rig *rig, int fd, const char *drip)
{
    uint64_t began_ns = clock_monotonic_ns();
    while (!is_ended(fd)) {
        assert_true(clock_monotonic_ns() - began_ns < 10 * NS_PER_SEC);
        if (*drip)
            (void)!send(fd, drip++, 1, MSG_NOSIGNAL);
        run_for(rig, 10);
    }
    return (unsigned)((clock_monotonic_ns() - began_ns) / NS_PER_MS);
}

/* Bytes that come now and then win no time. */
static void test_the_time_counts_from_the_beginning(void **state)
{
    struct rig *rig = *state;
    int fd = connect_to(rig), other;
    run_for(rig, PHASE_MS / 2);
    other = connect_to(rig);
    uint64_t began_ns = clock_monotonic_ns();
    run_for(rig, 1);
    assert_int_equal(rig->connections.n, 2);
    assert_int_equal(stats_find("spanprof_test_connections", ""), 2);
    wait_for_end(rig, fd,
                 "GET / HTTP/1.1\r\nHost: somebody-who-takes-very-long-to-tell-it.example");
    wait_for_end(rig, other, "");
    assert_true(clock_monotonic_ns() - began_ns >= PHASE_MS * NS_PER_MS); /* each has its own */
    assert_int_equal(stat_get_of(&timed_out, WAITING), 2);
    close(fd);
    close(other);
}

static void test_phases_follow_each_other(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct rig *rig = *state;
    int fd = connect_to(rig);
    assert_int_equal(send(fd, request, sizeof(request) - 1, 0), sizeof(request) - 1);
    run_for(rig, 3 * PHASE_MS);
    assert_non_null(rig->asleep);
    assert_false(is_ended(fd)); /* in no phase nothing runs out */
    http1_connection_enter(http1_connection_of(rig->asleep), WORKING);
    run_for(rig, PHASE_MS / 4);
    http1_connection_enter(http1_connection_of(rig->asleep), WORKING); /* anew */
    assert_true(wait_for_end(rig, fd, "") >= PHASE_MS - 10);
    assert_int_equal(stat_get_of(&timed_out, WORKING), 1);
    assert_int_equal(stat_get_of(&timed_out, WAITING), 0);
    rig->is_over = true;
    MHD_resume_connection(rig->asleep);
    http1_run(&rig->http);
    close(fd);
}

/* The one that is idle longest makes room; one with a request never does. */
static void test_room_for_the_next(void **state)
{
    enum { MAX = 4 };
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct rig *rig = *state;
    int fds[2 * MAX], asleep = connect_to(rig);
    rig->connections.max = MAX;
    rig->connections.phases[WAITING].timeout_ns = 60 * NS_PER_SEC;
    assert_int_equal(send(asleep, request, sizeof(request) - 1, 0), sizeof(request) - 1);
    while (!rig->asleep)
        run_for(rig, 1);
    for (int i = 0; i < 2 * MAX; i++) {
        fds[i] = connect_to(rig);
        run_for(rig, 10);
        assert_true(rig->connections.n <= MAX);
    }
    assert_false(is_ended(asleep));
    for (int i = 0; i < 2 * MAX; i++) {
        assert_int_equal(is_ended(fds[i]), i < 2 * MAX - 3);
        close(fds[i]);
    }
    assert_int_equal(stats_find("spanprof_test_crowded_out_total", ""), 2 * MAX - 3);
    assert_int_equal(stat_get_of(&timed_out, WAITING), 0);
    rig->is_over = true;
    MHD_resume_connection(rig->asleep);
    http1_run(&rig->http);
    close(asleep);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_time_counts_from_the_beginning),
        TEST(test_phases_follow_each_other),
        TEST(test_room_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

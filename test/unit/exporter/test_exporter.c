/* SPDX-License-Identifier: Apache-2.0 */
/* What an exporter sends, and how it ends; for what goes wrong see test_exporter_faults.c. */
#include "base/clock.h"
#include "base/stats.h"
#include "proto/codec.h"
#include "test/support/rigs/exporter_rig.h"
#include "test/support/net/h2_end.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- sending ---- */

static void test_request(void **state)
{
    struct rig *rig = *state;
    rig_put(rig, SIGNAL_TRACES, "spans");
    const struct backend_request *request = rig_await(rig, TRACES, 0);
    char expected[512];
    snprintf(expected, sizeof(expected),
             ":method: POST\n:scheme: http\n"
             ":path: /opentelemetry.proto.collector.trace.v1.TraceService/Export\n"
             ":authority: localhost:%u\ngrpc-timeout: 5000000u\nte: trailers\n"
             "content-type: application/grpc\nuser-agent: spanprof/1.2.3\nx-tenant: blue\n",
             rig->backend.port);
    assert_string_equal((const char *)request->headers.data, expected);
    assert_false(request->reader.compressed);
    assert_true(rig_message_is(request, "spans"));
    rig_await_empty(rig);
}

static void test_profiles_carry_their_version(void **state)
{
    struct rig *rig = *state;
    rig_put(rig, SIGNAL_PROFILES, "samples");
    const struct backend_request *request = rig_await(rig, PROFILES, 0);
    assert_non_null(
        strstr((const char *)request->headers.data, "\notlp-profiles-development-version: 1\n"));
    rig_put(rig, SIGNAL_TRACES, "spans");
    assert_null(strstr((const char *)rig_await(rig, TRACES, 0)->headers.data, "otlp-profiles"));
}

static void test_gzip(void **state)
{
    struct rig *rig = *state;
    static uint8_t large[100000];
    _cleanup_buf_ struct buf plain = BUF_INIT(0);
    rig->config.otlp.compression = CONFIG_GZIP;
    rig_put_bytes(rig, SIGNAL_PROFILES, BYTES(large, sizeof(large)));
    struct backend_request *request = rig_await(rig, PROFILES, 0);
    assert_true(request->reader.compressed);
    assert_non_null(strstr((const char *)request->headers.data, "\ngrpc-encoding: gzip\n"));
    assert_true(request->reader.message.len < 2000);
    assert_int_equal(codec_inflate_gzip(buf_bytes(&request->reader.message), sizeof(large), &plain),
                     0);
    assert_true(bytes_equal(buf_bytes(&plain), BYTES(large, sizeof(large))));
    rig_put(rig, SIGNAL_TRACES, "small"); /* not worth it */
    assert_false(rig_await(rig, TRACES, 0)->reader.compressed);
}

static void test_zstd_and_authority(void **state)
{
    struct rig *rig = *state;
    static uint8_t large[100000];
    _cleanup_buf_ struct buf plain = BUF_INIT(0);
    exporter_close(rig->exporter);
    rig->config.otlp.compression = CONFIG_ZSTD;
    rig->config.otlp.authority = "backend.example";
    exporter_rig_start(rig);
    rig_put_bytes(rig, SIGNAL_PROFILES, BYTES(large, sizeof(large)));
    struct backend_request *request = rig_await(rig, PROFILES, 0);
    assert_non_null(strstr((const char *)request->headers.data, "\ngrpc-encoding: zstd\n"));
    assert_non_null(strstr((const char *)request->headers.data, "\n:authority: backend.example\n"));
    assert_int_equal(codec_inflate_zstd(buf_bytes(&request->reader.message), sizeof(large), &plain),
                     0);
    assert_true(bytes_equal(buf_bytes(&plain), BYTES(large, sizeof(large))));
}

/* The backend behind a path: whom calls are for is localhost, as with gRPC's libraries. */
static void test_unix_socket(void **state)
{
    struct rig *rig = *state;
    struct watch *listener = &rig->backend.listener;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    exporter_close(rig->exporter);
    watch_stop(listener);
    close(listener->fd);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/otlp.sock",
             rig->fixture.settings.db.directory);
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener->fd, 5), 0);
    assert_int_equal(watch_start(rig->loop, listener), 0);
    rig->config.otlp.endpoint = (struct config_endpoint){.set = true, .transport = CONFIG_UNIX};
    snprintf(rig->config.otlp.endpoint.host, sizeof(rig->config.otlp.endpoint.host), "%s",
             address.sun_path);
    exporter_rig_start(rig);
    rig_put(rig, SIGNAL_TRACES, "spans");
    const struct backend_request *request = rig_await(rig, TRACES, 0);
    assert_non_null(strstr((const char *)request->headers.data, "\n:authority: localhost\n"));
    assert_true(rig_message_is(request, "spans"));
    rig_await_empty(rig);
    unlink(address.sun_path);
}

/* Order is kept; a backlog of spans leaves joined, profiles one by one; a large request takes many
 * frames and windows. */
static void test_backlog(void **state)
{
    struct rig *rig = *state;
    _cleanup_buf_ struct buf all = BUF_INIT(0), seen = BUF_INIT(0);
    uint8_t *large = malloc(3 << 20);
    memset(large, 'L', 3 << 20);
    backend_leave(&rig->backend);
    for (int i = 0; i < 300; i++) {
        char body[16];
        snprintf(body, sizeof(body), "%d,", i);
        assert_int_equal(buf_append_bytes(&all, BYTES_STR(body)), 0);
        rig_put(rig, SIGNAL_TRACES, body);
    }
    rig_put_bytes(rig, SIGNAL_PROFILES, BYTES(large, 3 << 20));
    rig_put(rig, SIGNAL_PROFILES, "second");
    backend_return(&rig->backend);
    rig_await_empty(rig);
    size_t n = 0;
    for (struct backend_request *request; (request = backend_request(&rig->backend, TRACES, n));
         n++)
        assert_int_equal(buf_append_bytes(&seen, buf_bytes(&request->reader.message)), 0);
    assert_true(n < 10);
    assert_true(bytes_equal(buf_bytes(&seen), buf_bytes(&all)));
    assert_true(bytes_equal(buf_bytes(&rig_await(rig, PROFILES, 0)->reader.message),
                            BYTES(large, 3 << 20)));
    assert_true(rig_message_is(rig_await(rig, PROFILES, 1), "second"));
    free(large);
}

/* ---- the end ---- */

static void on_stopped(void *context)
{
    ((struct rig *)context)->stopped = true;
}

static bool is_stopped(void *context)
{
    return ((struct rig *)context)->stopped;
}

static uint64_t in_ms(int ms)
{
    return clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;
}

static void test_drain_sends_what_is_there(void **state)
{
    struct rig *rig = *state;
    for (int i = 0; i < 5; i++)
        rig_put(rig, SIGNAL_PROFILES, "samples");
    exporter_drain(rig->exporter, in_ms(15000), on_stopped, rig);
    assert_false(rig->stopped);
    uint64_t start_ns = clock_monotonic_ns();
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 20000));
    assert_true(clock_monotonic_ns() - start_ns < 12 * NS_PER_SEC);
    assert_true(rig_is_empty(rig));
    assert_int_equal(rig->backend.n_requests, 5);
}

static void test_drain_does_not_wait_for_a_backend_that_is_away(void **state)
{
    struct rig *rig = *state;
    backend_leave(&rig->backend);
    rig->config.otlp.retry.initial_interval_ns = 60 * NS_PER_SEC;
    rig->config.otlp.retry.max_interval_ns = 60 * NS_PER_SEC;
    backend_no_rules(&rig->backend);
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_pause(rig, 100);
    exporter_drain(rig->exporter, in_ms(15000), on_stopped, rig);
    uint64_t start_ns = clock_monotonic_ns();
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 20000));
    assert_true(clock_monotonic_ns() - start_ns < 12 * NS_PER_SEC);
    assert_false(rig_is_empty(rig));
}

static void test_drain_ends_at_its_deadline(void **state)
{
    struct rig *rig = *state;
    backend_rule(&rig->backend, NULL, 0, (struct backend_answer){.manner = BACKEND_SILENT});
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_await(rig, TRACES, 0);
    uint64_t start_ns = clock_monotonic_ns();
    exporter_drain(rig->exporter, in_ms(200), on_stopped, rig);
    assert_true(h2_run_loop(rig->loop, is_stopped, rig, 10000));
    assert_in_range(clock_monotonic_ns() - start_ns, 150 * NS_PER_MS, 10 * NS_PER_SEC);
    assert_false(rig_is_empty(rig));
}

/* Closed at any moment: nothing is lost but time, the next one sends it (again, maybe). */
static void test_close_at_any_moment(void **state)
{
    struct rig *rig = *state;
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_put(rig, SIGNAL_PROFILES, "samples");
    for (int rounds = 0; rounds < 25; rounds++) {
        exporter_close(rig->exporter);
        exporter_rig_start(rig);
        for (int i = 0; i < rounds; i++)
            assert_int_equal(loop_once(rig->loop, 1), 0);
    }
    rig_await_empty(rig);
    assert_true(rig_message_is(rig_await(rig, TRACES, 0), "spans"));
    assert_true(rig_message_is(rig_await(rig, PROFILES, 0), "samples"));
}

static void test_debug(void **state)
{
    struct rig *rig = *state;
    exporter_close(rig->exporter);
    assert_true(rig_is_empty(rig)); /* and its last look at the store is over */
    rig->config =
        (struct config_exporter){.id = "first", .type = CONFIG_EXPORTER_DEBUG, .used = true};
    exporter_rig_start(rig);
    rig_put(rig, SIGNAL_TRACES, "spans");
    rig_put(rig, SIGNAL_PROFILES, "samples");
    rig_await_empty(rig);
    assert_int_equal(rig->backend.n_requests, 0);
}

static const uint8_t one_span[] = {0x0a, 9, 0x12, 7, 0x12, 5, 0x2a, 3, 'G', 'E', 'T'};

static void start_debug(struct rig *rig)
{
    exporter_close(rig->exporter);
    assert_true(rig_is_empty(rig));
    rig->config = (struct config_exporter){.id = "first",
                                           .type = CONFIG_EXPORTER_DEBUG,
                                           .used = true,
                                           .debug.verbosity = VERBOSITY_DETAILED};
    exporter_rig_start(rig);
}

static void test_debug_shows_requests(void **state)
{
    struct rig *rig = *state;
    char text[4096] = "";
    FILE *shown = tmpfile();
    int stderr_fd = dup(STDERR_FILENO);
    start_debug(rig);
    assert_true(shown && dup2(fileno(shown), STDERR_FILENO) >= 0);
    rig_put_bytes(rig, SIGNAL_TRACES, BYTES(one_span, sizeof(one_span)));
    rig_await_empty(rig);
    assert_true(dup2(stderr_fd, STDERR_FILENO) >= 0);
    rewind(shown);
    assert_true(fread(text, 1, sizeof(text) - 1, shown) > 0);
    assert_non_null(strstr(text, " debug: traces: 1 requests, 3 items, 11 bytes\n"
                                 "resource_spans #0\n"
                                 "  scope_spans #0\n"
                                 "    spans #0\n"
                                 "      name: GET\n"));
    fclose(shown);
    close(stderr_fd);
}

/* Its stderr is a pipe that nobody drains: what is shown of requests is lost, and holds up nobody.
 */
static void test_debug_without_a_reader(void **state)
{
    struct rig *rig = *state;
    int ends[2], stderr_fd = dup(STDERR_FILENO);
    int64_t before = stats_find("spanprof_log_dropped_bytes_total", "");
    start_debug(rig);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    for (int i = 0; i < 200; i++)
        rig_put_bytes(rig, SIGNAL_TRACES, BYTES(one_span, sizeof(one_span)));
    rig_await_empty(rig);
    assert_true(dup2(stderr_fd, STDERR_FILENO) >= 0);
    close(ends[0]);
    close(ends[1]);
    close(stderr_fd);
    assert_true(stats_find("spanprof_log_dropped_bytes_total", "") > before);
}

#define RIG_TEST(name)                                                                             \
    cmocka_unit_test_setup_teardown(name, exporter_rig_setup, exporter_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_request),
        RIG_TEST(test_profiles_carry_their_version),
        RIG_TEST(test_gzip),
        RIG_TEST(test_zstd_and_authority),
        RIG_TEST(test_unix_socket),
        RIG_TEST(test_backlog),
        RIG_TEST(test_drain_sends_what_is_there),
        RIG_TEST(test_drain_does_not_wait_for_a_backend_that_is_away),
        RIG_TEST(test_drain_ends_at_its_deadline),
        RIG_TEST(test_close_at_any_moment),
        RIG_TEST(test_debug),
        RIG_TEST(test_debug_shows_requests),
        RIG_TEST(test_debug_without_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

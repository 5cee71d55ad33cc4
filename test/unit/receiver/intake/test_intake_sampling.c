/* SPDX-License-Identifier: Apache-2.0 */
/* The intake with a sampler and a symbolizer: drains come before requests, answers find their way,
 * windows close. */
#include "agent-bpf/symbolizer_messages.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/faults/fail_vfs.h"
#include "test/support/rigs/intake_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define CODE UINT64_C(0x400000)
#define PID  100

static struct intake_rig rig;

static int open_with(const char *vfs)
{
    intake_rig_open(&rig, &(struct intake_rig_options){.sampler = true, .vfs = vfs});
    intake_rig_start(&rig);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return open_with(NULL);
}

static int set_up_failing(void **state)
{
    (void)state;
    fail_vfs_register();
    return open_with(FAIL_VFS_NAME);
}

static int set_up_full(void **state)
{
    (void)state;
    intake_rig_open(&rig, &(struct intake_rig_options){.sampler = true, .max_store_bytes = 400000});
    intake_rig_start(&rig);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    intake_rig_close(&rig);
    return 0;
}

/* A tick of now, under trace 1 and span `id` (0: without a context), in process 100. */
static void tick(unsigned id)
{
    struct record_made made;
    struct record_parts parts = {.head = {.pid = PID,
                                          .tid = PID,
                                          .time_ns = clock_monotonic_ns(),
                                          .value_ns = FIXTURE_TICK,
                                          .period_ns = FIXTURE_TICK,
                                          .context_source = id ? CONTEXT_OTEL_THREAD : 0,
                                          .comm = "app"},
                                 .n_user = 1,
                                 .user = {CODE + 0x10}};
    if (id) {
        fixture_trace_id(1, parts.head.trace_id);
        fixture_span_id(id, parts.head.span_id);
    }
    record_ring_put(&rig.memory, record_make(&made, &parts));
}

static void make_request(struct buf *body, unsigned id)
{
    uint64_t now_ns = clock_unix_ns();
    struct trace_span span = {.trace = 1,
                              .id = id,
                              .start_unix_ns = now_ns - FIXTURE_SECOND,
                              .end_unix_ns = now_ns + FIXTURE_SECOND};
    trace_request(body, &span, 1);
}

static bool has_samples(const struct outbox_item *item)
{
    return memmem(item->body.data, item->body.len, "spanprof.samples", 16) != NULL;
}

static void end_scan(void)
{
    rig_symbolizer_open(&rig);
    assert_int_equal(rig_symbolizer_hear(&rig).kind, SYMBOLIZER_SCAN_WANTED);
    rig_symbolizer_say(&rig, &(struct symbolizer_message){
                                 .kind = SYMBOLIZER_SCAN_DONE,
                                 .scan_done = {clock_monotonic_ns() - 10, clock_monotonic_ns()}});
    intake_rig_until(&rig, &rig.ready);
}

static uint64_t outgoing_samples(void)
{
    struct outgoing outgoing;
    uint64_t n = 0;
    outgoing_read(&outgoing, &rig.fixture.settings.db, SIGNAL_PROFILES);
    for (size_t i = 0; i < outgoing.n; i++)
        n += outgoing.items[i].items;
    outgoing_close(&outgoing);
    return n;
}

/* ---- drains ---- */

static void test_drain_before_request(void **state)
{
    struct buf body _cleanup_buf_ = BUF_INIT(0);
    struct outgoing outgoing;
    (void)state;
    end_scan();
    for (unsigned id = 1; id <= 20; id++) {
        buf_clear(&body);
        make_request(&body, id);
        tick(id); /* in the ring at the moment of the request, no earlier */
        assert_int_equal(rig_request_run(&rig, buf_bytes(&body)), INTAKE_ACCEPTED);
    }
    outgoing_read(&outgoing, &rig.fixture.settings.db, SIGNAL_TRACES);
    assert_int_equal(outgoing.n, 20);
    for (size_t i = 0; i < outgoing.n; i++)
        assert_true(has_samples(&outgoing.items[i]));
    outgoing_close(&outgoing);
    assert_int_equal(record_ring_consumed(&rig.memory), rig.memory.produced);
}

/* Until the first scan is done samples stay in the ring: their processes are not known. */
static void test_scan_first(void **state)
{
    struct buf body _cleanup_buf_ = BUF_INIT(0);
    (void)state;
    make_request(&body, 1);
    tick(1);
    assert_int_equal(rig_request_run(&rig, buf_bytes(&body)), INTAKE_ACCEPTED);
    intake_rig_turn(&rig, 100);
    assert_int_equal(record_ring_consumed(&rig.memory), 0);
    assert_false(rig.ready);
    end_scan();
    intake_rig_turn(&rig, 200); /* the drain timer */
    assert_int_equal(record_ring_consumed(&rig.memory), rig.memory.produced);
}

/* While the writer has no room the samples stay in the ring, and none is lost. */
static int nothing_run(struct job *job)
{
    (void)job;
    return 0;
}

static void nothing_done(struct job *job, int error)
{
    (void)job;
    assert_int_equal(error, 0);
}

/* Jobs of whatever kind wait for the writer: then samples wait in the ring. */
static void test_writer_busy(void **state)
{
    static struct job jobs[INTAKE_WRITER_QUEUE / 2];
    const size_t n = sizeof(jobs) / sizeof(*jobs);
    (void)state;
    end_scan();
    intake_rig_hold(&rig);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (struct job){.run = nothing_run, .done = nothing_done};
        assert_int_equal(worker_submit(rig.writer, &jobs[i]), 0);
    }
    tick(0);
    intake_rig_turn(&rig, 100);
    assert_int_not_equal(record_ring_consumed(&rig.memory), rig.memory.produced);
    intake_rig_release(&rig);
    while (worker_queued(rig.writer) >= n)
        intake_rig_turn(&rig, 20);
    intake_rig_turn(&rig, 100);
    assert_int_equal(record_ring_consumed(&rig.memory), rig.memory.produced);
}

static void test_malformed_record(void **state)
{
    struct record_made made;
    struct record_parts parts = {.head = {.pid = PID}};
    int64_t before = stats_find("spanprof_samples_lost_total", "reason=\"malformed\"");
    (void)state;
    end_scan();
    struct record_header broken = *record_make(&made, &parts);
    broken.user_words = 5;
    record_ring_put(&rig.memory, &broken);
    tick(0);
    intake_rig_turn(&rig, 100);
    assert_int_equal(stats_find("spanprof_samples_lost_total", "reason=\"malformed\"") - before, 1);
    intake_rig_stop(&rig);
    intake_rig_until(&rig, &rig.stopped);
    assert_int_equal(outgoing_samples(), 1);
}

/* ---- the symbolizer ---- */

static struct symbolizer_message app_mapped(void)
{
    return (struct symbolizer_message){
        .kind = SYMBOLIZER_EVENT,
        .event = {
            .kind = PROCESS_MAPPED,
            .time_ns = clock_monotonic_ns() - 1000,
            .pid = PID,
            .mapping = {.start = CODE, .length = 0x1000, .inode = 5, .path = "/usr/bin/app"}}};
}

static struct symbolizer_message hear(enum symbolizer_kind kind)
{
    struct symbolizer_message message;
    do {
        message = rig_symbolizer_hear(&rig);
        assert_int_not_equal(message.kind, 0);
    } while (message.kind != kind);
    return message;
}

static int64_t names_known(void)
{
    struct db *db;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(db_open_reader(&rig.fixture.settings.db, &db), 0);
    assert_int_equal(db_prepare(db, "SELECT count(*) FROM frame_name", &statement), 0);
    assert_int_equal(db_step(db, statement), 1);
    int64_t n = sqlite3_column_int64(statement, 0);
    db_close(db);
    return n;
}

static void test_names(void **state)
{
    struct symbolizer_message mapped = app_mapped();
    (void)state;
    rig_symbolizer_open(&rig);
    hear(SYMBOLIZER_SCAN_WANTED);
    rig_symbolizer_say(&rig, &mapped);
    struct symbolizer_message wanted = hear(SYMBOLIZER_EXECUTABLE_WANTED);
    assert_string_equal(wanted.executable_ref.mapping.path, "/usr/bin/app");
    rig_symbolizer_say(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_DONE});
    intake_rig_until(&rig, &rig.ready);
    tick(0);
    wanted = hear(SYMBOLIZER_NAMES_WANTED);
    assert_int_equal(wanted.names_wanted.n, 1);
    assert_int_equal(wanted.names_wanted.addresses[0], 0x10);
    assert_int_equal(names_known(), 0);

    struct symbolizer_name name = {.address = 0x10, .function = BYTES_LIT("main")};
    struct symbolizer_message answer = {.kind = SYMBOLIZER_NAMES,
                                        .names = {.n = 1, .names = &name}};
    memcpy(answer.names.identity, wanted.names_wanted.executable.identity, 16);
    rig_symbolizer_say(&rig, &answer);
    intake_rig_turn(&rig, 100);
    assert_int_equal(names_known(), 1);
}

/* One that dies or talks nonsense costs names and nothing else; the next one is asked for a scan.
 */
static void test_symbolizer_replaced(void **state)
{
    struct buf body _cleanup_buf_ = BUF_INIT(0);
    (void)state;
    end_scan();
    rig_symbolizer_say(
        &rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_WANTED}); /* not its to say */
    intake_rig_turn(&rig, 50);
    make_request(&body, 1);
    tick(1);
    assert_int_equal(rig_request_run(&rig, buf_bytes(&body)), INTAKE_ACCEPTED);
    rig_symbolizer_open(&rig);
    assert_int_equal(hear(SYMBOLIZER_SCAN_WANTED).kind, SYMBOLIZER_SCAN_WANTED);
    rig_symbolizer_say(
        &rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_DONE}); /* ready() once */
    intake_rig_turn(&rig, 50);
}

/* An answer that comes while the intake stops does not make it drain again. */
static void test_scan_done_too_late(void **state)
{
    (void)state;
    rig_symbolizer_open(&rig);
    intake_rig_hold(&rig);
    rig_symbolizer_say(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_DONE});
    intake_rig_turn(&rig, 20);
    intake_rig_stop(&rig);
    intake_rig_release(&rig);
    intake_rig_until(&rig, &rig.stopped);
    tick(0);
    intake_rig_turn(&rig, 100);
    assert_false(rig.ready);
    assert_int_equal(record_ring_consumed(&rig.memory), 0);
}

/* ---- a store that fails ---- */

static bool profiles_hold(const char *text)
{
    struct outgoing outgoing;
    bool found = false;
    outgoing_read(&outgoing, &rig.fixture.settings.db, SIGNAL_PROFILES);
    for (size_t i = 0; i < outgoing.n; i++) {
        struct bytes body = buf_bytes(&outgoing.items[i].body);
        found |= memmem(body.data, body.len, text, strlen(text)) != NULL;
    }
    outgoing_close(&outgoing);
    return found;
}

/* Rows of process, executable and stack are rolled back; none of them is remembered. */
static void test_store_failing(void **state)
{
    struct symbolizer_message mapped = app_mapped();
    int64_t before = stats_find("spanprof_samples_lost_total", "reason=\"store\"");
    (void)state;
    rig_symbolizer_open(&rig);
    rig_symbolizer_say(&rig, &mapped);
    rig_symbolizer_say(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_DONE});
    intake_rig_until(&rig, &rig.ready);
    fail_vfs_from(1, FAIL_VFS_IO);
    tick(0);
    tick(0);
    intake_rig_turn(&rig, 100);
    assert_true(fail_vfs_hit());
    assert_int_equal(stats_find("spanprof_samples_lost_total", "reason=\"store\"") - before, 2);
    tick(0);
    intake_rig_turn(&rig, 100);
    intake_rig_stop(&rig);
    intake_rig_until(&rig, &rig.stopped);
    assert_int_equal(outgoing_samples(), 1);
    assert_true(profiles_hold("process.executable.path"));
    assert_true(profiles_hold("/usr/bin/app"));
}

/* Where nothing more may be put, samples are counted and fail nothing else. */
static void test_store_full(void **state)
{
    int64_t lost = stats_find("spanprof_samples_lost_total", "reason=\"full\"");
    int64_t failed = stats_find("spanprof_store_rollbacks_total", "reason=\"full\"");
    (void)state;
    end_scan();
    tick(0);
    tick(1);
    intake_rig_turn(&rig, 100);
    assert_int_equal(stats_find("spanprof_samples_lost_total", "reason=\"full\"") - lost, 2);
    assert_int_equal(stats_find("spanprof_store_rollbacks_total", "reason=\"full\"") - failed, 0);
}

/* ---- windows ---- */

static void test_stop_closes_window(void **state)
{
    (void)state;
    end_scan();
    tick(0);
    tick(0);
    tick(1); /* its span never came: it waits in the store */
    intake_rig_stop(&rig);
    intake_rig_until(&rig, &rig.stopped);
    assert_int_equal(outgoing_samples(), 2);
    assert_true(rig.n_committed > 0);
}

/* An app whose sample waits for a name while the intake stops. */
static struct symbolizer_message stop_with_name_wanted(void)
{
    struct symbolizer_message mapped = app_mapped();
    rig_symbolizer_open(&rig);
    rig_symbolizer_say(&rig, &mapped);
    rig_symbolizer_say(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_DONE});
    intake_rig_until(&rig, &rig.ready);
    tick(0);
    intake_rig_stop(&rig);
    return hear(SYMBOLIZER_NAMES_WANTED);
}

static void test_stop_waits_for_names(void **state)
{
    (void)state;
    struct symbolizer_message wanted = stop_with_name_wanted();
    struct symbolizer_name name = {.address = 0x10, .function = BYTES_LIT("just_in_time")};
    struct symbolizer_message answer = {.kind = SYMBOLIZER_NAMES,
                                        .names = {.n = 1, .names = &name}};
    memcpy(answer.names.identity, wanted.names_wanted.executable.identity, 16);
    assert_false(rig.stopped);
    rig_symbolizer_say(&rig, &answer);
    intake_rig_until(&rig, &rig.stopped);
    assert_int_equal(outgoing_samples(), 1);
    assert_true(profiles_hold("just_in_time"));
}

static void test_stop_waits_a_moment(void **state)
{
    uint64_t start_ns = clock_monotonic_ns();
    int64_t before =
        stats_find("spanprof_stacks_unfinished_total", "what=\"names\",result=\"stopping\"");
    (void)state;
    stop_with_name_wanted();
    intake_rig_until(&rig, &rig.stopped);
    assert_in_range(clock_monotonic_ns() - start_ns, 900 * NS_PER_MS, 10 * NS_PER_SEC);
    assert_int_equal(outgoing_samples(), 1);
    assert_int_equal(
        stats_find("spanprof_stacks_unfinished_total", "what=\"names\",result=\"stopping\"") -
            before,
        1);
}

/* Nor does a request of spans then wait for the scan: they meet their samples. */
static void test_spans_come_before_the_scan_is_done(void **state)
{
    struct buf body _cleanup_buf_ = BUF_INIT(0);
    struct outgoing outgoing;
    (void)state;
    intake_rig_until(&rig, &rig.ready);
    make_request(&body, 1);
    tick(1);
    assert_int_equal(rig_request_run(&rig, buf_bytes(&body)), INTAKE_ACCEPTED);
    outgoing_read(&outgoing, &rig.fixture.settings.db, SIGNAL_TRACES);
    assert_int_equal(outgoing.n, 1);
    assert_true(has_samples(&outgoing.items[0]));
    outgoing_close(&outgoing);
    end_scan(); /* ready() once */
}

/* No symbolizer ever says that the scan is done; and the window closes by itself. */
static void test_in_time(void **state)
{
    uint64_t start_ns = clock_monotonic_ns();
    (void)state;
    tick(0);
    intake_rig_until(&rig, &rig.ready);
    assert_in_range(clock_monotonic_ns() - start_ns, 250 * NS_PER_MS, 2500 * NS_PER_MS);
    intake_rig_turn(&rig, 100);
    assert_int_equal(record_ring_consumed(&rig.memory), 0); /* nobody needs it yet */
    while (record_ring_consumed(&rig.memory) == 0)
        intake_rig_turn(&rig, 20);
    assert_in_range(clock_monotonic_ns() - start_ns, 2900 * NS_PER_MS, 10 * NS_PER_SEC);
    while (rig.n_committed == 0 && clock_monotonic_ns() < start_ns + 15 * NS_PER_SEC)
        intake_rig_turn(&rig, 50);
    assert_true(clock_monotonic_ns() - start_ns > 4 * NS_PER_SEC);
    assert_int_equal(outgoing_samples(), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_drain_before_request),
        cmocka_unit_test_setup_teardown(test_store_full, set_up_full, tear_down),
        TEST(test_scan_first),
        TEST(test_writer_busy),
        TEST(test_malformed_record),
        cmocka_unit_test_setup_teardown(test_store_failing, set_up_failing, tear_down),
        TEST(test_names),
        TEST(test_symbolizer_replaced),
        TEST(test_scan_done_too_late),
        TEST(test_stop_closes_window),
        TEST(test_stop_waits_for_names),
        TEST(test_stop_waits_a_moment),
        TEST(test_in_time),
        TEST(test_spans_come_before_the_scan_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From the symbolizer's socket and the ring to the datagrams that an agent gets: slow agents,
 * agents that are gone, processes that end, too many of them, and a store that fails. */
#include "agent-bpf/symbolizer_messages.h"
#include "base/clock.h"
#include "base/stats.h"
#include "receiver/intake/correlation.h"
#include "receiver/intake/correlation_counts.h"
#include "test/support/faults/fail_vfs.h"
#include "test/support/rigs/intake_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#define PID        100
#define STACK_BASE UINT64_C(0x400000)
#define DELAY_MS   920 /* drain 20, flush 250, hold 500, margin 150 */

static struct intake_rig rig;

static int open_with(const char *vfs)
{
    intake_rig_open(&rig, &(struct intake_rig_options){.sampler = true, .vfs = vfs});
    intake_rig_start(&rig);
    rig_symbolizer_open(&rig);
    assert_int_equal(rig_symbolizer_hear(&rig).kind, SYMBOLIZER_SCAN_WANTED);
    rig_symbolizer_say(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_DONE});
    intake_rig_until(&rig, &rig.ready);
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

static int tear_down(void **state)
{
    (void)state;
    intake_rig_close(&rig);
    assert_int_equal(stats_find("spanprof_elastic_sockets", ""), 0);
    return 0;
}

static int64_t lost(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return stats_find("spanprof_elastic_samples_lost_total", labels);
}

/* ---- an agent ---- */

static int agent_open(struct sockaddr_un *address, socklen_t *size)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *size = sizeof(*address);
    assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof(sa_family_t)), 0); /* any name */
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, size), 0);
    return fd;
}

static void say_with_fd(const struct symbolizer_message *message, int fd)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } space = {0};
    assert_int_equal(symbolizer_message_encode(message, &text), 0);
    struct iovec part = {.iov_base = text.data, .iov_len = text.len};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &space, .msg_controllen = sizeof(space)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    assert_int_equal(sendmsg(rig.symbolizer, &header, 0), text.len);
    intake_rig_turn(&rig, 10);
}

/* The symbolizer has found its socket. */
static void attach(uint32_t pid, const struct sockaddr_un *address, socklen_t size)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)address, size), 0);
    say_with_fd(&(struct symbolizer_message){.kind = SYMBOLIZER_CORRELATION,
                                             .process = {pid, clock_monotonic_ns()}},
                fd);
    close(fd);
}

static int agent_attach(uint32_t pid)
{
    struct sockaddr_un address;
    socklen_t size;
    int fd = agent_open(&address, &size);
    attach(pid, &address, size);
    return fd;
}

static bool heard_registration(int agent)
{
    static const uint8_t expected[] = {2, 0, 1, 0, DELAY_MS & 0xff, DELAY_MS >> 8, 0, 0,
                                       0, 0, 0, 0};
    uint8_t data[256];
    ssize_t n = recv(agent, data, sizeof(data), 0);
    return n == sizeof(expected) && memcmp(data, expected, sizeof(expected)) == 0;
}

/* The next message about samples; false: there is none. */
static bool hear(int agent, struct elastic_correlation *message)
{
    uint8_t data[256];
    ssize_t n = recv(agent, data, sizeof(data), 0);
    if (n < 0)
        return false;
    assert_int_equal(n, 46);
    assert_memory_equal(data, "\1\0\1\0", 4);
    memcpy(message->trace_id, data + 4, 16);
    memcpy(message->local_root_id, data + 20, 8);
    memcpy(message->stack_id, data + 28, 16);
    memcpy(&message->count, data + 44, 2);
    return true;
}

/* ---- samples ---- */

static void tick(uint32_t pid, unsigned trace, unsigned stack)
{
    struct record_made made;
    struct record_parts parts = {.head = {.pid = pid,
                                          .tid = pid,
                                          .time_ns = clock_monotonic_ns(),
                                          .value_ns = FIXTURE_TICK,
                                          .period_ns = FIXTURE_TICK,
                                          .context_source = CONTEXT_ELASTIC,
                                          .trace_flags = 1,
                                          .comm = "java"},
                                 .n_user = 1,
                                 .user = {STACK_BASE + stack}};
    fixture_trace_id(trace, parts.head.trace_id);
    fixture_span_id(trace + 1000, parts.head.span_id);
    fixture_span_id(trace, parts.head.local_root_id);
    record_ring_put(&rig.memory, record_make(&made, &parts));
}

/* Of a stack whose only frame lies in no mapping. */
static void stack_id_of(unsigned stack, uint8_t id[16])
{
    static const uint8_t unknown[16];
    char decimal[24];
    struct fnv128 fnv;
    snprintf(decimal, sizeof(decimal), "%llu",
             (unsigned long long)((STACK_BASE + stack) % STACKS_PAGE_BYTES));
    fnv128_init(&fnv);
    fnv128_add(&fnv, unknown, sizeof(unknown));
    fnv128_add(&fnv, decimal, strlen(decimal));
    fnv128_finish(&fnv, id);
}

static void turn_a_flush(void)
{
    intake_rig_turn(&rig, (int)(CORRELATION_FLUSH_NS / NS_PER_MS) + 100);
}

static void assert_told(const struct elastic_correlation *message, unsigned trace, unsigned stack)
{
    uint8_t id[16], trace_id[16], root[8];
    fixture_trace_id(trace, trace_id);
    fixture_span_id(trace, root);
    stack_id_of(stack, id);
    assert_memory_equal(message->trace_id, trace_id, 16);
    assert_memory_equal(message->local_root_id, root, 8);
    assert_memory_equal(message->stack_id, id, 16);
}

/* ---- tests ---- */

/* The ids that the agent gets are those that exported samples carry. */
static void test_told(void **state)
{
    (void)state;
    struct elastic_correlation message;
    struct outgoing outgoing;
    char hex[33];
    int agent = agent_attach(PID);
    assert_true(heard_registration(agent));
    for (int i = 0; i < 5; i++)
        tick(PID, 1, 1);
    turn_a_flush();
    assert_true(hear(agent, &message));
    assert_told(&message, 1, 1);
    assert_int_equal(message.count, 5);
    assert_false(hear(agent, &message));

    stack_id_of(1, message.stack_id);
    bytes_to_hex(BYTES(message.stack_id, 16), hex);
    while (worker_queued(rig.writer))
        intake_rig_turn(&rig, 1);
    db_release_thread(store_db(rig.fixture.store)); /* the writer is idle */
    fixture_begin(&rig.fixture);
    struct window_settings window = {
        .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "1"};
    size_t n;
    assert_int_equal(store_window(rig.fixture.store, &window, clock_unix_ns() + FIXTURE_WAIT, &n),
                     0);
    fixture_commit(&rig.fixture);
    db_release_thread(store_db(rig.fixture.store));
    assert_int_equal(n, 5);
    outgoing_read(&outgoing, &rig.fixture.settings.db, SIGNAL_PROFILES);
    assert_int_equal(outgoing.n, 1);
    assert_non_null(memmem(outgoing.items[0].body.data, outgoing.items[0].body.len, hex, 32));
    outgoing_close(&outgoing);
    close(agent);
}

static void test_no_agent(void **state)
{
    (void)state;
    struct elastic_correlation message;
    int64_t before = lost("no_socket");
    tick(PID, 1, 1); /* nobody listens at all: not even counted */
    turn_a_flush();
    assert_int_equal(lost("no_socket"), before);
    int agent = agent_attach(PID);
    assert_true(heard_registration(agent));
    tick(PID + 1, 1, 1);
    tick(PID, 2, 1);
    turn_a_flush();
    assert_true(hear(agent, &message));
    assert_told(&message, 2, 1);
    assert_false(hear(agent, &message));
    assert_int_equal(lost("no_socket"), before + 1);
    close(agent);
}

/* It reads after a while: nothing is lost, nothing comes twice. */
static void test_slow_agent(void **state)
{
    (void)state;
    enum { MESSAGES = 300 };
    struct elastic_correlation message;
    unsigned heard[MESSAGES + 1] = {0}, n = 0;
    int64_t before = lost("agent_slow");
    int agent = agent_attach(PID);
    for (unsigned trace = 1; trace <= MESSAGES; trace++)
        tick(PID, trace, trace);
    turn_a_flush();
    tick(PID, 1, 1);
    turn_a_flush();
    assert_true(heard_registration(agent));
    for (int round = 0; round < 2000 && n < MESSAGES + 1; round++) {
        while (hear(agent, &message)) {
            unsigned trace = message.trace_id[15] | (unsigned)message.trace_id[14] << 8;
            assert_in_range(trace, 1, MESSAGES);
            heard[trace] += message.count;
            n++;
        }
        assert_int_equal(loop_once(rig.loop, 5), 0);
    }
    assert_int_equal(n, MESSAGES + 1);
    assert_int_equal(heard[1], 2);
    for (unsigned trace = 2; trace <= MESSAGES; trace++)
        assert_int_equal(heard[trace], 1);
    assert_int_equal(lost("agent_slow"), before);
    close(agent);
}

static void test_agent_that_never_reads(void **state)
{
    (void)state;
    int64_t before = lost("agent_slow"), gone = lost("agent_gone");
    int64_t sent = stats_find("spanprof_elastic_samples_total", "");
    int agent = agent_attach(PID);
    unsigned n = CORRELATION_WAITING_MAX + 500;
    for (unsigned trace = 1; trace <= n; trace++) {
        tick(PID, trace, 1);
        if (trace % 200 == 0)
            intake_rig_turn(&rig, 30); /* the ring is small */
    }
    turn_a_flush();
    sent = stats_find("spanprof_elastic_samples_total", "") - sent;
    before = lost("agent_slow") - before;
    assert_in_range(before, 1, 500);
    assert_int_equal(before + sent, 500); /* the rest waits */
    close(agent);
    turn_a_flush();
    assert_int_equal(lost("agent_gone"), gone + CORRELATION_WAITING_MAX);
}

static void test_agent_that_is_gone(void **state)
{
    (void)state;
    int64_t before = lost("agent_gone");
    int agent = agent_attach(PID);
    assert_int_equal(stats_find("spanprof_elastic_sockets", ""), 1);
    close(agent);
    tick(PID, 1, 1);
    turn_a_flush();
    assert_int_equal(stats_find("spanprof_elastic_sockets", ""), 0);
    assert_int_equal(lost("agent_gone"), before + 1);

    struct sockaddr_un address; /* and one that is gone before it could be registered with */
    socklen_t size;
    agent = agent_open(&address, &size);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    close(agent);
    say_with_fd(&(struct symbolizer_message){.kind = SYMBOLIZER_CORRELATION, .process = {PID, 1}},
                fd);
    close(fd);
    assert_int_equal(stats_find("spanprof_elastic_sockets", ""), 0);
}

/* A new symbolizer, or a new socket of the agent: what waits is sent there, after the registration.
 */
static void test_replaced(void **state)
{
    (void)state;
    struct elastic_correlation message;
    struct sockaddr_un address;
    socklen_t size;
    unsigned n = 0;
    int agent = agent_open(&address, &size);
    attach(PID, &address, size);
    assert_true(heard_registration(agent));
    attach(PID, &address, size);
    assert_true(heard_registration(agent));
    for (unsigned trace = 1; trace <= 40; trace++)
        tick(PID, trace, 1);
    turn_a_flush();
    int second = agent_attach(PID);
    assert_int_equal(stats_find("spanprof_elastic_sockets", ""), 1);
    assert_true(heard_registration(second));
    for (int round = 0; round < 400 && n < 40; round++) {
        while (hear(agent, &message) || hear(second, &message))
            n++;
        assert_int_equal(loop_once(rig.loop, 5), 0);
    }
    assert_int_equal(n, 40);
    close(agent);
    close(second);
}

static bool dropped_by(enum process_event_kind kind, uint32_t pid, int64_t after_ns)
{
    struct correlation *correlation;
    struct correlation_settings settings = {
        .loop = rig.loop, .writer = rig.writer, .store = rig.fixture.store};
    struct process_event event = {.kind = kind, .pid = pid};
    struct symbolizer_process process = {PID, 1000};
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(correlation_open(&settings, &correlation), 0);
    correlation_attach(correlation, &process, fds[0]);
    assert_int_equal(stats_find("spanprof_elastic_sockets", ""), 1);
    event.time_ns = (uint64_t)(1000 + after_ns);
    correlation_event(correlation, &event);
    bool dropped = stats_find("spanprof_elastic_sockets", "") == 0;
    correlation_close(correlation);
    close(fds[1]);
    return dropped;
}

static void test_process_events(void **state)
{
    (void)state;
    assert_true(dropped_by(PROCESS_EXITED, PID, 1));
    assert_true(dropped_by(PROCESS_EXECED, PID, 1));
    assert_true(dropped_by(PROCESS_FORKED, PID, 1));
    assert_false(dropped_by(PROCESS_MAPPED, PID, 1));
    assert_false(dropped_by(PROCESS_LOST, PID, 1));
    assert_false(dropped_by(PROCESS_EXITED, PID + 1, 1));
    assert_false(dropped_by(PROCESS_EXECED, PID, -1)); /* it was looked for after that */

    int agent = agent_attach(PID);
    rig_symbolizer_say(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_GONE,
                                                          .process = {PID, clock_monotonic_ns()}});
    intake_rig_turn(&rig, 50);
    assert_int_equal(stats_find("spanprof_elastic_sockets", ""), 0);
    close(agent);
}

static void test_limit(void **state)
{
    (void)state;
    struct rlimit before, few;
    struct correlation *correlation;
    struct correlation_settings settings = {
        .loop = rig.loop, .writer = rig.writer, .store = rig.fixture.store};
    int64_t evicted = stats_find("spanprof_elastic_sockets_evicted_total", "");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 256;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(correlation_open(&settings, &correlation), 0);
    int fds[2];
    for (uint32_t pid = 1; pid <= 100; pid++) {
        struct symbolizer_process process = {pid, 1};
        assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds), 0);
        correlation_attach(correlation, &process, fds[0]);
        close(fds[1]);
    }
    int64_t kept = stats_find("spanprof_elastic_sockets", "");
    evicted = stats_find("spanprof_elastic_sockets_evicted_total", "") - evicted;
    correlation_close(correlation);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_in_range(kept, 60, 70);
    assert_int_equal(kept + evicted, 100);
}

/* What is told must have been committed: the public id is fixed for good then. */
static void test_store_fails(void **state)
{
    (void)state;
    struct elastic_correlation message;
    int64_t before = lost("store") + lost("rolled_back");
    int agent = agent_attach(PID);
    assert_true(heard_registration(agent));
    tick(PID, 1, 1);
    intake_rig_turn(&rig, 60); /* drained and committed */
    fail_vfs_from(1, FAIL_VFS_FULL);
    turn_a_flush();
    assert_true(fail_vfs_hit());
    assert_false(hear(agent, &message));
    assert_int_equal(lost("store") + lost("rolled_back"), before + 1);
    tick(PID, 2, 2);
    turn_a_flush();
    assert_true(hear(agent, &message));
    assert_told(&message, 2, 2);
    close(agent);
}

/* The kernel keeps ten messages for an agent that reads every 20 ms. */
static void test_stop_waits_for_slow_agent(void **state)
{
    (void)state;
    enum { MESSAGES = 60 };
    struct elastic_correlation message;
    unsigned n = 0;
    int agent = agent_attach(PID);
    assert_true(heard_registration(agent));
    for (unsigned trace = 1; trace <= MESSAGES; trace++)
        tick(PID, trace, trace);
    intake_rig_stop(&rig);
    while (!rig.stopped) {
        intake_rig_turn(&rig, 20);
        for (; hear(agent, &message); n++)
            assert_int_equal(message.count, 1);
    }
    assert_int_equal(n, MESSAGES);
    close(agent);
}

static void test_stop_with_agent_that_never_reads(void **state)
{
    (void)state;
    int agent = agent_attach(PID);
    for (unsigned trace = 1; trace <= 60; trace++)
        tick(PID, trace, trace);
    uint64_t begun_ns = clock_monotonic_ns();
    intake_rig_stop(&rig);
    intake_rig_until(&rig, &rig.stopped);
    assert_true(clock_monotonic_ns() >= begun_ns + CORRELATION_STOP_NS);
    close(agent);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_told),
        TEST(test_no_agent),
        TEST(test_slow_agent),
        TEST(test_agent_that_never_reads),
        TEST(test_agent_that_is_gone),
        TEST(test_replaced),
        TEST(test_process_events),
        TEST(test_limit),
        cmocka_unit_test_setup_teardown(test_store_fails, set_up_failing, tear_down),
        TEST(test_stop_waits_for_slow_agent),
        TEST(test_stop_with_agent_that_never_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

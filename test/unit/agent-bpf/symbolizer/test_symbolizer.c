/* SPDX-License-Identifier: Apache-2.0 */
/* The client against a peer of our own, and the symbolizer itself on the processes of this test. */
#include "agent-bpf/symbolizer/process_texts.h"
#include "agent-bpf/symbolizer/symbolizer_ledger.h"
#include "agent-bpf/record.h"
#include "agent-bpf/files/safe_open.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "test/support/fixtures/skip.h"
#include "test/support/rigs/reader_rig.h"
#include "test/support/rigs/symbolizer_rig.h"
#include "test/support/fixtures/context_fixture.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- client ---- */

static const struct symbolizer_message process_wanted = {.kind = SYMBOLIZER_PROCESS_WANTED,
                                                         .process = {.pid = 10}};
static const struct symbolizer_message executable_wanted = {
    .kind = SYMBOLIZER_EXECUTABLE_WANTED,
    .executable_ref = {.identity = {1}, .pid = 4, .mapping = {.path = "/usr/bin/a"}}};
static uint64_t wanted_addresses[] = {1, 0x1234, UINT64_MAX};
static const struct symbolizer_message names_wanted = {
    .kind = SYMBOLIZER_NAMES_WANTED,
    .names_wanted = {.executable = {.identity = {2}, .pid = 4, .mapping = {.path = "/usr/bin/a"}},
                     .n = 3,
                     .addresses = wanted_addresses}};
static const struct symbolizer_message scan_done = {.kind = SYMBOLIZER_SCAN_DONE};

static struct rig rig;
static int peer = -1;

static void attach_peer(void)
{
    int sockets[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets),
                     0);
    if (peer >= 0)
        close(peer);
    peer = sockets[1];
    assert_int_equal(symbolizer_client_attach(rig.client, sockets[0]), 0);
}

/* Kind of the next request, 0 = none. */
static unsigned next_request(void)
{
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    ssize_t n = recv(peer, datagram, sizeof(datagram), MSG_DONTWAIT);
    return n > 0 ? datagram[0] : 0;
}

static void say(const struct symbolizer_message *message)
{
    _cleanup_buf_ struct buf text = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
    assert_int_equal(symbolizer_message_encode(message, &text), 0);
    assert_int_equal(send(peer, text.data, text.len, 0), text.len);
    loop_once(rig.loop, 100);
}

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    if (peer >= 0)
        close(peer);
    peer = -1;
    return 0;
}

static void client_order(void **state)
{
    (void)state;
    rig_send(&rig, &process_wanted); /* while none is attached: waits */
    assert_false(symbolizer_client_attached(rig.client));
    attach_peer();
    assert_int_equal(next_request(), SYMBOLIZER_SCAN_WANTED);
    assert_int_equal(next_request(), SYMBOLIZER_PROCESS_WANTED);
    rig_send(&rig, &names_wanted);
    rig_send(&rig, &executable_wanted);
    assert_int_equal(next_request(), SYMBOLIZER_NAMES_WANTED);
    assert_int_equal(next_request(), SYMBOLIZER_EXECUTABLE_WANTED);
    assert_int_equal(next_request(), 0);
    say(&scan_done);
    assert_int_equal(rig.answers[SYMBOLIZER_SCAN_DONE], 1);
}

static void client_repeats(void **state)
{
    (void)state;
    int64_t dropped =
        stats_find("spanprof_symbolizer_requests_dropped_total", "reason=\"unanswered\"");
    attach_peer();
    rig_send(&rig, &executable_wanted); /* executable 1 */
    rig_send(&rig, &names_wanted);      /* names of executable 2 */
    rig_send(&rig, &process_wanted);
    attach_peer();
    assert_int_equal(next_request(), SYMBOLIZER_SCAN_WANTED);
    assert_int_equal(next_request(), SYMBOLIZER_EXECUTABLE_WANTED);
    assert_int_equal(next_request(), SYMBOLIZER_NAMES_WANTED);
    assert_int_equal(next_request(), 0);
    struct symbolizer_message answer = {.kind = SYMBOLIZER_NAMES, .names = {.identity = {2}}};
    say(&answer);
    attach_peer();
    next_request();
    assert_int_equal(next_request(), SYMBOLIZER_EXECUTABLE_WANTED);
    assert_int_equal(next_request(), 0);
    attach_peer(); /* three times was enough */
    next_request();
    assert_int_equal(next_request(), 0);
    assert_int_equal(
        stats_find("spanprof_symbolizer_requests_dropped_total", "reason=\"unanswered\"") - dropped,
        1);
}

static void client_distrusts(void **state)
{
    (void)state;
    int64_t before = stats_find("spanprof_symbolizer_messages_malformed_total", "");
    attach_peer();
    assert_int_equal(send(peer, "\xff\xff", 2, 0), 2);
    loop_once(rig.loop, 100);
    assert_false(symbolizer_client_attached(rig.client));
    attach_peer();
    assert_int_equal(send(peer, "\x01", 1, 0), 1); /* well-formed, but ours to say */
    loop_once(rig.loop, 100);
    assert_false(symbolizer_client_attached(rig.client));
    assert_int_equal(stats_find("spanprof_symbolizer_messages_malformed_total", "") - before, 2);
    attach_peer();
    close(peer);
    peer = -1;
    loop_once(rig.loop, 100);
    assert_false(symbolizer_client_attached(rig.client));
    rig_send(&rig, &process_wanted); /* still takes requests */
}

static void client_is_bounded(void **state)
{
    (void)state;
    int64_t dropped =
        stats_find("spanprof_symbolizer_requests_dropped_total", "reason=\"queue_full\"");
    attach_peer(); /* and it reads nothing */
    for (unsigned i = 0; i < SYMBOLIZER_REQUESTS_MAX + 5000; i++)
        rig_send(&rig, &process_wanted);
    assert_true(stats_find("spanprof_symbolizer_requests_dropped_total", "reason=\"queue_full\"") >
                dropped);
    unsigned got = 0;
    for (int idle = 0; idle < 3; loop_once(rig.loop, 10))
        for (idle++; next_request(); got++)
            idle = 0;
    assert_true(got >= SYMBOLIZER_REQUESTS_MAX);
}

/* The rest of a stack is asked for now or not at all, and never in the place of other requests. */
static void client_leaves_stacks_out(void **state)
{
    (void)state;
    static uint8_t stack[sizeof(struct record_stack) + RECORD_STACK_MAX];
    const struct symbolizer_message unwind_wanted = {
        .kind = SYMBOLIZER_UNWIND_WANTED, .unwind_wanted = {.stack = BYTES(stack, sizeof(stack))}};
    int64_t dropped =
        stats_find("spanprof_symbolizer_requests_dropped_total", "reason=\"queue_full\"");
    rig_send(&rig, &unwind_wanted);
    assert_int_equal(
        stats_find("spanprof_symbolizer_requests_dropped_total", "reason=\"queue_full\"") - dropped,
        1);
    attach_peer();
    rig_send(&rig, &unwind_wanted);
    assert_int_equal(next_request(), SYMBOLIZER_SCAN_WANTED);
    assert_int_equal(next_request(), SYMBOLIZER_UNWIND_WANTED);
    attach_peer(); /* not repeated */
    assert_int_equal(next_request(), SYMBOLIZER_SCAN_WANTED);
    assert_int_equal(next_request(), 0);

    unsigned n_sent = 0, n_stacks = 0, n_others = 0;
    rig_send(&rig, &names_wanted); /* and now it reads nothing */
    while (stats_find("spanprof_symbolizer_requests_dropped_total", "reason=\"queue_full\"") -
                   dropped ==
               1 &&
           n_sent++ < 1000)
        rig_send(&rig, &unwind_wanted);
    assert_in_range(n_sent, 2, 600);
    rig_send(&rig, &names_wanted);
    for (int idle = 0; idle < 3; idle++, loop_once(rig.loop, 10))
        for (unsigned kind; (kind = next_request());) {
            n_stacks += kind == SYMBOLIZER_UNWIND_WANTED;
            n_others += kind == SYMBOLIZER_NAMES_WANTED;
            idle = 0;
        }
    assert_int_equal(n_stacks, n_sent - 1);
    assert_int_equal(n_others, 2);
}

/* ---- the symbolizer ---- */

static int __attribute__((noinline)) function_to_be_named(int x)
{
    return x + 1;
}

static char function_name[SYMBOLIZER_NAME_BYTES + 1];
static bool executable_found;

static void note_answer(struct rig *with, const struct symbolizer_message *message)
{
    (void)with;
    if (message->kind == SYMBOLIZER_EXECUTABLE)
        executable_found |= message->executable.found && message->executable.n_segments;
    if ((message->kind == SYMBOLIZER_NAMES || message->kind == SYMBOLIZER_KERNEL_NAMES) &&
        message->names.n) {
        struct bytes name = message->names.names[0].function;
        memcpy(function_name, name.data, name.len);
        function_name[name.len] = 0;
    }
}

static void scan_tells_all(void **state)
{
    (void)state;
    rig.answered = note_answer;
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    uint32_t pid = (uint32_t)getpid();
    struct process_place place;
    uint64_t now_ns = clock_monotonic_ns();
    assert_int_equal(function_to_be_named(1), 2);
    uint64_t address = (uint64_t)(uintptr_t)function_to_be_named;
    assert_int_equal(process_table_resolve(rig.table, pid, now_ns, address, &place), 0);
    assert_non_null(strstr(place.path, "test_symbolizer"));
    struct process_details details;
    assert_int_equal(process_table_details(rig.table, pid, now_ns, &details), 0);
    assert_true(bytes_is(details.executable_name, "test_symbolizer"));
    assert_int_equal(details.own_pid, getpid());
    assert_true(details.start_ns != 0);
    uint8_t identity[16];
    memcpy(identity, place.identity, 16);
    function_name[0] = 0;
    assert_int_equal(process_table_want_names(rig.table, 0, identity, &place.file_offset, 1), 0);
    assert_true(rig_wait(&rig, SYMBOLIZER_NAMES, 1, 10000));
    assert_string_equal(function_name, "function_to_be_named");
    assert_true(rig_wait(&rig, SYMBOLIZER_EXECUTABLE, 1, 10000));
    assert_true(executable_found);
    struct process_kernel kernel;
    assert_int_equal(process_table_kernel(rig.table, &kernel), 0);
    if (!kernel.text_start)
        return; /* without rights */
    uint64_t offset = 0;
    function_name[0] = 0;
    assert_int_equal(process_table_want_names(rig.table, 0, kernel.identity, &offset, 1), 0);
    assert_true(rig_wait(&rig, SYMBOLIZER_KERNEL_NAMES, 1, 10000));
    assert_true(function_name[0] != 0);
}

static uint8_t payload[1024];

static void publish(void *context)
{
    size_t size = fixture_payload(payload, sizeof(payload), OTEL_THREAD_SCHEMA_DEV);
    struct otel_process_header *header = fixture_publish(payload, size);
    (void)context;
    if (!header)
        _exit(1);
}

static pid_t looked_at;

static bool has_context(struct rig *with)
{
    struct process_details details;
    return !process_table_details(with->table, (uint32_t)looked_at, clock_monotonic_ns(),
                                  &details) &&
           details.publishes && memmem(details.resource.data, details.resource.len, "shop", 4) &&
           details.n_keys == 2;
}

static void finds_contexts(void **state)
{
    (void)state;
    pid_t before = fixture_child(publish, NULL);
    rig_start(&rig);
    looked_at = before;
    assert_true(rig_until(&rig, has_context, 20000));
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    pid_t after = fixture_child(publish, NULL);
    looked_at = after;
    struct process_event exec = {
        .kind = PROCESS_EXECED, .pid = (uint32_t)after, .time_ns = clock_monotonic_ns()};
    process_table_apply(rig.table, &exec);
    assert_true(rig_until(&rig, has_context, 30000));
    /* an end that the kernel's stream did not tell of: noticed by looking */
    fixture_kill(before);
    unsigned gone = rig.answers[SYMBOLIZER_GONE];
    struct symbolizer_message again = {.kind = SYMBOLIZER_CONTEXT_WANTED,
                                       .process = {.pid = (uint32_t)before}};
    rig_send(&rig, &again);
    assert_true(rig_wait(&rig, SYMBOLIZER_GONE, gone + 1, 30000));
    fixture_kill(after);
}

/* Published 0.7 s after it was first asked for. */
static void polls_for_contexts(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (!pid) {
        usleep(700000);
        publish(NULL);
        for (;;)
            pause();
    }
    looked_at = pid;
    rig_start(&rig);
    assert_true(rig_until(&rig, has_context, 30000));
    fixture_kill(pid);
}

static void sleep_with_name(void)
{
    char *const environment[] = {"PATH=/bin",
                                 "OTEL_RESOURCE_ATTRIBUTES=service.name=other,team=core",
                                 "OTEL_SERVICE_NAME=by-environment", NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execle("/bin/sleep", "sleep", "1000", NULL, environment);
    _exit(1);
}

static struct bytes resource_of(pid_t pid)
{
    struct process_details details = {0};
    process_table_details(rig.table, (uint32_t)pid, clock_monotonic_ns(), &details);
    assert_int_equal(details.publishes, 0);
    return details.resource;
}

static bool says(pid_t pid, const char *key, const char *value)
{
    struct bytes key_value, text;
    return otlp_resource_attribute(resource_of(pid), key, &key_value) &&
           otlp_key_value_string(key_value, &text) && bytes_is(text, value);
}

static bool is_named(struct rig *with)
{
    (void)with;
    return says(looked_at, "service.name", "by-environment");
}

/* It publishes nothing, but its environment names it: read once it is sampled. */
static void reads_environments(void **state)
{
    (void)state;
    int done[2];
    char byte;
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    looked_at = fork();
    if (!looked_at)
        sleep_with_name();
    close(done[1]);
    assert_int_equal(read(done[0], &byte, 1), 0); /* it has execed */
    close(done[0]);
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    struct process_event exec = {
        .kind = PROCESS_EXECED, .pid = (uint32_t)looked_at, .time_ns = clock_monotonic_ns()};
    process_table_apply(rig.table, &exec);
    assert_true(rig_wait(&rig, SYMBOLIZER_DETAILS, rig.answers[SYMBOLIZER_DETAILS] + 1, 30000));
    rig_round(&rig);
    assert_int_equal(resource_of(looked_at).len, 0);
    process_table_sampled(rig.table, (uint32_t)looked_at, 1, clock_monotonic_ns());
    assert_true(rig_until(&rig, is_named, 30000));
    assert_true(says(looked_at, "team", "core"));
    assert_true(says(looked_at, "spanprof.service.name.source", "environment"));
    fixture_kill(looked_at);
}

static void survives_its_symbolizer(void **state)
{
    (void)state;
    pid_t child = fixture_child(publish, NULL);
    looked_at = child;
    for (unsigned i = 0; i < 3; i++) {
        rig_start(&rig);
        for (int round = 0; round < 3; round++)
            rig_round(&rig);
        rig_stop(&rig); /* in the middle of its scan */
    }
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    assert_true(rig_until(&rig, has_context, 30000));
    kill(rig.symbolizer, SIGSTOP); /* nothing blocks */
    for (int i = 0; i < 1000; i++)
        rig_send(&rig, &process_wanted);
    for (int round = 0; round < 5; round++)
        rig_round(&rig);
    fixture_kill(child);
}

static void become_nobody(void *context)
{
    (void)context;
    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
        _exit(1);
}

static void owner_of(uint32_t pid, struct process_owner *owner)
{
    struct process_texts texts = {0};
    struct bytes cgroup = {0}, status = {0};
    (void)process_text(&texts, pid, READER_CGROUP, &cgroup);
    (void)process_text(&texts, pid, READER_STATUS, &status);
    process_owner_from(pid, cgroup, status, owner);
    process_texts_close(&texts);
}

/* Of a process in the root cgroup its user answers, of root's the process itself. */
static void owners(void **state)
{
    struct process_owner own, other;
    (void)state;
    reader_rig_attach();
    owner_of((uint32_t)getpid(), &own);
    pid_t child = fixture_child(become_nobody, NULL);
    owner_of((uint32_t)child, &other);
    fixture_kill(child);
    assert_int_equal(own.pid, getpid());
    if (own.kind == OWNER_CGROUP) {
        assert_true(other.kind == OWNER_CGROUP && other.key == own.key);
    } else if (geteuid() == 0) {
        assert_true(own.kind == OWNER_PROCESS && own.key == (uint64_t)getpid());
        assert_true(other.kind == OWNER_USER && other.key == 65534);
    }
    owner_of(0x7ffffff0, &other);
    reader_client_close();
    assert_true(other.kind == OWNER_PROCESS && other.key == 0x7ffffff0);
}

/* The payload lies where reading waits for ever: a page that a user-space daemon would have to
 * bring. */
static void publish_trap(void *context)
{
    int *possible = context;
    struct uffdio_api api = {.api = UFFD_API};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {.start = (uintptr_t)page, .len = 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    *possible = fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &range);
    if (*possible && !fixture_publish(page, 100))
        *possible = 0;
}

/* The reader walks into it and is replaced; the symbolizer goes on. */
static void a_trap_stops_only_a_reader(void **state)
{
    (void)state;
    int *possible = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t trap = fixture_child(publish_trap, possible);
    if (!*possible) {
        fixture_kill(trap);
        skip_because("no userfaultfd");
    }
    pid_t good = fixture_child(publish, NULL);
    looked_at = good;
    int64_t lost = stats_find("spanprof_readers_lost_total", "");
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 30000));
    assert_true(rig_until(&rig, has_context, 30000));
    assert_true(stats_find("spanprof_readers_lost_total", "") > lost);
    struct process_details details;
    assert_int_equal(
        process_table_details(rig.table, (uint32_t)trap, clock_monotonic_ns(), &details), 0);
    assert_int_equal(details.publishes, 0);
    fixture_kill(trap);
    fixture_kill(good);
    munmap(possible, 4096);
}

static bool is_banned(struct symbolizer_ledger *book, uint64_t key, uint64_t now_ns)
{
    const struct process_owner owner = {.kind = OWNER_CGROUP, .key = key};
    return symbolizer_ledger_banned(book, &owner, now_ns, false);
}

static void enter(struct symbolizer_ledger *book, uint64_t key)
{
    const struct process_owner owner = {.kind = OWNER_CGROUP, .key = key, .pid = 7};
    symbolizer_ledger_enter(book, &owner);
}

static void ledger(void **state)
{
    (void)state;
    const uint64_t sec = NS_PER_SEC;
    const struct process_owner user = {.kind = OWNER_USER, .key = 10},
                               cgroup = {.kind = OWNER_CGROUP, .key = 10};
    struct symbolizer_ledger *book;
    int fd = symbolizer_ledger_make();
    assert_true(fd >= 0);
    assert_int_equal(symbolizer_ledger_open(fd, &book), 0);
    close(fd);
    assert_int_equal(symbolizer_ledger_ban_last(book, sec), 0);
    enter(book, 10);
    symbolizer_ledger_leave(book);
    assert_int_equal(symbolizer_ledger_ban_last(book, sec), 0);
    assert_false(symbolizer_ledger_has_bans(book));
    enter(book, 10);
    assert_int_equal(symbolizer_ledger_ban_last(book, sec), 7);
    assert_true(symbolizer_ledger_has_bans(book));
    assert_true(is_banned(book, 10, 3 * sec - 1));
    assert_false(is_banned(book, 10, 3 * sec));
    assert_false(is_banned(book, 11, 2 * sec));
    assert_false(symbolizer_ledger_banned(book, &user, 2 * sec, true));  /* another kind */
    assert_true(symbolizer_ledger_banned(book, &cgroup, 3 * sec, true)); /* for good */
    enter(book, 10);
    assert_int_equal(symbolizer_ledger_ban_last(book, 5 * sec), 7);
    assert_true(is_banned(book, 10, 65 * sec - 1));
    assert_false(is_banned(book, 10, 65 * sec));
    for (uint64_t key = 100; key < 1000; key++) {
        enter(book, key);
        symbolizer_ledger_ban_last(book, 70 * sec + key);
    }
    assert_true(is_banned(book, 999, 71 * sec));
    assert_false(is_banned(book, 100, 71 * sec)); /* forgotten for room */
    symbolizer_ledger_enter(NULL, &user);
    symbolizer_ledger_leave(NULL);
    assert_false(symbolizer_ledger_banned(NULL, &user, 1, true));
    symbolizer_ledger_close(book);
}

int main(void)
{
    if (stats_share()) /* what the symbolizer counts */
        return 1;
#define R(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
    const struct CMUnitTest tests[] = {
        R(client_order),
        R(client_repeats),
        R(client_distrusts),
        R(client_is_bounded),
        R(client_leaves_stacks_out),
        cmocka_unit_test(ledger),
        cmocka_unit_test(owners),
        R(scan_tells_all),
        R(finds_contexts),
        R(polls_for_contexts),
        R(reads_environments),
        R(survives_its_symbolizer),
        R(a_trap_stops_only_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

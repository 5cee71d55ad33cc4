/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor with real children, each in a process of its own: what they are started with, what
 * becomes of them when they die, hang or are told to stop.
 */
#include "bpf_test.h"
#include "supervisor_fixture.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/supervisor/supervisor_client.h"
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/drain/ring.h"
#include "test/support/fixtures/skip.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define NOBODY 65534

/* Shared with all processes of a test. */
struct board {
    _Atomic int service, symbolizer; /* pids of those running */
    _Atomic unsigned service_starts, symbolizer_starts;
    _Atomic unsigned hellos; /* symbolizers' words that came through to the service */
    _Atomic unsigned stops, reloads, cpus;
    _Atomic uint64_t records, events;
    _Atomic int sampling;
    _Atomic int fds;  /* the service's */
    int service_exit; /* at once, with this code; -1: runs */
    bool ignore_stop;
};

/* ---- the children ---- */

struct service {
    struct supervisor_client child;
    struct loop *loop;
    struct timer drain;
    struct watch symbolizer;
    struct ring *ring;
    struct procstream *procstream;
};

static void service_stop(struct supervisor_client *child)
{
    struct service *service = container_of(child, struct service, child);
    board->stops++;
    if (!board->ignore_stop)
        loop_stop(service->loop);
}

static void service_reload(struct supervisor_client *child)
{
    (void)child;
    board->reloads++;
}

static void hear_symbolizer(struct watch *watch, uint32_t events)
{
    char text[16];
    ssize_t n = recv(watch->fd, text, sizeof(text), MSG_DONTWAIT);
    (void)events;
    if (n == 5 && !memcmp(text, "hello", 5))
        board->hellos++;
    if (n <= 0 && !(n < 0 && errno == EAGAIN)) {
        int fd = watch->fd;
        watch_stop(watch);
        close(fd);
    }
}

static void service_symbolizer(struct supervisor_client *child, int fd)
{
    struct service *service = container_of(child, struct service, child);
    if (service->symbolizer.loop) {
        int old = service->symbolizer.fd;
        watch_stop(&service->symbolizer);
        close(old);
    }
    service->symbolizer =
        (struct watch){.fd = fd, .events = 1 /* EPOLLIN */, .ready = hear_symbolizer};
    watch_start(service->loop, &service->symbolizer);
}

static void service_cpu(struct supervisor_client *child, uint32_t cpu, int fd, size_t buffer_size)
{
    struct service *service = container_of(child, struct service, child);
    if (procstream_add(service->procstream, cpu, fd, buffer_size) == 0)
        board->cpus++;
    close(fd);
}

static void count_record(void *context, const struct record_header *record)
{
    (void)context;
    (void)record;
    board->records++;
}

static void count_event(void *context, const struct process_event *event)
{
    (void)context;
    (void)event;
    board->events++;
}

static void service_drain(struct timer *timer)
{
    struct service *service = container_of(timer, struct service, drain);
    if (service->ring) {
        ring_drain(service->ring, ring_position(service->ring), count_record, NULL, NULL);
        procstream_drain(service->procstream, count_event, NULL);
    }
    timer_start(service->loop, timer, 50 * NS_PER_MS);
}

static int count_fds(void)
{
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        n++;
    if (directory)
        closedir(directory);
    return n - 3; /* ".", "..", the directory's own */
}

static int service_main(const struct service_handles *handles)
{
    struct service service = {.child = {.stop = service_stop,
                                        .reload = service_reload,
                                        .symbolizer = service_symbolizer,
                                        .cpu_came = service_cpu}};
    board->fds = count_fds();
    board->service = getpid();
    board->service_starts++;
    board->sampling = handles->sampling;
    if (board->service_exit >= 0) {
        procstream_close(handles->procstream);
        return board->service_exit;
    }
    if (loop_open(&service.loop) < 0 ||
        supervisor_client_start(&service.child, service.loop, handles->control_fd) < 0)
        return 1;
    if (handles->sampling && ring_open(handles->ring_fd, handles->ring_size, &service.ring) < 0)
        return 1;
    service.procstream = handles->procstream;
    service.drain = (struct timer){.fire = service_drain};
    timer_start(service.loop, &service.drain, 0);
    int r = loop_run(service.loop);
    timer_stop(&service.drain);
    watch_stop(&service.symbolizer);
    supervisor_client_stop(&service.child);
    ring_close(service.ring);
    procstream_close(service.procstream);
    loop_close(service.loop);
    return r < 0;
}

static int symbolizer_main(const struct symbolizer_handles *handles)
{
    board->symbolizer = getpid();
    board->symbolizer_starts++;
    if (send(handles->service_fd, "hello", 5, MSG_NOSIGNAL) != 5)
        return 1;
    for (;;) {
        heartbeat_send(handles->control_fd);
        sleep_ms(100);
    }
}

/* ---- around a test ---- */

/* An idle machine has neither ticks nor process events. */
static void make_work(void)
{
    assert_int_equal(system("for i in 1 2 3 4 5; do /bin/true; j=0; while [ $j -lt 20000 ]; do "
                            "j=$((j+1)); done; done"),
                     0);
}

static struct supervisor_settings default_settings(void)
{
    const struct role_settings given = board_given();
    return (struct supervisor_settings){
        .want_sampler = true,
        .sampler = {.frequency_hz = 97, .ring_size_bytes = 1 << 20},
        .service = given,
        .symbolizer = given,
        .store_directory = "/nonexistent/store",
    };
}

static int setup(void **state)
{
    (void)state;
    bool opened = board_open(sizeof(*board));
    if (!opened)
        return -1;
    board->service_exit = -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return board_close(sizeof(*board));
}

static int end_of(pid_t supervisor, unsigned timeout_ms)
{
    int status = 0;
    if (!WAIT_FOR(waitpid(supervisor, &status, WNOHANG) == supervisor, timeout_ms)) {
        kill(supervisor, SIGKILL);
        waitpid(supervisor, &status, 0);
        supervisor_pid = 0;
        fail_msg("the supervisor did not end");
    }
    supervisor_pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool gone(int pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

static void stop_cleanly(pid_t supervisor)
{
    kill(supervisor, SIGTERM);
    assert_int_equal(end_of(supervisor, 12000), 0);
    assert_true(WAIT_FOR(gone(board->service), 1000));
    assert_true(!board->symbolizer || WAIT_FOR(gone(board->symbolizer), 1000));
}

static void await_start(void)
{
    assert_true(WAIT_FOR(board->service_starts >= 1, 5000));
    assert_true(WAIT_FOR(board->hellos >= 1, 5000));
}

static void status_line(int pid, const char *key, char *out, size_t size)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    snprintf(out, size, "%s", "");
    while (fgets(line, sizeof(line), file))
        if (!strncmp(line, key, strlen(key)))
            snprintf(out, size, "%s", line + strlen(key));
    fclose(file);
}

static uint64_t status_number(int pid, const char *key, int base)
{
    char text[256];
    status_line(pid, key, text, sizeof(text));
    return strtoull(text, NULL, base);
}

/* ---- tests ---- */

static void test_children_work_and_stop(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    assert_int_equal(board->sampling, 1);
    make_work();
    assert_true(WAIT_FOR(board->records > 0 && board->events > 0, 5000));
    kill(supervisor, SIGHUP);
    assert_true(WAIT_FOR(board->reloads == 1, 2000));
    sleep_ms(1500); /* past a look at CPUs and heartbeats */
    stop_cleanly(supervisor);
    assert_int_equal(board->stops, 1);
    assert_int_equal(board->service_starts, 1);
    assert_int_equal(board->symbolizer_starts, 1);
}

static void check_no_capabilities(int pid)
{
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        assert_int_equal(status_number(pid, sets[i], 16), 0);
    assert_int_equal(status_number(pid, "NoNewPrivs:", 10), 1);
}

static void check_rights(const char *user, const char *directory, uint64_t uid)
{
    struct supervisor_settings settings = default_settings();
    settings.user = user;
    settings.store_directory = directory;
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    check_no_capabilities(board->service);
    check_no_capabilities(board->symbolizer);
    assert_int_equal(status_number(board->service, "Uid:", 10), uid);
    assert_int_equal(status_number(board->symbolizer, "Uid:", 10), uid);
    char groups[256];
    status_line(board->service, "Groups:", groups, sizeof(groups));
    assert_int_equal(strspn(groups, " \t\n"), strlen(groups));
    assert_int_equal(board->fds, 7); /* 0..2, control, ring, connections, the board */
    make_work();
    assert_true(WAIT_FOR(board->records > 0 && board->events > 0, 5000));
    stop_cleanly(supervisor);
}

static void test_rights_as_owner_of_the_store(void **state)
{
    char directory[] = "/tmp/spanprof-supervisor-XXXXXX", below[64];
    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chown(directory, NOBODY, NOBODY), 0);
    snprintf(below, sizeof(below), "%s/not/yet", directory);
    check_rights(NULL, below, NOBODY);
    rmdir(directory);
}

/* Whoever owns the directory, and whatever the configuration says. */
static void test_never_as_root(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    check_rights("", "/nonexistent/store", NOBODY);
    settings.user = "root";
    assert_int_equal(end_of(supervisor_start(&settings), 3000), 1);
}

static void test_rights_as_named_user(void **state)
{
    (void)state;
    check_rights("nobody", "/", NOBODY);
}

static void test_unknown_user_ends_it(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    settings.user = "no-such-account";
    assert_int_equal(end_of(supervisor_start(&settings), 3000), 1);
    assert_int_equal(board->service_starts, 0);
}

static void test_killed_children_come_back(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    int service = board->service;
    kill(board->symbolizer, SIGKILL);
    assert_true(WAIT_FOR(board->hellos == 2, 3000));
    assert_int_equal(board->service, service); /* the service did not notice but for the socket */
    assert_int_equal(board->service_starts, 1);
    int symbolizer = board->symbolizer;
    kill(service, SIGKILL);
    assert_true(WAIT_FOR(board->service_starts == 2 && board->hellos == 3, 3000));
    assert_true(gone(symbolizer)); /* a new service has a new symbolizer */
    uint64_t records = board->records;
    make_work();
    assert_true(WAIT_FOR(board->records > records, 5000));
    stop_cleanly(supervisor);
}

static void test_hung_children_are_replaced(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    settings.symbolizer_hang_ns = settings.service_hang_ns = 1500 * NS_PER_MS;
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    kill(board->symbolizer, SIGSTOP);
    assert_true(WAIT_FOR(board->hellos == 2, 6000));
    assert_int_equal(board->service_starts, 1);
    kill(board->service, SIGSTOP);
    assert_true(WAIT_FOR(board->service_starts == 2 && board->hellos == 3, 6000));
    stop_cleanly(supervisor);
}

static void test_backoff_grows(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    settings.want_sampler = false;
    board->service_exit = 7;
    pid_t supervisor = supervisor_start(&settings);
    sleep_ms(2200); /* 0, 100, 300, 700, 1500, (3100) */
    unsigned starts = board->service_starts;
    assert_true(starts >= 3 && starts <= 6);
    kill(supervisor, SIGTERM);
    end_of(supervisor, 3000);
}

static void test_fatal_end_is_final(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    board->service_exit = SERVICE_EXIT_FATAL;
    assert_int_equal(end_of(supervisor_start(&settings), 5000), 1);
    assert_int_equal(board->service_starts, 1);
}

static bool has_other_settings(void *context)
{
    (void)context;
    return true;
}

/* SIGHUP ends it when there are other settings, and with those it runs as if it were new; asked to
 * stop meanwhile it stops. */
static void test_other_settings(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    settings.reload = has_other_settings;
    for (int stops = 0; stops < 2; stops++) {
        unsigned starts = board->service_starts;
        pid_t pid = fork();
        if (pid == 0) {
            int first = supervisor_run(&settings);
            exit(first == SUPERVISOR_RELOADED ? 100 + supervisor_run(&settings) : first);
        }
        assert_true(WAIT_FOR(board->service_starts == starts + 1, 5000));
        sleep_ms(300);
        kill(pid, SIGSTOP); /* so that it finds both */
        kill(pid, SIGHUP);
        if (stops)
            kill(pid, SIGTERM);
        kill(pid, SIGCONT);
        if (!stops)
            assert_true(WAIT_FOR(board->service_starts == starts + 2, 5000));
        sleep_ms(300);
        if (!stops)
            kill(pid, SIGTERM);
        assert_int_equal(end_of(pid, 5000), stops ? 0 : 100);
    }
    assert_int_equal(board->reloads, 0);
}

static void test_clean_end_is_final(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    settings.want_sampler = false;
    board->service_exit = 0;
    assert_int_equal(end_of(supervisor_start(&settings), 5000), 0);
    assert_int_equal(board->service_starts, 1);
}

static void test_second_signal_ends_at_once(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    board->ignore_stop = true;
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    kill(supervisor, SIGTERM);
    assert_true(WAIT_FOR(board->stops == 1, 2000));
    assert_false(gone(board->service));
    kill(supervisor, SIGINT);
    assert_int_equal(end_of(supervisor, 1000), 1);
    assert_true(WAIT_FOR(gone(board->service) && gone(board->symbolizer), 1000));
}

static void test_stop_has_an_end(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    board->ignore_stop = true;
    settings.stop_timeout_ns = 500 * NS_PER_MS;
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    kill(supervisor, SIGTERM);
    assert_int_equal(end_of(supervisor, 4000), 1);
    assert_true(WAIT_FOR(gone(board->service), 1000));
}

/* Of a whole group that gets the signal, the children wait for the supervisor's word. */
static void test_children_leave_signals_to_the_supervisor(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    kill(board->service, SIGTERM);
    kill(board->service, SIGINT);
    kill(board->symbolizer, SIGTERM);
    sleep_ms(300);
    assert_int_equal(board->service_starts, 1);
    assert_int_equal(board->stops, 0);
    stop_cleanly(supervisor);
}

static void test_children_die_with_the_supervisor(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    settings.user = "nobody"; /* the change of ids must not lose it */
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    kill(supervisor, SIGKILL);
    waitpid(supervisor, NULL, 0);
    supervisor_pid = 0;
    assert_true(WAIT_FOR(gone(board->service) && gone(board->symbolizer), 2000));
}

static bool set_online(bool online)
{
    FILE *file = fopen("/sys/devices/system/cpu/cpu1/online", "we");
    if (!file)
        return false;
    bool done = fputs(online ? "1" : "0", file) >= 0;
    return fclose(file) == 0 && done;
}

static void test_late_cpu_reaches_the_service(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    settings.user = "nobody"; /* maps the new buffer without any right */
    pid_t supervisor = supervisor_start(&settings);
    await_start();
    bool possible = set_online(false) && set_online(true);
    if (possible)
        assert_true(WAIT_FOR(board->cpus >= 1, 4000));
    stop_cleanly(supervisor);
    if (!possible)
        skip_because("CPUs cannot be taken off line");
}

static void test_without_rights_the_service_runs_alone(void **state)
{
    struct supervisor_settings settings = default_settings();
    (void)state;
    pid_t supervisor = fork();
    if (supervisor == 0) {
        if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(9);
        exit(supervisor_run(&settings));
    }
    assert_true(WAIT_FOR(board->service_starts == 1, 3000));
    sleep_ms(300);
    assert_int_equal(board->sampling, 0);
    assert_int_equal(board->symbolizer_starts, 0);
    assert_int_equal(status_number(board->service, "CapEff:", 16), 0);
    stop_cleanly(supervisor);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    TAKE_ROLE(argc, argv);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* what this test was started with is not counted */
    const struct CMUnitTest tests[] = {
        TEST(test_children_work_and_stop),
        TEST(test_rights_as_owner_of_the_store),
        TEST(test_never_as_root),
        TEST(test_rights_as_named_user),
        TEST(test_unknown_user_ends_it),
        TEST(test_killed_children_come_back),
        TEST(test_hung_children_are_replaced),
        TEST(test_backoff_grows),
        TEST(test_fatal_end_is_final),
        TEST(test_other_settings),
        TEST(test_clean_end_is_final),
        TEST(test_second_signal_ends_at_once),
        TEST(test_stop_has_an_end),
        TEST(test_children_leave_signals_to_the_supervisor),
        TEST(test_children_die_with_the_supervisor),
        TEST(test_late_cpu_reaches_the_service),
        TEST(test_without_rights_the_service_runs_alone),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's process events, from real forks, execs, mappings and ends. */
#include "bpf_test.h"
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/sampler/procstream_cpu.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define EVENTS_MAX 200000
#define PATH_KEPT  128

struct kept {
    struct process_event event;
    char path[PATH_KEPT];
};

struct fixture {
    struct cpus online;
    struct procstream_cpu cpus[CPUS_MAX];
    struct procstream *stream;
    struct kept *events;
    size_t n_events;
    size_t backwards; /* events of a process that came after a later one of the same process */
};

/* The process's latest event before this one; NULL: none. */
static const struct process_event *previous(const struct fixture *fixture, uint32_t pid)
{
    for (size_t i = fixture->n_events; i-- > 0;)
        if (fixture->events[i].event.pid == pid)
            return &fixture->events[i].event;
    return NULL;
}

static void keep(void *context, const struct process_event *event)
{
    struct fixture *fixture = context;
    assert_true(fixture->n_events < EVENTS_MAX);
    struct kept *kept = &fixture->events[fixture->n_events];
    kept->event = *event;
    kept->path[0] = '\0';
    if (event->kind == PROCESS_MAPPED)
        snprintf(kept->path, sizeof(kept->path), "%s", event->mapping.path);
    const struct process_event *before = previous(fixture, event->pid);
    if (before && before->time_ns > event->time_ns)
        fixture->backwards++;
    fixture->n_events++;
}

static void drain(struct fixture *fixture)
{
    size_t before = fixture->n_events;
    size_t n = procstream_drain(fixture->stream, keep, fixture);
    assert_int_equal(n, fixture->n_events - before);
}

static struct fixture *setup(void)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->events = calloc(EVENTS_MAX, sizeof(*fixture->events));
    assert_int_equal(cpus_online(&fixture->online), 0);
    assert_int_equal(procstream_open(&fixture->stream), 0);
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpus_has(&fixture->online, cpu))
            continue;
        struct procstream_cpu *at = &fixture->cpus[cpu];
        assert_int_equal(procstream_cpu_open(cpu, at), 0);
        assert_int_equal(procstream_add(fixture->stream, cpu, at->fd, at->buffer_size), 0);
    }
    return fixture;
}

static void teardown(struct fixture *fixture)
{
    procstream_close(fixture->stream);
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
        if (cpus_has(&fixture->online, cpu))
            procstream_cpu_close(&fixture->cpus[cpu]);
    free(fixture->events);
    free(fixture);
}

/* Index of the first such event at or behind `from`; -1. */
static long find(const struct fixture *fixture, size_t from, enum process_event_kind kind,
                 pid_t pid, const char *path_end)
{
    for (size_t i = from; i < fixture->n_events; i++) {
        const struct kept *kept = &fixture->events[i];
        size_t length = strlen(kept->path), end = path_end ? strlen(path_end) : 0;
        if (kept->event.kind != kind || kept->event.pid != (uint32_t)pid)
            continue;
        if (!path_end || (length >= end && !strcmp(kept->path + length - end, path_end)))
            return (long)i;
    }
    return -1;
}

static bool drained_exit(struct fixture *fixture, pid_t pid)
{
    drain(fixture);
    return find(fixture, 0, PROCESS_EXITED, pid, NULL) >= 0;
}

static void test_short_child_is_seen_whole(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    uint64_t begin = clock_monotonic_ns();
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sleep", "sleep", "0.02", (char *)NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    assert_true(WAIT_FOR(drained_exit(fixture, pid), 2000));
    uint64_t end = clock_monotonic_ns();
    long forked = find(fixture, 0, PROCESS_FORKED, pid, NULL);
    assert_true(forked >= 0);
    assert_int_equal(fixture->events[forked].event.parent_pid, getpid());
    long execed = find(fixture, (size_t)forked, PROCESS_EXECED, pid, NULL);
    assert_true(execed > forked);
    long mapped = find(fixture, (size_t)execed, PROCESS_MAPPED, pid, "/sleep");
    assert_true(mapped > execed);
    const struct process_mapping *mapping = &fixture->events[mapped].event.mapping;
    assert_true(mapping->inode);
    assert_true(mapping->length > 0 && mapping->start > 0);
    long libc = find(fixture, (size_t)execed, PROCESS_MAPPED, pid, "/libc.so.6");
    assert_true(libc > mapped);
    assert_true(fixture->events[libc].event.mapping.inode);
    long exited = find(fixture, (size_t)libc, PROCESS_EXITED, pid, NULL);
    assert_true(exited > libc);
    assert_true(fixture->events[forked].event.time_ns >= begin);
    assert_true(fixture->events[exited].event.time_ns <= end);
    assert_int_equal(fixture->backwards, 0);
    teardown(fixture);
}

static void test_library_loaded_later(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    drain(fixture);
    void *library = dlopen("libyaml-0.so.2", RTLD_NOW); /* one that this program is not linked to */
    if (!library)
        library = dlopen("libresolv.so.2", RTLD_NOW);
    assert_non_null(library);
    drain(fixture);
    bool seen = find(fixture, 0, PROCESS_MAPPED, getpid(), "/libresolv.so.2") >= 0;
    for (size_t i = 0; i < fixture->n_events; i++)
        seen |= fixture->events[i].event.pid == (uint32_t)getpid() &&
                strstr(fixture->events[i].path, "/libyaml-0.so.2") != NULL;
    assert_true(seen);
    dlclose(library);
    teardown(fixture);
}

static void *work_on(void *argument)
{
    sleep_ms(300);
    _exit(argument != NULL);
}

static void *exec_away(void *argument)
{
    sleep_ms(20);
    execl("/bin/sleep", "sleep", "0.2", (char *)NULL);
    _exit(argument == NULL);
}

/* The leader ends early; the process only with its last thread. */
static void test_leader_that_leaves_first(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, work_on, NULL);
        pthread_exit(NULL);
    }
    for (int i = 0; i < 10; i++) {
        sleep_ms(15);
        assert_false(drained_exit(fixture, pid));
    }
    waitpid(pid, NULL, 0);
    assert_true(WAIT_FOR(drained_exit(fixture, pid), 2000));
    teardown(fixture);
}

static void test_thread_that_execs(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, exec_away, NULL);
        for (;;)
            pause();
    }
    sleep_ms(100);
    assert_false(drained_exit(fixture, pid));
    waitpid(pid, NULL, 0);
    assert_true(WAIT_FOR(drained_exit(fixture, pid), 2000));
    long execed = find(fixture, 0, PROCESS_EXECED, pid, NULL);
    assert_true(execed >= 0);
    assert_true(find(fixture, 0, PROCESS_EXITED, pid, NULL) > execed);
    teardown(fixture);
}

/* New threads and their ends are no news. */
static void *nothing(void *argument)
{
    return argument;
}

static void test_threads_are_no_processes(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
        pthread_join(thread, NULL);
    }
    drain(fixture);
    assert_int_equal(find(fixture, 0, PROCESS_EXITED, getpid(), NULL), -1);
    assert_int_equal(find(fixture, 0, PROCESS_FORKED, getpid(), NULL), -1);
    teardown(fixture);
}

static void map_executable(size_t times)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t i = 0; i < times; i++) {
        void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        assert_true(at != MAP_FAILED);
        munmap(at, 4096);
    }
    close(fd);
}

/* On one CPU: what comes next in its buffer carries the news. */
static void test_overflow_is_told(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    cpu_set_t before, here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(here), &here), 0);
    map_executable(10000);
    drain(fixture);
    map_executable(10);
    drain(fixture);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    size_t lost = 0, mapped = 0;
    for (size_t i = 0; i < fixture->n_events; i++) {
        lost += fixture->events[i].event.kind == PROCESS_LOST;
        mapped += fixture->events[i].event.pid == (uint32_t)getpid();
    }
    assert_true(lost >= 1);
    assert_true(mapped > 500);
    assert_int_equal(fixture->backwards, 0);
    teardown(fixture);
}

/* Wraps around each buffer several times, with all CPUs writing. */
static void test_order_across_cpus(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    size_t seen = 0;
    for (int round = 0; round < 60; round++) {
        pid_t pids[8];
        for (int i = 0; i < 8; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                map_executable(100);
                _exit(0);
            }
        }
        drain(fixture);
        for (int i = 0; i < 8; i++)
            waitpid(pids[i], NULL, 0);
        drain(fixture);
        for (int i = 0; i < 8; i++) {
            long forked = find(fixture, 0, PROCESS_FORKED, pids[i], NULL);
            long exited = find(fixture, 0, PROCESS_EXITED, pids[i], NULL);
            assert_true(forked >= 0 && exited > forked);
            seen++;
        }
        assert_int_equal(fixture->backwards, 0);
        fixture->n_events = 0;
    }
    assert_int_equal(seen, 480);
    teardown(fixture);
}

static void test_cpu_that_went_is_read_out(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
        if (cpus_has(&fixture->online, cpu))
            procstream_remove(fixture->stream, cpu);
    drain(fixture);
    assert_true(find(fixture, 0, PROCESS_FORKED, pid, NULL) >= 0);
    map_executable(10);
    size_t before = fixture->n_events;
    drain(fixture);
    assert_int_equal(fixture->n_events, before);
    teardown(fixture);
}

static void count_event(void *context, const struct process_event *event)
{
    *(size_t *)context += event->kind == PROCESS_FORKED;
}

static int drain_as_nobody(const struct fixture *fixture)
{
    struct procstream *stream = NULL;
    size_t forks = 0;
    if (setgid(65534) < 0 || setuid(65534) < 0 || procstream_open(&stream) < 0)
        return 1;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        const struct procstream_cpu *at = &fixture->cpus[cpu];
        if (cpus_has(&fixture->online, cpu) &&
            procstream_add(stream, cpu, at->fd, at->buffer_size) < 0)
            return 2;
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    procstream_drain(stream, count_event, &forks);
    procstream_close(stream);
    return forks >= 2 ? 0 : 3; /* its own one, and that of itself, which was kept for it */
}

static void test_second_mapping_needs_no_right(void **state)
{
    (void)state;
    struct fixture *fixture = setup();
    pid_t pid = fork();
    if (pid == 0)
        _exit(drain_as_nobody(fixture));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    teardown(fixture);
}

static void test_offline_cpu(void **state)
{
    struct procstream_cpu cpu;
    (void)state;
    assert_true(procstream_cpu_open(CPUS_MAX - 1, &cpu) < 0);
    assert_int_equal(cpu.fd, -1);
    procstream_cpu_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_child_is_seen_whole),
        cmocka_unit_test(test_library_loaded_later),
        cmocka_unit_test(test_leader_that_leaves_first),
        cmocka_unit_test(test_thread_that_execs),
        cmocka_unit_test(test_threads_are_no_processes),
        cmocka_unit_test(test_overflow_is_told),
        cmocka_unit_test(test_order_across_cpus),
        cmocka_unit_test(test_cpu_that_went_is_read_out),
        cmocka_unit_test(test_second_mapping_needs_no_right),
        cmocka_unit_test(test_offline_cpu),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

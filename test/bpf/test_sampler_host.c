/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler and what surrounds it: CPUs that come and go, PID namespaces, missing rights. */
#include "sampler_fixture.h"
#include "test/support/fixtures/skip.h"

static bool set_online(int cpu, bool online)
{
    char path[64];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    bool done = fputs(online ? "1" : "0", file) >= 0;
    return fclose(file) == 0 && done;
}

static void count_cpu(void *context, const struct record_header *record)
{
    uint64_t *by_cpu = context;
    if (record->cpu < 2)
        by_cpu[record->cpu]++;
}

static uint64_t samples_of_cpu1(struct fixture *fixture)
{
    uint64_t by_cpu[2] = {0};
    struct burner burner = {.cpu = 1};
    burner_start(&burner);
    ring_drain(fixture->ring, ring_position(fixture->ring), count_cpu, by_cpu, NULL);
    by_cpu[1] = 0;
    sleep_ms(400);
    burner_stop(&burner);
    ring_drain(fixture->ring, ring_position(fixture->ring), count_cpu, by_cpu, NULL);
    return by_cpu[1];
}

static void note_cpu(void *context, uint32_t cpu, const struct procstream_cpu *stream)
{
    (void)stream;
    ((uint32_t *)context)[0] += cpu == 1;
}

static void note_gone(void *context, uint32_t cpu)
{
    ((uint32_t *)context)[1] += cpu == 1;
}

static void test_cpus_come_and_go(void **state)
{
    struct fixture fixture;
    uint32_t news[2] = {0, 0};
    (void)state;
    if (access("/sys/devices/system/cpu/cpu1/online", W_OK) < 0)
        skip_because("CPUs cannot be taken off line");
    setup_size(&fixture, 4 << 20);
    fixture.cpus.came = note_cpu;
    fixture.cpus.went = note_gone;
    fixture.cpus.context = news;
    assert_true(samples_of_cpu1(&fixture) > 20);
    if (!set_online(1, false)) {
        teardown(&fixture);
        skip_because("CPUs cannot be taken off line");
    }
    /* away and back between two looks: only the uevents tell */
    assert_true(set_online(1, true));
    cpu_events_update(&fixture.cpus);
    assert_int_equal(news[0], 1);
    assert_int_equal(news[1], 1);
    assert_true(samples_of_cpu1(&fixture) > 20);
    /* away for long; no uevents: by looking alone */
    close(fixture.cpus.uevent_fd);
    fixture.cpus.uevent_fd = -1;
    assert_true(set_online(1, false));
    cpu_events_update(&fixture.cpus);
    assert_int_equal(news[1], 2);
    assert_true(set_online(1, true));
    cpu_events_update(&fixture.cpus);
    assert_int_equal(news[0], 2);
    assert_true(samples_of_cpu1(&fixture) > 20);
    teardown(&fixture);
}

struct namespace_total {
    uint64_t own, own_without_root, outside;
};

static void judge_namespace(void *context, const struct record_header *record)
{
    struct namespace_total *total = context;
    if (record->pid == 0) {
        total->outside++;
        return;
    }
    total->own++;
    if (record->pid != (uint32_t)getpid() || record->own_pid != record->pid ||
        record->root_pid == record->pid || !record->tid || record->context_source == 0)
        total->own_without_root++;
}

/* In a PID namespace of its own: numbers are that namespace's, and contexts are found by them. */
static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * NS_PER_SEC + (uint64_t)used.tv_nsec;
}

static int run_in_namespace(void)
{
    struct fixture fixture;
    struct namespace_total total = {0};
    setup_size(&fixture, 4 << 20);
    struct published context = some_context(0x70);
    struct context_process reader = own_reader();
    publish_reader(&fixture, (uint32_t)getpid(), &reader);
    current_context = &context;
    ring_drain(fixture.ring, ring_position(fixture.ring), judge_namespace, &total, NULL);
    total = (struct namespace_total){0};
    uint64_t end = cpu_ns() + NS_PER_SEC; /* whoever else has the CPUs */
    while (cpu_ns() < end)
        burn_begin();
    ring_drain(fixture.ring, ring_position(fixture.ring), judge_namespace, &total, NULL);
    teardown(&fixture);
    printf("own %d, of these wrong %d, outside %d\n", (int)total.own, (int)total.own_without_root,
           (int)total.outside);
    return total.own > 50 && total.own_without_root == 0 && total.outside > 0 ? 0 : 1;
}

static void test_pid_namespace(void **state)
{
    (void)state;
    pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID) < 0)
            _exit(BPF_TEST_SKIP);
        pid_t noise = syscall(SYS_getpid) ? fork() : 0; /* takes number 1 and stays */
        if (noise == 0)
            for (;;)
                pause();
        pid_t inner = fork();
        if (inner == 0)
            _exit(run_in_namespace());
        pid_t burner = getpid();
        (void)burner;
        int status;
        while (waitpid(inner, &status, WNOHANG) == 0)
            burn_begin(); /* this one is outside of it */
        kill(noise, SIGKILL);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status;
    assert_int_equal(waitpid(outer, &status, 0), outer);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == BPF_TEST_SKIP)
        skip_because("no PID namespace of its own");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int open_without_rights(char *why, size_t size)
{
    struct sampler *sampler = NULL;
    struct sampler_settings settings = {.frequency_hz = 97, .ring_size_bytes = 1 << 20};
    if (setuid(65534) < 0)
        return 1;
    int r = sampler_open(&settings, &sampler, why, size);
    return r == SAMPLER_UNAVAILABLE && !sampler ? 0 : 1;
}

static void test_missing_rights_are_said(void **state)
{
    (void)state;
    char *why = mmap(NULL, SAMPLER_DIAGNOSIS_MAX, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(open_without_rights(why, SAMPLER_DIAGNOSIS_MAX));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(why, "as root"));
    assert_non_null(strstr(why, "CAP_BPF"));
    munmap(why, SAMPLER_DIAGNOSIS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpus_come_and_go),
        cmocka_unit_test(test_pid_namespace),
        cmocka_unit_test(test_missing_rights_are_said),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

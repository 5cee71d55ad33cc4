/* SPDX-License-Identifier: Apache-2.0 */
/* Which tasks are sampled by the rules, and how often, on the real kernel: threads and children of
 * this program burn, and what comes out of the ring is judged. */
#include "sampler_fixture.h"
#include "agent-bpf/sampler/sampling_rate.h"
#include "test/support/fixtures/skip.h"
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <mntent.h>
#include <sys/stat.h>

#define OBSERVED_MS 150
#define ENOUGH_NS   (50 * NS_PER_SEC / FREQUENCY) /* of CPU time: 50 ticks */

static char own_pid[16];

static void setup_filters(struct fixture *fixture, const struct filter_settings *filters)
{
    setup_with(fixture, &(struct sampler_settings){.frequency_hz = FREQUENCY,
                                                   .ring_size_bytes = 4 << 20,
                                                   .filters = *filters});
}

static uint64_t cpu_ns_of(clockid_t clock)
{
    struct timespec time;
    assert_int_equal(clock_gettime(clock, &time), 0);
    return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

static uint64_t thread_cpu_ns(const struct burner *burner)
{
    clockid_t clock;
    assert_int_equal(pthread_getcpuclockid(burner->thread, &clock), 0);
    return cpu_ns_of(clock);
}

/* One thread of this process burns, of the name "burner", for ENOUGH_NS or more however crowded
 * the CPUs are; its samples, and those of all others. */
static struct span_total observe_burner(struct fixture *fixture)
{
    struct burner burner = {.cpu = -1};
    burner_start(&burner);
    pthread_setname_np(burner.thread, "burner");
    struct span_total total = {.tid = burner.tid};
    sleep_ms(10); /* a tick that still saw the old name is over */
    uint64_t enough_ns = thread_cpu_ns(&burner) + ENOUGH_NS;
    for (int i = 0; i < 50 && (i == 0 || thread_cpu_ns(&burner) < enough_ns); i++)
        observe(fixture, &total, OBSERVED_MS);
    burner_stop(&burner);
    sampler_count(fixture->sampler);
    return total;
}

static int64_t filtered(const char *by)
{
    char labels[32];
    snprintf(labels, sizeof(labels), "by=\"%s\"", by);
    return stats_find("spanprof_samples_filtered_total", labels);
}

/* Rules under which this process is sampled, or not and the counter says so. */
static void check_rules(const struct filter_settings *filters, bool sampled, const char *by)
{
    struct fixture fixture;
    int64_t before = filtered(by);
    setup_filters(&fixture, filters);
    struct span_total total = observe_burner(&fixture);
    if (sampled ? total.samples < 10 : total.samples > 0)
        fail_msg("%s: %d samples", by, (int)total.samples);
    if (!sampled && filtered(by) < before + 10)
        fail_msg("%s: %d filtered", by, (int)(filtered(by) - before));
    teardown(&fixture);
}

static struct filter_rules rule(enum filter_kind kind, const char *const *values)
{
    struct filter_rules rules = {{NULL}};
    rules.values[kind] = values;
    return rules;
}

static void check_kind(enum filter_kind kind, const char *value, const char *by)
{
    const char *const one[] = {value, NULL};
    check_rules(&(struct filter_settings){.exclude = rule(kind, one)}, false, by);
    check_rules(&(struct filter_settings){.include = rule(kind, one)}, true, by);
    check_rules(&(struct filter_settings){rule(kind, one), rule(kind, one)}, false, by);
}

static void test_by_pid(void **state)
{
    (void)state;
    check_kind(FILTER_PIDS, own_pid, "pid");
}

static void test_by_comm(void **state)
{
    (void)state;
    check_kind(FILTER_COMMS, "burner", "comm");
}

static void test_by_executable(void **state)
{
    char path[PATH_MAX] = "";
    (void)state;
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    check_kind(FILTER_EXECUTABLES, strrchr(path, '/') + 1, "executable");
}

static void test_others(void **state)
{
    const char *const others[] = {"another", NULL}, *const pid_1[] = {"1", NULL};
    (void)state;
    check_rules(&(struct filter_settings){.include = rule(FILTER_EXECUTABLES, others)}, false,
                "not_included");
    check_rules(&(struct filter_settings){.include = rule(FILTER_PIDS, pid_1)}, false,
                "not_included");
    check_rules(&(struct filter_settings){.exclude = rule(FILTER_COMMS, others)}, true, "comm");
    /* one of several kinds is enough */
    struct filter_settings both = {.include = rule(FILTER_COMMS, others)};
    const char *const own[] = {own_pid, NULL};
    both.include.values[FILTER_PIDS] = own;
    check_rules(&both, true, "not_included");
}

/* The whole of the program is verified only with rules of all kinds. */
static void test_all_kinds_at_once(void **state)
{
    const char *const pids[] = {"1", "2", NULL}, *const names[] = {"nobody", "none", NULL};
    const char *const paths[] = {"/nobody", NULL}, *const ids[] = {"0123456789ab", NULL};
    const struct filter_rules rules = {.values = {[FILTER_PIDS] = pids,
                                                  [FILTER_COMMS] = names,
                                                  [FILTER_EXECUTABLES] = names,
                                                  [FILTER_CGROUPS] = paths,
                                                  [FILTER_CONTAINERS] = ids}};
    (void)state;
    check_rules(&(struct filter_settings){.exclude = rules}, true, "pid");
    check_rules(&(struct filter_settings){.include = rules}, false, "not_included");
    struct filter_settings ours = {.include = rules};
    const char *const burner[] = {"nobody", "burner", NULL};
    ours.include.values[FILTER_COMMS] = burner;
    check_rules(&ours, true, "not_included");
    ours.exclude.values[FILTER_COMMS] = burner;
    check_rules(&ours, false, "comm");
}

static void test_values_of_wrong_form(void **state)
{
    static const struct {
        enum filter_kind kind;
        const char *value;
    } bad[] = {{FILTER_PIDS, "-1"},
               {FILTER_PIDS, "12x"},
               {FILTER_PIDS, ""},
               {FILTER_PIDS, "99999999999999999999"},
               {FILTER_COMMS, "sixteen bytes..."},
               {FILTER_COMMS, ""}};
    (void)state;
    int map = bpf_map_create(BPF_MAP_TYPE_HASH, "filters", sizeof(struct filter_key),
                             sizeof(struct filter_verdict), 16, NULL);
    assert_true(map >= 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *const values[] = {bad[i].value, NULL};
        struct filter_settings settings = {.exclude = rule(bad[i].kind, values)};
        struct filter *filter;
        assert_int_equal(filter_open(&settings, map, &filter), -EINVAL);
        assert_null(filter);
    }
    close(map);
}

/* ---- cgroups ---- */

#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char cgroup_root[256];

static bool have_cgroups(void)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    struct mntent *entry;
    while (mounts && !cgroup_root[0] && (entry = getmntent(mounts)))
        if (strcmp(entry->mnt_type, "cgroup2") == 0)
            snprintf(cgroup_root, sizeof(cgroup_root), "%s", entry->mnt_dir);
    if (mounts)
        endmntent(mounts);
    return cgroup_root[0] && access(cgroup_root, W_OK) == 0;
}

static void cgroup_path(char *out, size_t size, const char *path, const char *file)
{
    snprintf(out, size, "%s%s%s", cgroup_root, path, file);
}

static void make_cgroup(const char *path)
{
    char full[PATH_MAX];
    cgroup_path(full, sizeof(full), path, "");
    if (mkdir(full, 0755) < 0)
        fail_msg("%s: %s", full, strerror(errno));
}

static void remove_cgroup(const char *path)
{
    char full[PATH_MAX];
    cgroup_path(full, sizeof(full), path, "");
    assert_true(WAIT_FOR(rmdir(full) == 0, 2000)); /* its last process may be on its way out */
}

/* A child that burns in that cgroup. */
static pid_t burn_in(const char *path)
{
    char full[PATH_MAX];
    cgroup_path(full, sizeof(full), path, "/cgroup.procs");
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(full, O_WRONLY);
        bool moved = fd >= 0 && write(fd, "0", 1) == 1;
        (void)!write(ready[1], moved ? "y" : "n", 1);
        if (!moved)
            _exit(1);
        for (;;)
            burn_begin();
    }
    char answer = 0;
    assert_int_equal(read(ready[0], &answer, 1), 1);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(answer, 'y');
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

struct count_of {
    uint32_t pid;
    uint64_t samples;
};

static void count_samples(void *context, const struct record_header *record)
{
    struct count_of *count = context;
    count->samples += record->pid == count->pid;
}

/* In as long as it takes for 50 ticks of CPU time. */
static uint64_t samples_of(struct fixture *fixture, pid_t pid)
{
    clockid_t clock;
    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    uint64_t enough_ns = cpu_ns_of(clock) + ENOUGH_NS;
    struct count_of count = {0}; /* of pid 0: nobody's */
    ring_drain(fixture->ring, ring_position(fixture->ring), count_samples, &count, NULL);
    count = (struct count_of){.pid = (uint32_t)pid};
    assert_true(WAIT_FOR(cpu_ns_of(clock) >= enough_ns, 20000));
    ring_drain(fixture->ring, ring_position(fixture->ring), count_samples, &count, NULL);
    sampler_count(fixture->sampler);
    return count.samples;
}

static void check_cgroups(const struct filter_settings *filters, const char *by)
{
    struct fixture fixture;
    setup_filters(&fixture, filters); /* none of them is there yet */
    make_cgroup("/spanprof-test");
    make_cgroup("/spanprof-test/docker-" CONTAINER ".scope");
    make_cgroup("/spanprof-test/docker-" CONTAINER ".scope/inner");
    pid_t inside = burn_in("/spanprof-test/docker-" CONTAINER ".scope/inner"),
          outside = burn_in("");
    assert_true(samples_of(&fixture, inside) > 10);
    sampler_filter_poll(fixture.sampler);
    int64_t before = filtered(by);
    assert_true(samples_of(&fixture, outside) > 10);
    assert_int_equal(samples_of(&fixture, inside), 0);
    assert_true(filtered(by) > before + 10);
    end(inside);
    remove_cgroup("/spanprof-test/docker-" CONTAINER ".scope/inner");
    remove_cgroup("/spanprof-test/docker-" CONTAINER ".scope");
    sampler_filter_poll(fixture.sampler); /* its rule goes, others stay */
    end(outside);
    remove_cgroup("/spanprof-test");
    teardown(&fixture);
}

static void test_by_cgroup(void **state)
{
    const char *const paths[] = {"/spanprof-test", "/spanprof-none", NULL};
    (void)state;
    if (!have_cgroups())
        skip_because("no cgroup can be made");
    check_cgroups(&(struct filter_settings){.exclude = rule(FILTER_CGROUPS, paths)}, "cgroup");
}

static void test_by_container(void **state)
{
    const char *const ids[] = {"0123456789abcdef", "ffffffffffff", NULL};
    (void)state;
    if (!have_cgroups())
        skip_because("no cgroup can be made");
    check_cgroups(&(struct filter_settings){.exclude = rule(FILTER_CONTAINERS, ids)}, "container");
}

/* ---- how often ---- */

struct periods {
    uint64_t samples, value_ns, mixed; /* value and period differ */
    uint64_t of[3];
};

#define CHANGE_MS 300
static const uint32_t rates[3] = {FREQUENCY, 199, 997};

static void note_period(void *context, const struct record_header *record)
{
    struct periods *periods = context;
    if (record->pid != (uint32_t)getpid())
        return;
    periods->samples++;
    periods->value_ns += record->value_ns;
    periods->mixed += record->value_ns != record->period_ns;
    for (size_t i = 0; i < 3; i++)
        periods->of[i] += record->period_ns == NS_PER_SEC / rates[i];
}

/* What the host of this machine kept from its CPUs: a thread's clock stands still then, the one
 * that ticks go by does not. */
static uint64_t stolen_ns(void)
{
    unsigned long long stolen = 0;
    FILE *file = fopen("/proc/stat", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &stolen), 1);
    fclose(file);
    return stolen * (NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* How far samples may be off the CPU time that was used when each rate had a third of the time: a
 * period of the old rate at each change, and three standard deviations of a binomial count. */
static double period_tolerance(double cpu_s, double wall_s)
{
    double duty = cpu_s < wall_s ? cpu_s / wall_s : 1, periods_s = 0;
    for (size_t i = 0; i < 3; i++)
        periods_s += 1.0 / rates[i];
    return periods_s * 1000 / (3 * CHANGE_MS) +
           3 * sqrt(wall_s / 3 * duty * (1 - duty) * periods_s) / cpu_s;
}

/* The rate changes a few times under load: each sample says one of the rates, all three are seen,
 * and together they stand for the CPU time that was used. */
static void test_periods_stay_true(void **state)
{
    struct fixture fixture;
    struct periods periods = {0}, dropped = {0};
    struct burner burner = {.cpu = -1};
    (void)state;
    setup_size(&fixture, 4 << 20);
    burner_start(&burner);
    ring_drain(fixture.ring, ring_position(fixture.ring), note_period, &dropped, NULL);
    uint64_t cpu_ns = thread_cpu_ns(&burner), start_ns = clock_monotonic_ns();
    uint64_t stolen = stolen_ns();
    for (int i = 0; i < 9; i++) {
        assert_int_equal(sampler_set_frequency(fixture.sampler, rates[i % 3]), 0);
        sleep_ms(CHANGE_MS);
    }
    cpu_ns = thread_cpu_ns(&burner) - cpu_ns;
    uint64_t wall_ns = clock_monotonic_ns() - start_ns;
    ring_drain(fixture.ring, ring_position(fixture.ring), note_period, &periods, NULL);
    burner_stop(&burner);
    assert_int_equal(periods.mixed, 0);
    assert_int_equal(periods.of[0] + periods.of[1] + periods.of[2], periods.samples);
    for (size_t i = 0; i < 3; i++)
        assert_true(periods.of[i] > 0);
    double share = (double)periods.value_ns / (double)cpu_ns;
    double tolerance = period_tolerance((double)cpu_ns / NS_PER_SEC, (double)wall_ns / NS_PER_SEC);
    double kept = (double)(stolen_ns() - stolen) / (double)cpu_ns;
    printf("samples stand for %.3f of the CPU time; %.3f either way is allowed, and %.3f more that "
           "was stolen\n",
           share, tolerance, kept);
    assert_true(share >= 1 - tolerance && share <= 1 + tolerance + kept);
    teardown(&fixture);
}

static void test_pause(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    sampler_pause(fixture.sampler, true);
    assert_int_equal(observe_burner(&fixture).samples, 0);
    assert_int_equal(sampler_set_frequency(fixture.sampler, 97), 0); /* still */
    assert_int_equal(observe_burner(&fixture).samples, 0);
    assert_int_equal(sampler_start_cpu(fixture.sampler, 0), 0);
    assert_int_equal(observe_burner(&fixture).samples, 0);
    assert_int_equal(sampler_set_frequency(fixture.sampler, FREQUENCY), 0);
    sampler_pause(fixture.sampler, false);
    assert_true(observe_burner(&fixture).samples > 10);
    teardown(&fixture);
}

static void test_intervals_are_drawn(void **state)
{
    static const pid_t none[SAMPLING_RATE_PROCESSES];
    struct fixture fixture;
    struct sampling_rate sampling_rate;
    (void)state;
    setup_size(&fixture, 1 << 20);
    const struct sampling_rate_settings settings = {
        .frequency_hz = FREQUENCY, .probability = 0.3, .interval_ns = NS_PER_SEC};
    int64_t on = stats_find("spanprof_sampling_intervals_total", "state=\"on\"");
    int64_t off = stats_find("spanprof_sampling_intervals_total", "state=\"off\"");
    sampling_rate_open(&sampling_rate, &settings, fixture.sampler, 1);
    for (uint64_t i = 1; i < 2000; i++) { /* its time is ours to give */
        sampling_rate_update(&sampling_rate, none, 1 + i * NS_PER_SEC - 1);
        sampling_rate_update(&sampling_rate, none, 1 + i * NS_PER_SEC);
        assert_int_equal(stats_find("spanprof_sampling_active", ""), sampling_rate.active);
    }
    on = stats_find("spanprof_sampling_intervals_total", "state=\"on\"") - on;
    off = stats_find("spanprof_sampling_intervals_total", "state=\"off\"") - off;
    assert_int_equal(on + off, 2000);
    assert_in_range(on, 480, 720); /* 600, and six times its deviation */
    while (sampling_rate.active)
        sampling_rate_update(&sampling_rate, none, sampling_rate.draw_due_ns);
    assert_int_equal(observe_burner(&fixture).samples, 0);
    while (!sampling_rate.active)
        sampling_rate_update(&sampling_rate, none, sampling_rate.draw_due_ns);
    assert_true(observe_burner(&fixture).samples > 10);
    teardown(&fixture);
}

static void test_next_frequency(void **state)
{
    const struct sampling_rate_settings settings = {.frequency_hz = 97, .max_cpu_percent = 1};
    (void)state;
    assert_int_equal(sampling_rate_next_frequency(&settings, 97, 1.0), 97);
    assert_int_equal(sampling_rate_next_frequency(&settings, 97, 1.01),
                     89); /* the next lower prime */
    assert_int_equal(sampling_rate_next_frequency(&settings, 97, 1.5), 61);
    assert_int_equal(sampling_rate_next_frequency(&settings, 97, 50), 47); /* by half at most */
    assert_int_equal(sampling_rate_next_frequency(&settings, 2, 50), 1);
    assert_int_equal(sampling_rate_next_frequency(&settings, 1, 50), 1);
    assert_int_equal(sampling_rate_next_frequency(&settings, 97, 0.01), 97);
    assert_int_equal(sampling_rate_next_frequency(&settings, 47, 0.85), 47); /* would be too much */
    assert_int_equal(sampling_rate_next_frequency(&settings, 47, 0.5), 53);
    uint32_t frequency = 1;
    for (int i = 0; i < 64 && frequency < 97; i++) {
        uint32_t next = sampling_rate_next_frequency(&settings, frequency, 0);
        assert_true(next > frequency);
        frequency = next;
    }
    assert_int_equal(frequency, 97);
}

static void test_budget(void **state)
{
    struct fixture fixture;
    struct sampling_rate sampling_rate;
    struct burner burner = {.cpu = -1}; /* of this process: what is measured */
    static const pid_t none[SAMPLING_RATE_PROCESSES];
    (void)state;
    setup_size(&fixture, 1 << 20);
    const struct sampling_rate_settings settings = {.frequency_hz = FREQUENCY,
                                                    .max_cpu_percent = 1};
    int64_t reductions = stats_find("spanprof_sampling_frequency_reductions_total", "");
    sampling_rate_open(&sampling_rate, &settings, fixture.sampler, clock_monotonic_ns());
    sampling_rate_update(&sampling_rate, none, clock_monotonic_ns());
    burner_start(&burner);
    sleep_ms(SAMPLING_RATE_BUDGET_NS / NS_PER_MS + 10);
    sampling_rate_update(&sampling_rate, none, clock_monotonic_ns());
    burner_stop(&burner);
    assert_in_range(sampling_rate.frequency_hz, FREQUENCY / 2 - 10, FREQUENCY / 2);
    assert_int_equal(stats_find("spanprof_sampling_frequency_hz", ""), sampling_rate.frequency_hz);
    assert_int_equal(sampler_period_ns(fixture.sampler), NS_PER_SEC / sampling_rate.frequency_hz);
    assert_int_equal(stats_find("spanprof_sampling_frequency_reductions_total", ""),
                     reductions + 1);
    uint32_t lowest = sampling_rate.frequency_hz;
    sleep_ms(SAMPLING_RATE_BUDGET_NS / NS_PER_MS + 10);
    sampling_rate_update(&sampling_rate, none, clock_monotonic_ns()); /* idle */
    assert_true(sampling_rate.frequency_hz > lowest);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_pid),
        cmocka_unit_test(test_by_comm),
        cmocka_unit_test(test_by_executable),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_all_kinds_at_once),
        cmocka_unit_test(test_values_of_wrong_form),
        cmocka_unit_test(test_by_cgroup),
        cmocka_unit_test(test_by_container),
        cmocka_unit_test(test_periods_stay_true),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_intervals_are_drawn),
        cmocka_unit_test(test_next_frequency),
        cmocka_unit_test(test_budget),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    snprintf(own_pid, sizeof(own_pid), "%d", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cpu-clock event per CPU, with the tick program attached by ioctl. Missing requirements (the
 * kernel's BTF, capabilities, a new enough kernel) are diagnosed at open, in one sentence.
 */
#include "agent-bpf/sampler/sampler.h"
#include "agent-bpf/sampler/filter.h"
#include "agent-bpf/sampler/obi_map.h"
#include "agent-bpf/record.h"
#include "agent-bpf/sample_losses.h"
#include "agent-bpf/sampler/sampler_diagnosis.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/thread_owner.h"
#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sampler.skel.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROOT_PIDNS_INUM 0xEFFFFFFCu /* PROC_PID_INIT_INO of the kernel's ABI */

LIMIT(ring, LIMIT_KERNEL, "samples that are not read yet", .key = "sampler::ring_size_mib",
      .percent = 100);
LIMIT(unwind, LIMIT_KERNEL, "unwind tables", .key = "sampler::unwind_tables_mib", .percent = 100);
LIMIT(maps, LIMIT_KERNEL, "contexts, runtimes, executables, filters, counters", .of = "sampler",
      .bytes = 9u << 20);
LIMIT(connections, LIMIT_KERNEL, "who opened connections to the receivers", .of = "sampler",
      .bytes = CONNECTIONS_MAX * UINT64_C(96));

STAT_COUNTER(samples_taken, "spanprof_samples_total", "Samples put into the ring.");

enum sample_context { CONTEXT_FOUND, CONTEXT_LABELS, CONTEXT_TORN, CONTEXT_STALE, SAMPLE_CONTEXTS };

static const char *const context_names[] = {[CONTEXT_FOUND] = "found",
                                            [CONTEXT_LABELS] = "labels",
                                            [CONTEXT_TORN] = "torn",
                                            [CONTEXT_STALE] = "stale"};
STAT_COUNTERS(
    contexts, "spanprof_sample_contexts_total",
    "Samples of processes whose contexts are read, by outcome of reading. Samples without "
    "a context are not counted.",
    STAT_LABEL("outcome", context_names, SAMPLE_CONTEXTS),
    .losses = STAT_BIT(CONTEXT_TORN) | STAT_BIT(CONTEXT_STALE));
STAT_LOSS(labels_cut, "spanprof_sample_labels_cut_total",
          "Samples of which some labels are missing: they did not fit or could not be read.");
STAT_LOSS(samples_foreign, "spanprof_samples_foreign_total",
          "Samples of processes outside spanprof's own PID namespace.");
STAT_COUNTER(contexts_deleted, "spanprof_context_readers_removed_total",
             "Context readers removed by the kernel because their process ended or changed image.");

enum rule {
    RULE_NOT_INCLUDED,
    RULE_PID,
    RULE_COMM,
    RULE_EXECUTABLE,
    RULE_CGROUP,
    RULE_CONTAINER,
    RULES
};

static const char *const rule_names[] = {
    [RULE_NOT_INCLUDED] = "not_included", [RULE_PID] = "pid",       [RULE_COMM] = "comm",
    [RULE_EXECUTABLE] = "executable",     [RULE_CGROUP] = "cgroup", [RULE_CONTAINER] = "container",
};
STAT_COUNTERS(filtered, "spanprof_samples_filtered_total",
              "Samples not taken because a filter excludes them, by the rule that decided.",
              STAT_LABEL("by", rule_names, RULES));
STAT_COUNTER(tick_time, "spanprof_tick_nanoseconds_total",
             "CPU time that sampling took in the kernel. Counted only while "
             "sampler.max_cpu_percent is set.");

STAT_COUNTER(stacks_copied, "spanprof_stacks_copied_total",
             "Samples with a copy of their stack, because the unwind tables of their code were not "
             "loaded yet.");
STAT_LOSS(stacks_not_copied, "spanprof_stacks_not_copied_total",
          "Samples whose stack could not be copied, because there was no room or it was not "
          "readable.");

/* The kernel's counters in their series; that of losses is sample_count_lost()'s. */
static const struct stat_ref counter_stats[SAMPLER_COUNTERS] = {
    [SAMPLER_SAMPLES] = {&samples_taken, 0},
    [SAMPLER_CONTEXTS] = {&contexts, CONTEXT_FOUND},
    [SAMPLER_LABELS] = {&contexts, CONTEXT_LABELS},
    [SAMPLER_LABELS_CUT] = {&labels_cut, 0},
    [SAMPLER_CONTEXTS_TORN] = {&contexts, CONTEXT_TORN},
    [SAMPLER_CONTEXTS_STALE] = {&contexts, CONTEXT_STALE},
    [SAMPLER_FOREIGN_PIDS] = {&samples_foreign, 0},
    [SAMPLER_CONTEXTS_DELETED] = {&contexts_deleted, 0},
    [SAMPLER_FILTERED_NOT_INCLUDED] = {&filtered, RULE_NOT_INCLUDED},
    [SAMPLER_FILTERED_PID] = {&filtered, RULE_PID},
    [SAMPLER_FILTERED_COMM] = {&filtered, RULE_COMM},
    [SAMPLER_FILTERED_EXECUTABLE] = {&filtered, RULE_EXECUTABLE},
    [SAMPLER_FILTERED_CGROUP] = {&filtered, RULE_CGROUP},
    [SAMPLER_FILTERED_CONTAINER] = {&filtered, RULE_CONTAINER},
    [SAMPLER_TICK_NS] = {&tick_time, 0},
    [SAMPLER_STACKS_COPIED] = {&stacks_copied, 0},
    [SAMPLER_STACKS_NOT_COPIED] = {&stacks_not_copied, 0},
};

struct sampler {
    struct sampler_bpf *skeleton;
    struct obi_map obi;
    struct filter *filter; /* NULL: no rules */
    uint64_t period_ns;
    bool paused;
    uint32_t n_cpus;          /* possible ones */
    int *cpu_fds;             /* -1 = not started */
    uint64_t *counted_values; /* room for one look-up of a per-CPU value */
    uint64_t counted[SAMPLER_COUNTERS];
    struct thread_owner owner; /* the supervisor */
};

/* 0 in the root namespace. */
static uint32_t own_pid_namespace(void)
{
    char text[64] = "";
    unsigned inum = 0;
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);
    if (n < 0 || sscanf(text, "pid:[%u]", &inum) != 1)
        return 0;
    return inum == ROOT_PIDNS_INUM ? 0 : inum;
}

static uint32_t ring_size(uint64_t wanted)
{
    uint64_t size = SAMPLER_RING_MIN;
    while (size < wanted && size < SAMPLER_RING_MAX)
        size <<= 1;
    return (uint32_t)size;
}

/* Memory is taken as blocks are loaded. */
static uint32_t unwind_blocks(uint64_t bytes)
{
    uint64_t blocks = bytes / SAMPLER_UNWIND_BLOCK;
    return blocks < 256 ? 256 : blocks > 1u << 20 ? 1u << 20 : (uint32_t)blocks;
}

static int set_before_load(struct sampler_bpf *skeleton, const struct sampler_settings *settings)
{
    skeleton->rodata->pidns_inum = own_pid_namespace();
    skeleton->rodata->ticks_timed = settings->ticks_timed;
    skeleton->rodata->filter_kinds = filter_kinds(&settings->filters);
    skeleton->rodata->filter_includes = filter_includes(&settings->filters);
    skeleton->rodata->page_shift = (uint32_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    skeleton->rodata->stacks_always = settings->stacks_always;
    int n_cpus = libbpf_num_possible_cpus();
    uint32_t n_blocks = unwind_blocks(settings->unwind_bytes);
    int r =
        bpf_map__set_max_entries(skeleton->maps.filters, filter_entries_max(&settings->filters));
    r = r ? r : bpf_map__set_max_entries(skeleton->maps.builds, (uint32_t)n_cpus);
    r = r ? r : bpf_map__set_max_entries(skeleton->maps.blocks, n_blocks);
    r = r ? r : bpf_map__set_max_entries(skeleton->maps.pages, n_blocks);
    r = r ? r : bpf_map__set_max_entries(skeleton->maps.ring, ring_size(settings->ring_size_bytes));
    return r;
}

/* Ports of the settings before stay: what connections to them note is not asked for. */
static void serve_ports(const struct sampler *sampler, const struct sampler_settings *settings)
{
    const uint8_t served = 1;
    int fd = bpf_map__fd(sampler->skeleton->maps.connection_ports);
    for (size_t i = 0; i < CONNECTION_PORTS_MAX; i++)
        if (settings->ports[i] && bpf_map_update_elem(fd, &settings->ports[i], &served, BPF_ANY))
            log_warn("sampler", "who connects to port %u is not noted: %s", settings->ports[i],
                     strerror(errno));
}

static int sampler_load(struct sampler *sampler, const struct sampler_settings *settings)
{
    struct sampler_bpf *skeleton = sampler_bpf__open();
    if (!skeleton)
        return -errno;
    sampler->skeleton = skeleton;
    int r = set_before_load(skeleton, settings);
    if (r < 0)
        return r;
    bpf_program__set_autoattach(skeleton->progs.on_tick, false);
    r = sampler_bpf__load(skeleton);
    if (r == 0 && filter_kinds(&settings->filters))
        r = filter_open(&settings->filters, bpf_map__fd(skeleton->maps.filters), &sampler->filter);
    if (r < 0)
        return r;
    serve_ports(sampler, settings);
    sampler->obi = (struct obi_map){.path = settings->obi_map,
                                    .slot_fd = bpf_map__fd(skeleton->maps.obi_slot)};
    return sampler_bpf__attach(skeleton);
}

static int open_clock(const struct sampler *sampler, uint32_t cpu)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = sampler->period_ns,
        .disabled = 1,
        .exclude_idle = 1,
    };
    long fd = syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static int sampler_alloc(const struct sampler_settings *settings, struct sampler **out)
{
    int n_cpus = libbpf_num_possible_cpus();
    if (n_cpus <= 0)
        return n_cpus < 0 ? n_cpus : -EINVAL;
    struct sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return -ENOMEM;
    *out = sampler;
    sampler->period_ns = NS_PER_SEC / settings->frequency_hz;
    sampler->cpu_fds = malloc((size_t)n_cpus * sizeof(int));
    sampler->counted_values = calloc((size_t)n_cpus, sizeof(uint64_t));
    if (!sampler->cpu_fds || !sampler->counted_values)
        return -ENOMEM;
    sampler->n_cpus = (uint32_t)n_cpus;
    for (int i = 0; i < n_cpus; i++)
        sampler->cpu_fds[i] = -1;
    return 0;
}

static int sampler_try(const struct sampler_settings *settings, struct sampler **out, char *why,
                       size_t why_size)
{
    int r = sampler_alloc(settings, out);
    if (r < 0)
        return r;
    sampler_diagnosis_listen();
    r = sampler_load(*out, settings);
    if (r < 0)
        return sampler_diagnosis_load(r, why, why_size);
    int cpu = sched_getcpu();
    int fd = open_clock(*out, cpu < 0 ? 0 : (uint32_t)cpu);
    if (fd < 0 && fd != -ENODEV)
        return sampler_diagnosis_perf(fd, why, why_size);
    if (fd >= 0)
        close(fd);
    return 0;
}

int sampler_open(const struct sampler_settings *settings, struct sampler **sampler, char *why,
                 size_t why_size)
{
    assert(settings->frequency_hz >= 1 && settings->frequency_hz <= 1000);
    *sampler = NULL;
    snprintf(why, why_size, "%s", "");
    int r = sampler_diagnosis_kernel(why, why_size);
    if (r == 0)
        r = sampler_try(settings, sampler, why, why_size);
    if (r == 0)
        return 0;
    sampler_close(*sampler);
    *sampler = NULL;
    return r;
}

void sampler_follow(struct sampler *sampler, const struct sampler_settings *settings)
{
    CLAIM_THREAD(&sampler->owner);
    sampler->obi.path = settings->obi_map;
    serve_ports(sampler, settings);
    if (sampler->filter)
        filter_follow(sampler->filter, &settings->filters);
}

void sampler_close(struct sampler *sampler)
{
    if (!sampler)
        return;
    for (uint32_t cpu = 0; cpu < sampler->n_cpus; cpu++)
        sampler_stop_cpu(sampler, cpu);
    filter_close(sampler->filter);
    sampler_bpf__destroy(sampler->skeleton);
    free(sampler->cpu_fds);
    free(sampler->counted_values);
    free(sampler);
}

/* Ticks from now on, unless paused. */
static int start_clock(const struct sampler *sampler, uint32_t cpu)
{
    int fd = open_clock(sampler, cpu);
    if (fd < 0)
        return fd;
    int program = bpf_program__fd(sampler->skeleton->progs.on_tick);
    if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) < 0 ||
        (!sampler->paused && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

int sampler_start_cpu(struct sampler *sampler, uint32_t cpu)
{
    CLAIM_THREAD(&sampler->owner);
    if (cpu >= sampler->n_cpus)
        return -ENODEV;
    sampler_stop_cpu(sampler, cpu);
    int fd = start_clock(sampler, cpu);
    if (fd < 0)
        return fd;
    sampler->cpu_fds[cpu] = fd;
    return 0;
}

/* Replaces each clock by a new one: a tick reads the period of its own clock, so every sample has
 * the right one, also close to the change. */
int sampler_set_frequency(struct sampler *sampler, uint32_t frequency_hz)
{
    CLAIM_THREAD(&sampler->owner);
    assert(frequency_hz >= 1 && frequency_hz <= 1000);
    int error = 0;
    sampler->period_ns = NS_PER_SEC / frequency_hz;
    for (uint32_t cpu = 0; cpu < sampler->n_cpus; cpu++) {
        if (sampler->cpu_fds[cpu] < 0)
            continue;
        int fd = start_clock(sampler, cpu);
        if (fd < 0) {
            error = error ? error : fd;
            continue;
        }
        close(sampler->cpu_fds[cpu]);
        sampler->cpu_fds[cpu] = fd;
    }
    return error;
}

void sampler_pause(struct sampler *sampler, bool paused)
{
    CLAIM_THREAD(&sampler->owner);
    sampler->paused = paused;
    for (uint32_t cpu = 0; cpu < sampler->n_cpus; cpu++)
        if (sampler->cpu_fds[cpu] >= 0)
            (void)ioctl(sampler->cpu_fds[cpu],
                        paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE, 0);
}

void sampler_stop_cpu(struct sampler *sampler, uint32_t cpu)
{
    CLAIM_THREAD(&sampler->owner);
    if (cpu >= sampler->n_cpus || sampler->cpu_fds[cpu] < 0)
        return;
    close(sampler->cpu_fds[cpu]);
    sampler->cpu_fds[cpu] = -1;
}

void sampler_count(struct sampler *sampler)
{
    CLAIM_THREAD(&sampler->owner);
    int fd = bpf_map__fd(sampler->skeleton->maps.counters);
    for (uint32_t what = 0; what < SAMPLER_COUNTERS; what++) {
        uint64_t sum = 0;
        if (bpf_map_lookup_elem(fd, &what, sampler->counted_values) < 0)
            continue;
        for (uint32_t cpu = 0; cpu < sampler->n_cpus; cpu++)
            sum += sampler->counted_values[cpu];
        int64_t more = (int64_t)(sum - sampler->counted[what]);
        if (what == SAMPLER_LOST_RING_FULL)
            sample_count_lost(SAMPLE_LOST_RING_FULL, more);
        else
            stat_add_ref(counter_stats[what], more);
        sampler->counted[what] = sum;
    }
}

uint64_t sampler_tick_time_ns(const struct sampler *sampler)
{
    OWNER_THREAD(&sampler->owner);
    return sampler->counted[SAMPLER_TICK_NS];
}

void sampler_obi_poll(struct sampler *sampler)
{
    CLAIM_THREAD(&sampler->owner);
    obi_map_poll(&sampler->obi);
}

void sampler_filter_poll(struct sampler *sampler)
{
    CLAIM_THREAD(&sampler->owner);
    if (sampler->filter)
        filter_poll(sampler->filter);
}

int sampler_ring_fd(const struct sampler *sampler)
{
    return bpf_map__fd(sampler->skeleton->maps.ring);
}

size_t sampler_ring_size(const struct sampler *sampler)
{
    return bpf_map__max_entries(sampler->skeleton->maps.ring);
}

int sampler_runtimes_fd(const struct sampler *sampler)
{
    return bpf_map__fd(sampler->skeleton->maps.runtimes);
}

int sampler_contexts_fd(const struct sampler *sampler)
{
    return bpf_map__fd(sampler->skeleton->maps.contexts);
}

int sampler_connections_fd(const struct sampler *sampler)
{
    return bpf_map__fd(sampler->skeleton->maps.connections);
}

struct unwind_maps sampler_unwind_maps(const struct sampler *sampler)
{
    return (struct unwind_maps){
        .executables = bpf_map__fd(sampler->skeleton->maps.executables),
        .pages = bpf_map__fd(sampler->skeleton->maps.pages),
        .blocks = bpf_map__fd(sampler->skeleton->maps.blocks),
        .n_blocks = bpf_map__max_entries(sampler->skeleton->maps.blocks),
    };
}

uint64_t sampler_period_ns(const struct sampler *sampler)
{
    OWNER_THREAD(&sampler->owner);
    return sampler->period_ns;
}

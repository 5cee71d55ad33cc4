/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What frames of Java, JavaScript, PHP, Python and Ruby cost a tick: stock programs that work at
 * several depths of recursion, their ticks timed with the runtime's frames and without. And the CPU
 * time that the symbolizer and its reader take for the first process of a build, and for the next.
 * As root. Arguments: names of runtimes (all). One that is not installed is passed over.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/runtimes/runtime_process.h"
#include "base/clock.h"
#include "test/support/rigs/unwind_rig.h"
#include <bpf/bpf.h>
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FREQUENCY   997
#define ROUND_MS    400
#define ROUNDS      7 /* of each kind, in turns; the least disturbed one counts */
#define WARM_MS     3000
#define SETTLED_MS  500
#define TIMEOUT_MS  60000
#define ATTACHES    4 /* processes; the first one is that of a new build */
#define COMMAND_MAX 8
#define PROGRAMS    SPANPROF_SOURCE_DIR "/test/bench/managed/"

struct runtime_bench {
    const char *name;
    const char *command[COMMAND_MAX]; /* the depth follows */
};

static const struct runtime_bench benches[] = {
    {"java", {"/usr/bin/java", PROGRAMS "Depth.java"}},
    {"node", {"/usr/bin/node", PROGRAMS "depth.js"}},
    {"php", {"/usr/bin/php", PROGRAMS "depth.php"}},
    {"python", {"/usr/bin/python3", PROGRAMS "depth.py"}},
    {"ruby", {"/usr/bin/ruby", PROGRAMS "depth.rb"}},
};

static const unsigned depths[] = {1, 10, 30, 100};

static struct bench {
    struct sampler *sampler;
    struct ring *ring;
    struct unwind_rig rig;
    pid_t program;
    int out;
    uint64_t samples, managed, native;
} bench;

/* ---- the program ---- */

/* Returns when it says that it works. */
static void program_start(const struct runtime_bench *of, unsigned depth)
{
    const char *command[COMMAND_MAX + 2];
    char number[16], byte = 0;
    int out[2];
    size_t n = 0;
    snprintf(number, sizeof(number), "%u", depth);
    for (; of->command[n]; n++)
        command[n] = of->command[n];
    command[n++] = number;
    command[n] = NULL;
    assert(!pipe2(out, O_CLOEXEC));
    bench.program = fork();
    if (!bench.program) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 1);
        execv(command[0], (char *const *)command);
        _exit(127);
    }
    close(out[1]);
    while (byte != '\n')
        if (read(out[0], &byte, 1) != 1)
            exit(1);
    bench.out = out[0];
}

static void program_stop(void)
{
    kill(bench.program, SIGKILL);
    waitpid(bench.program, NULL, 0);
    close(bench.out);
    bench.program = 0;
}

/* ---- the sampler ---- */

/* Of the program alone, whose pid may be 0: none yet. */
static void open_all(void)
{
    char why[SAMPLER_DIAGNOSIS_MAX], own[16];
    const char *pids[] = {own, NULL};
    snprintf(own, sizeof(own), "%d", (int)bench.program);
    struct sampler_settings settings = {.frequency_hz = FREQUENCY,
                                        .ring_size_bytes = 64 << 20,
                                        .unwind_bytes = (uint64_t)64 << 20,
                                        .ticks_timed = true};
    if (bench.program)
        settings.filters.include.values[FILTER_PIDS] = pids;
    if (sampler_open(&settings, &bench.sampler, why, sizeof(why))) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    unwind_rig_open(&bench.rig, bench.sampler);
    rig_wait(&bench.rig.symbolizer, SYMBOLIZER_SCAN_DONE, 1, TIMEOUT_MS);
    assert(!sampler_start_cpu(bench.sampler, 0));
    assert(
        !ring_open(sampler_ring_fd(bench.sampler), sampler_ring_size(bench.sampler), &bench.ring));
}

static void close_all(void)
{
    ring_close(bench.ring);
    unwind_rig_close(&bench.rig);
    sampler_close(bench.sampler);
}

/* ---- attaching ---- */

static uint64_t cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec time = {0};
    if (!clock_getcpuclockid(pid, &clock))
        clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

/* Of the symbolizer and its reader. */
static uint64_t symbolizer_cpu_ns(void)
{
    pid_t symbolizer = bench.rig.symbolizer.symbolizer;
    uint64_t ns = cpu_ns(symbolizer);
    char path[64];
    int child;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", symbolizer, symbolizer);
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &child) == 1)
        ns += cpu_ns(child);
    if (children)
        fclose(children);
    return ns;
}

static bool is_attached(struct rig *rig)
{
    struct runtime_process entry;
    uint32_t pid = (uint32_t)bench.program;
    return !bpf_map_lookup_elem(rig->runtimes_map_fd, &pid, &entry);
}

/* CPU time that it took. */
static double attach_ms(void)
{
    const struct process_event exec = {
        .kind = PROCESS_EXECED, .pid = (uint32_t)bench.program, .time_ns = clock_monotonic_ns()};
    struct rig *rig = &bench.rig.symbolizer;
    uint64_t before = symbolizer_cpu_ns();
    process_table_apply(rig->table, &exec);
    process_table_sampled(rig->table, (uint32_t)bench.program, 1, clock_monotonic_ns());
    if (!rig_until(rig, is_attached, TIMEOUT_MS)) {
        fprintf(stderr, "the symbolizer did not attach to it\n");
        exit(1);
    }
    return (double)(symbolizer_cpu_ns() - before) / 1e6;
}

static void measure_attach(const struct runtime_bench *of)
{
    double next = 1e9;
    open_all();
    for (int i = 0; i < ATTACHES; i++) {
        program_start(of, 1);
        double ms = attach_ms();
        if (!i)
            printf("%s_attach_first %.1f ms\n", of->name, ms);
        else if (ms < next)
            next = ms;
        program_stop();
    }
    printf("%s_attach_next %.1f ms\n", of->name, next);
    close_all();
}

/* ---- ticks ---- */

static bool is_managed(uint64_t word)
{
    enum record_frame_kind kind = record_frame_kind(word);
    return kind == FRAME_PYTHON || kind == FRAME_RUBY || kind == FRAME_PHP ||
           kind == FRAME_JVM_COMPILED || kind == FRAME_JVM_INTERPRETED || kind == FRAME_V8;
}

static void count_sample(void *context, const struct record_header *record)
{
    const uint8_t *attributes = (const uint8_t *)(record + 1);
    const uint64_t *at =
        (const uint64_t *)(const void *)(attributes + ((record->attributes_size + 7u) & ~7u));
    const uint64_t *end = at + record->kernel_words + record->user_words + record->list_words;
    struct record_frame frame;
    (void)context;
    if (record->pid != (uint32_t)bench.program)
        return;
    bench.samples++;
    for (at += record->kernel_words; record_frame_next(&at, end, &frame);)
        if (is_managed(frame.words[0]))
            bench.managed++;
        else
            bench.native++;
}

static void drain(void)
{
    ring_drain(bench.ring, ring_position(bench.ring), count_sample, NULL, NULL);
}

/* A tick's time; the frames of its samples are counted. */
static double round_ns(void)
{
    const struct timespec pause = {0, ROUND_MS * NS_PER_MS};
    drain();
    sampler_count(bench.sampler);
    uint64_t before = sampler_tick_time_ns(bench.sampler);
    nanosleep(&pause, NULL);
    sampler_count(bench.sampler);
    uint64_t taken = sampler_tick_time_ns(bench.sampler) - before;
    bench.samples = bench.managed = bench.native = 0;
    drain();
    return bench.samples ? (double)taken / (double)bench.samples : 1e9;
}

/* All of the program's: Java runs main in another than the first. */
static void threads_to(const cpu_set_t *cpus)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", bench.program);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            sched_setaffinity(atoi(entry->d_name), sizeof(*cpus), cpus);
    if (folder)
        closedir(folder);
}

static void settle(void)
{
    const struct timespec pause = {WARM_MS / 1000, WARM_MS % 1000 * NS_PER_MS};
    nanosleep(&pause, NULL); /* its compilers have done what they do */
    unwind_rig_settle(&bench.rig, bench.ring, (uint32_t)bench.program, SETTLED_MS, TIMEOUT_MS);
}

struct figures {
    double ns, managed;
};

/* first: of the least depth. What is printed of a frame is what it costs more, by those that are
 * more. */
static struct figures measure_ticks(const struct runtime_bench *of, unsigned depth,
                                    const struct figures *first)
{
    double least[2] = {1e9, 1e9}, managed = 0, native = 0;
    uint32_t pid;
    struct runtime_process entry;
    cpu_set_t set;
    program_start(of, depth);
    pid = (uint32_t)bench.program;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    open_all();
    attach_ms();
    threads_to(&set);
    settle();
    int map = sampler_runtimes_fd(bench.sampler);
    assert(!bpf_map_lookup_elem(map, &pid, &entry));
    for (int i = 0; i < 2 * ROUNDS; i++) {
        bool with = i % 2;
        if (with)
            bpf_map_update_elem(map, &pid, &entry, BPF_ANY);
        else
            bpf_map_delete_elem(map, &pid);
        double ns = round_ns();
        if (ns < least[with])
            least[with] = ns;
        if (with && bench.samples) {
            managed = (double)bench.managed / (double)bench.samples;
            native = (double)bench.native / (double)bench.samples;
        }
    }
    printf("%s_tick_without_%u %.0f ns\n", of->name, depth, least[0]);
    printf("%s_tick_%u %.0f ns\n", of->name, depth, least[1]);
    printf("%s_frames_%u %.1f managed\n", of->name, depth, managed);
    printf("%s_native_frames_%u %.1f native\n", of->name, depth, native);
    if (first && managed > first->managed)
        printf("%s_frame_%u %.0f ns\n", of->name, depth,
               (least[1] - first->ns) / (managed - first->managed));
    close_all();
    program_stop();
    return (struct figures){least[1], managed};
}

/* ---- all ---- */

static bool is_wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    if (geteuid()) {
        puts("skipped: root is needed");
        return 77;
    }
    setlinebuf(stdout); /* children have nothing of it */
    for (size_t i = 0; i < sizeof(benches) / sizeof(*benches); i++) {
        if (!is_wanted(argc, argv, benches[i].name) || access(benches[i].command[0], X_OK))
            continue;
        measure_attach(&benches[i]);
        const struct figures first = measure_ticks(&benches[i], depths[0], NULL);
        for (size_t k = 1; k < sizeof(depths) / sizeof(*depths); k++)
            measure_ticks(&benches[i], depths[k], &first);
    }
    return 0;
}

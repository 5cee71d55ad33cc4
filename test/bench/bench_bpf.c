/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a tick by the kernel's own count of the program's run time, on busy CPUs, without a
 * context and with each kind of it to read, and of one that a filter leaves out; and the memory of
 * the BPF maps. As root.
 */
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/record.h"
#include "base/clock.h"
#include "test/support/rigs/unwind_rig.h"
#include <bpf/bpf.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS       9 /* of all figures in turn; the least disturbed one counts */
#define ROUND_MS     300
#define FRAMES_BELOW 4  /* leaf, burn, start_thread, clone3 */
#define SETTLED_MS   60 /* without an incomplete stack: tables are loaded */
#define BURNERS_MAX  64

static __thread void *volatile context_variable __attribute__((tls_model("local-exec")));

/* ---- what programs publish; four labels each, of 119 bytes in all ---- */

static struct {
    uint8_t ids[24], valid, flags;
    uint16_t attributes_size;
    uint8_t attributes[40];
} __attribute__((packed)) otel = {.ids = {1, [16] = 1}, .valid = 1, .attributes_size = 40};

static struct {
    uint16_t minor_version;
    uint8_t valid, present, flags, ids[32];
} __attribute__((packed))
elastic = {.minor_version = 1, .valid = 1, .present = 1, .ids = {1, [16] = 1}};

struct text {
    const char *data;
    uint64_t size;
};

#define TEXT(string)                                                                               \
    {                                                                                              \
        string, sizeof(string) - 1                                                                 \
    }
#define KEYS TEXT("endpoint"), TEXT("span_id"), TEXT("tenant"), TEXT("trace_id")
#define VALUES                                                                                     \
    TEXT("/cart/checkout"), TEXT("0123456789abcdef"), TEXT("acme"),                                \
        TEXT("00112233445566778899aabbccddeeff")

static const struct text keys[4] = {KEYS}, values[4] = {VALUES};
static struct text go_pairs[4][2];
static struct {
    const void *data;
    uint64_t size, capacity;
} go_slice = {go_pairs, 4, 4};
static struct {
    uint8_t tophash[8];
    struct text keys[8], values[8];
    void *overflow;
} go_bucket = {.tophash = {5, 6, 7, 8}, .keys = {KEYS}, .values = {VALUES}};
static struct {
    uint64_t count;
    uint64_t one_bucket;
    const void *buckets;
} go_map = {.count = 4, .buckets = &go_bucket};
static void *go_map_variable = &go_map;
static void *go_thread[3]; /* g and m in one: its m, its curg, its labels */
static struct {
    uint64_t key_size;
    const char *key;
    uint64_t value_size;
    const char *value;
} custom_labels[4];
static struct {
    const void *storage;
    uint64_t count, capacity;
} custom_set = {custom_labels, 4, 4};

/* Of Node.js: two entries in one bucket, as with an AsyncLocalStorage of the program's own. */
static struct {
    uint64_t frame, key_word, key, undefined, value[5];
    uint64_t map[4], table[5 + 2 + 3 * 4];
} nodejs;
static struct nodejs_thread {
    const void *frame, *key_handle;
    uint32_t hash;
    uint8_t record_slot;
    uint64_t undefined;
} nodejs_thread = {.frame = &nodejs.frame, .key_handle = &nodejs.key_word, .record_slot = 32};

static __thread volatile struct nodejs_thread nodejs_variable
    __attribute__((tls_model("local-exec")));

static uint64_t tagged(const void *object)
{
    return (uint64_t)(uintptr_t)object + 1;
}

static void lay_out_nodejs(void)
{
    const uint64_t counts[] = {0, 17ULL << 32, 2ULL << 32, 0, 2ULL << 32, 1ULL << 32, ~0ULL << 32};
    const uint64_t entries[] = {tagged(&nodejs.key), tagged(nodejs.value), ~0ULL << 32, 1, 1, 0};
    nodejs.frame = tagged(nodejs.map);
    nodejs.key_word = tagged(&nodejs.key);
    nodejs.map[3] = tagged(nodejs.table);
    nodejs.value[4] = (uint64_t)(uintptr_t)&otel;
    nodejs_thread.undefined = tagged(&nodejs.undefined);
    memcpy(nodejs.table, counts, sizeof(counts));
    memcpy(nodejs.table + 7, entries, sizeof(entries));
}

static void lay_out(void)
{
    lay_out_nodejs();
    for (int i = 0; i < 4; i++) {
        go_pairs[i][0] = keys[i];
        go_pairs[i][1] = values[i];
        custom_labels[i].key = keys[i].data;
        custom_labels[i].key_size = keys[i].size;
        custom_labels[i].value = values[i].data;
        custom_labels[i].value_size = values[i].size;
    }
    go_thread[0] = go_thread[1] = go_thread;
}

static _Atomic int stop;

static _Atomic int depth_wanted = 20;

__attribute__((noinline)) static int descend(int depth)
{
    static _Thread_local volatile int sum;
    if (depth > 0) {
        volatile int below = descend(depth - 1); /* no loop instead */
        return below + 1;
    }
    while (!stop)
        sum++;
    return sum;
}

static int obi_map = -1;

static void *burn(void *argument)
{
    static const uint8_t ids[24] = {1, [16] = 1};
    uint64_t thread = (uint64_t)getpid() << 32 | (uint32_t)gettid();
    if (argument == &obi_map)
        bpf_map_update_elem(obi_map, &thread, ids, BPF_ANY);
    else if (argument == &nodejs_thread)
        nodejs_variable = nodejs_thread;
    else
        context_variable = argument;
    return (void *)(intptr_t)descend(depth_wanted);
}

static void set_reader(const struct sampler *sampler, uint8_t source, uint8_t go_form)
{
    char *tp;
    __asm__("mov %%fs:0, %0" : "=r"(tp));
    uint32_t pid = (uint32_t)getpid();
    struct context_process reader = {.count = 1};
    reader.variables[0] = (struct context_variable){
        .source = source,
        .thread_local_model = THREAD_LOCAL_STATIC,
        .offset = (const char *)&context_variable - tp,
        .go_form = go_form,
        .go_g_m = 0,
        .go_m_curg = 8,
    };
    if (go_form)
        reader.variables[0].go_g_labels = 16;
    if (source == CONTEXT_OTEL_NODEJS) {
        reader.variables[0].offset = (const volatile char *)&nodejs_variable - tp;
        reader.variables[0].nodejs_form = NODEJS_SLOT_IN_VARIABLE;
    }
    bpf_map_update_elem(sampler_contexts_fd(sampler), &pid, &reader, BPF_ANY);
}

struct seen {
    uint64_t records, contexts, frames;
};

static void note(void *context, const struct record_header *record)
{
    struct seen *seen = context;
    if (record->pid != (uint32_t)getpid())
        return;
    seen->records++;
    seen->frames += record->user_words;
    seen->contexts += record->context_source || record->attributes_source;
}

struct figure {
    const char *name;
    void *published; /* what the threads' variable points to */
    uint8_t source;
    uint8_t go_form;
    bool sampled;
    double ns[ROUNDS];
};

static struct figure figures[] = {
    {.name = "bpf_tick_ns", .sampled = true},
    {.name = "bpf_tick_context_ns",
     .sampled = true,
     .published = &otel,
     .source = CONTEXT_OTEL_THREAD},
    {.name = "bpf_tick_elastic_ns",
     .sampled = true,
     .published = &elastic,
     .source = CONTEXT_ELASTIC},
    {.name = "bpf_tick_go_slice_ns",
     .sampled = true,
     .published = go_thread,
     .source = CONTEXT_GO_LABELS,
     .go_form = GO_LABELS_SLICE},
    {.name = "bpf_tick_go_map_ns",
     .sampled = true,
     .published = go_thread,
     .source = CONTEXT_GO_LABELS,
     .go_form = GO_LABELS_MAP},
    {.name = "bpf_tick_custom_labels_ns",
     .sampled = true,
     .published = &custom_set,
     .source = CONTEXT_CUSTOM_LABELS},
    {.name = "bpf_tick_otel_nodejs_ns",
     .sampled = true,
     .published = &nodejs_thread,
     .source = CONTEXT_OTEL_NODEJS},
    {.name = "bpf_tick_obi_ns", .sampled = true, .published = &obi_map, .source = CONTEXT_OBI},
};
#define N_FIGURES (sizeof(figures) / sizeof(figures[0]))

static void set_up(const struct sampler *sampler, const struct figure *figure)
{
    uint32_t pid = (uint32_t)getpid();
    if (figure->source == CONTEXT_NONE || figure->source == CONTEXT_OBI)
        bpf_map_delete_elem(sampler_contexts_fd(sampler), &pid);
    else
        set_reader(sampler, figure->source, figure->go_form);
    go_thread[2] = figure->go_form == GO_LABELS_MAP ? (void *)&go_map_variable : (void *)&go_slice;
}

struct bench {
    struct sampler *sampler;
    struct cpu_events cpus;
    struct ring *ring;
    struct unwind_rig unwind;
};

/* The sum of a value over our descriptors of one kind, each of which has `kind` in its fdinfo. */
static uint64_t fdinfo_sum(const char *kind, const char *key)
{
    uint64_t sum = 0;
    DIR *directory = opendir("/proc/self/fdinfo");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[300], text[4096];
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        text[fread(text, 1, sizeof(text) - 1, file)] = 0;
        fclose(file);
        const char *value = strstr(text, kind) ? strstr(text, key) : NULL;
        sum += value ? strtoull(value + strlen(key), NULL, 10) : 0;
    }
    if (directory)
        closedir(directory);
    return sum;
}

struct run_stats { /* of the tick program, the only one that we have */
    uint64_t run_ns;
    uint64_t runs;
};

static void run_stats_read(struct run_stats *stats)
{
    *stats = (struct run_stats){.run_ns = fdinfo_sum("prog_type:", "run_time_ns:"),
                                .runs = fdinfo_sum("prog_type:", "run_cnt:")};
}

static uint64_t map_bytes(void)
{
    return fdinfo_sum("map_type:", "memlock:");
}

static double measure(struct bench *bench, const struct figure *figure)
{
    const struct sampler *sampler = bench->sampler;
    struct ring *ring = bench->ring;
    pthread_t threads[BURNERS_MAX];
    struct run_stats before, after;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    struct seen seen = {0};
    n = n > BURNERS_MAX ? BURNERS_MAX : n;
    stop = 0;
    set_up(sampler, figure);
    for (long i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, burn, figure->published) != 0)
            abort();
    if (figure->sampled)
        unwind_rig_settle(&bench->unwind, ring, (uint32_t)getpid(), SETTLED_MS, 5000);
    run_stats_read(&before);
    nanosleep(&(struct timespec){.tv_nsec = ROUND_MS * 1000000}, NULL);
    run_stats_read(&after);
    ring_drain(ring, ring_position(ring), note, &seen, NULL);
    stop = 1;
    for (long i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    uint64_t runs = after.runs - before.runs;
    if (seen.contexts * 100 < seen.records * (figure->source ? 95 : 0))
        fprintf(stderr, "bench_bpf: %s: %llu of %llu samples have a context\n", figure->name,
                (unsigned long long)seen.contexts, (unsigned long long)seen.records);
    if (figure->sampled && seen.frames < seen.records * (uint64_t)depth_wanted)
        fprintf(stderr, "bench_bpf: %s: stacks of %.1f frames\n", figure->name,
                (double)seen.frames / (double)seen.records);
    return runs ? (double)(after.run_ns - before.run_ns) / (double)runs : 0;
}

static int ascending(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

static void measure_all(struct bench *bench)
{
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < N_FIGURES; i++)
            if (figures[i].source != CONTEXT_OBI || obi_map >= 0)
                figures[i].ns[round] = measure(bench, &figures[i]);
    for (size_t i = 0; i < N_FIGURES; i++) {
        qsort(figures[i].ns, ROUNDS, sizeof(double), ascending);
        if (figures[i].ns[0] > 0)
            printf("%s %.0f ns\n", figures[i].name, figures[i].ns[0]);
    }
}

static void bench_close(struct bench *bench)
{
    if (bench->unwind.symbolizer.loop)
        unwind_rig_close(&bench->unwind);
    ring_close(bench->ring);
    cpu_events_close(&bench->cpus);
    sampler_close(bench->sampler);
}

static bool bench_open(struct bench *bench, const struct sampler_settings *settings)
{
    char why[SAMPLER_DIAGNOSIS_MAX] = "";
    *bench = (struct bench){.cpus.uevent_fd = -1};
    if (sampler_open(settings, &bench->sampler, why, sizeof(why)) == 0 &&
        cpu_events_open(&bench->cpus, bench->sampler) == 0 &&
        ring_open(sampler_ring_fd(bench->sampler), sampler_ring_size(bench->sampler),
                  &bench->ring) == 0) {
        unwind_rig_open(&bench->unwind, bench->sampler);
        return true;
    }
    fprintf(stderr, "bench_bpf: %s\n", *why ? why : "no perf events, or no memory");
    bench_close(bench);
    return false;
}

/* By the depth of the stack. */
static void measure_depths(struct bench *bench)
{
    static const int depths[] = {10, 30, 100, 300};
    static const struct figure figure = {.name = "depth", .sampled = true};
    double by_depth[4] = {0};
    for (size_t i = 0; i < 4; i++) {
        depth_wanted = depths[i] - FRAMES_BELOW;
        for (int round = 0; round < ROUNDS; round++) {
            double ns = measure(bench, &figure);
            if (!round || ns < by_depth[i])
                by_depth[i] = ns;
        }
        printf("bpf_tick_depth_%d_ns %.0f ns\n", depths[i], by_depth[i]);
    }
    printf("bpf_frame_ns %.1f ns\n", (by_depth[3] - by_depth[1]) / (depths[3] - depths[1]));
}

/* All ticks are of something that is not included, by one kind of rule. */
static void measure_filtered(const char *name, enum filter_kind kind, const char *value)
{
    static const struct figure nobody = {.name = "filtered"};
    const char *const rule[] = {value, NULL};
    struct sampler_settings settings = {.frequency_hz = 499, .ring_size_bytes = 4 << 20};
    double ns[ROUNDS];
    struct bench bench;
    settings.filters.include.values[kind] = rule;
    if (!bench_open(&bench, &settings))
        return;
    for (int round = 0; round < ROUNDS; round++)
        ns[round] = measure(&bench, &nobody);
    qsort(ns, ROUNDS, sizeof(double), ascending);
    printf("%s %.0f ns\n", name, ns[0]);
    bench_close(&bench);
}

/* OBI's map, pinned in a BPF file system that nobody else sees. */
static void make_obi_map(char *directory, char *pin, size_t pin_size)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        !mkdtemp(directory) || mount("bpf", directory, "bpf", 0, NULL) < 0)
        return;
    snprintf(pin, pin_size, "%s/traces_ctx_v1", directory);
    int fd = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "traces_ctx_v1", 8, 24, 16384, NULL);
    if (fd >= 0 && bpf_obj_pin(fd, pin) == 0)
        obi_map = fd;
}

int main(void)
{
    char directory[] = "/tmp/spanprof-bench-XXXXXX", pin[64] = "";
    struct bench bench;
    struct sampler_settings settings = {
        .frequency_hz = 499, .ring_size_bytes = 4 << 20, .obi_map = pin};
    make_obi_map(directory, pin, sizeof(pin));
    lay_out();
    (void)setpriority(PRIO_PROCESS, 0, -19); /* so that ticks are our own */
    int stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
    if (stats_fd < 0)
        fprintf(stderr, "bench_bpf: root is needed\n");
    if (stats_fd < 0 || !bench_open(&bench, &settings))
        return 77;
    sampler_obi_poll(bench.sampler);
    measure_all(&bench);
    measure_depths(&bench);
    printf("bpf_map_bytes %llu bytes\n", (unsigned long long)map_bytes());
    bench_close(&bench);
    measure_filtered("bpf_tick_filtered_pid_ns", FILTER_PIDS, "1");
    measure_filtered("bpf_tick_filtered_comm_ns", FILTER_COMMS, "nobody");
    measure_filtered("bpf_tick_filtered_executable_ns", FILTER_EXECUTABLES, "nobody");
    measure_filtered("bpf_tick_filtered_cgroup_ns", FILTER_CGROUPS, "/nobody");
    close(stats_fd);
    (void)umount2(directory, MNT_DETACH);
    (void)rmdir(directory);
    return 0;
}

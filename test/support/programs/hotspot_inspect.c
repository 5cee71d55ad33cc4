/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hotspot_inspect threads PID: the stack of each thread of a JVM, leaf first, tab-separated:
 *     thread TID
 *     native ADDRESS | compiled|interpreted|stub|frozen OUTCOME | line FUNCTION FILE LINE START
 * hotspot_inspect samples PID N DELAY_MS: the same of N stacks of threads that run Java, as they
 * were stopped; named DELAY_MS after they went on. HOTSPOT_UNCACHED in the environment: nothing is
 * kept from one to the next. Exit status 2: not ready. hotspot_inspect record
 * PID TID FILE: a stack of Java frames alone, walked and named, with all that was read, as an input
 * of fuzz_hotspot.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "base/buf.h"
#include "test/support/rigs/hotspot_rig.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 1024
#define ARENA_BYTES (8u << 20)
#define CODE_BYTES  64 /* shown */

static const char *const kinds[] = {"native", "compiled", "interpreted", "stub", "frozen"};
static const char *const outcomes[] = {"named", "stale", "unreadable", "unknown"};

static struct hotspot_rig_stack stack;

static size_t threads_of(uint32_t pid, uint32_t *tids)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && n < THREADS_MAX && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            tids[n++] = (uint32_t)atoi(entry->d_name);
    if (folder)
        closedir(folder);
    return n;
}

static void print_stack(uint32_t tid, const struct runtime_names *names)
{
    const struct runtime_name *named = names->names;
    printf("thread\t%u\t%d\n", tid, stack.end);
    for (uint32_t i = 0; i < stack.n; i++) {
        const struct hotspot_rig_frame *frame = &stack.frames[i];
        if (frame->kind == HOTSPOT_RIG_NATIVE) {
            printf("native\t%llx\n", frame->frame.words[0]);
            continue;
        }
        printf("%s\t%s\t%llx\t%llx\n", kinds[frame->kind], outcomes[named->outcome],
               frame->frame.words[0], frame->frame.words[1]);
        for (uint32_t j = 0; j < named->n_lines; j++) {
            const struct runtime_line *line = &named->lines[j];
            printf("line\t%s\t%s\t%u\t%u\t%s\n", line->function.data, line->file.data, line->line,
                   line->start_line, line->system_name.data);
        }
        named++;
    }
}

/* The code that the leaf was interrupted in. */
static void print_code(struct hotspot_rig *rig)
{
    uint8_t code[CODE_BYTES] = {0};
    uint64_t pc = stack.frames[0].frame.words[0] & ((UINT64_C(1) << 48) - 1);
    struct runtime_memory memory = hotspot_rig_memory(rig);
    struct reader_range range = {pc - 32, code, sizeof(code), 0};
    memory.read(memory.context, &range, 1);
    printf("code\t");
    for (size_t i = 0; i < sizeof(code); i++)
        printf("%s%02x", i == 32 ? " | " : "", code[i]);
    printf("\n");
}

static int show_threads(struct hotspot_rig *rig, uint32_t pid)
{
    uint32_t tids[THREADS_MAX];
    size_t n = threads_of(pid, tids);
    for (size_t i = 0; i < n; i++) {
        struct arena arena;
        int error = 0;
        arena_init(&arena, ARENA_BYTES);
        struct runtime_names names = {.arena = &arena};
        if (hotspot_rig_walk_named(rig, tids[i], &stack, &names, &error)) {
            if (error)
                fprintf(stderr, "names: %d\n", error);
            else
                print_stack(tids[i], &names);
        }
        arena_close(&arena);
    }
    return 0;
}

static char thread_state(uint32_t pid, uint32_t tid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    char *name_end = n ? strrchr(text, ')') : NULL;
    return name_end ? name_end[2] : 0;
}

/* Walks a thread and names its frames delay_ms later, while it goes on: as the product does. False:
 * no frame of it is Java's. */
static bool show_sample(struct hotspot_rig *rig, uint32_t tid, unsigned delay_ms)
{
    static struct record_frame frames[HOTSPOT_RIG_FRAMES];
    struct arena arena;
    if (!hotspot_rig_walk(rig, tid, &stack))
        return false;
    size_t n = hotspot_rig_java(&stack, frames);
    if (!n || n > HOTSPOT_FRAMES_MAX)
        return false;
    usleep(delay_ms * 1000);
    arena_init(&arena, ARENA_BYTES);
    struct runtime_memory memory = hotspot_rig_memory(rig);
    struct runtime_names names = {.arena = &arena,
                                  .names = arena_zalloc(&arena, n * sizeof(*names.names))};
    int error =
        hotspot_names(hotspot_rig_process(rig), hotspot_rig_cache(rig), &memory, frames, n, &names);
    if (error) {
        fprintf(stderr, "names: %d\n", error);
    } else {
        print_stack(tid, &names);
        print_code(rig);
    }
    arena_close(&arena);
    return !error;
}

static void show_samples(struct hotspot_rig *rig, uint32_t pid, unsigned wanted, unsigned delay_ms)
{
    uint32_t tids[THREADS_MAX];
    uint64_t before[2], after[2];
    unsigned shown = 0;
    hotspot_rig_counts(rig, &before[0], &before[1]);
    for (unsigned round = 0; shown < wanted && round < wanted * 100; round++) {
        size_t n = threads_of(pid, tids);
        usleep(300 + (useconds_t)(rand() % 1500));
        for (size_t i = 0; i < n && shown < wanted; i++)
            if (thread_state(pid, tids[i]) == 'R')
                shown += show_sample(rig, tids[i], delay_ms);
    }
    hotspot_rig_counts(rig, &after[0], &after[1]);
    fprintf(stderr, "named: %u stacks, %" PRIu64 " requests, %" PRIu64 " bytes\n", shown,
            after[0] - before[0] - shown, after[1] - before[1] - shown * CODE_BYTES);
}

/* ---- recording ---- */

static struct buf recorded;

static void record_range(void *context, uint64_t address, const void *data, size_t size)
{
    (void)context;
    const uint64_t head[2] = {address, size};
    if (buf_append(&recorded, head, sizeof(head)) || buf_append(&recorded, data, size))
        abort();
}

static int record_stack_of(struct hotspot_rig *rig, uint32_t tid, const char *path)
{
    struct arena arena;
    int error = 0;
    arena_init(&arena, ARENA_BYTES);
    struct runtime_names names = {.arena = &arena};
    hotspot_rig_record(rig, record_range, NULL);
    FILE *file = fopen(path, "we");
    if (!file || !hotspot_rig_walk_named(rig, tid, &stack, &names, &error) || error ||
        !hotspot_rig_first(rig))
        return 1;
    const uint8_t mode[8] = {0};
    fwrite(mode, sizeof(mode), 1, file);
    fwrite(hotspot_rig_process(rig), sizeof(struct hotspot_process), 1, file);
    fwrite(hotspot_rig_first(rig), 8 * sizeof(uint64_t), 1, file);
    fwrite(recorded.data, recorded.len, 1, file);
    arena_close(&arena);
    buf_close(&recorded);
    return fclose(file);
}

int main(int argc, char **argv)
{
    int error;
    uint32_t pid = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    struct hotspot_rig *rig = hotspot_rig_open(pid, &error);
    if (!rig) {
        fprintf(stderr, "not attached: %d\n", error);
        return error == -EAGAIN ? 2 : 1;
    }
    uint64_t requests, bytes;
    hotspot_rig_counts(rig, &requests, &bytes);
    fprintf(stderr, "attached: %" PRIu64 " requests, %" PRIu64 " bytes, HotSpot %u\n", requests,
            bytes, hotspot_rig_process(rig)->names.major);
    if (!strcmp(argv[1], "threads"))
        show_threads(rig, pid);
    else if (!strcmp(argv[1], "record"))
        error = record_stack_of(rig, (uint32_t)atoi(argv[3]), argv[4]);
    else
        show_samples(rig, pid, (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
    hotspot_rig_close(rig);
    return error;
}

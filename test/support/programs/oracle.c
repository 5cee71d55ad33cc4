/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oracle [-s SECONDS] [-f HZ] [-m MIB] [-n N] [-u N] [-w] [-e FUNCTION]... [-v N] COMMAND...: runs
 * the command (and all that it starts) under the sampler in the mode that copies registers and
 * stack with each sample, has elfutils unwind the same stack, and compares frame by frame. -m:
 * memory for unwind tables; -n: at least so many stacks must have been compared; -u: ends when so
 * many have been; -w: copies must hold the whole stack; -v: shows so many stacks that differ. -e:
 * elfutils is known to go wrong at this function: stacks that agree up to a frame of it and no
 * further are "explained", and counted by themselves. What the command prints goes to standard
 * error. Prints figures as the benchmarks do; exits 1 if less than 99.5 % of stacks are identical
 * or explained, 77 without rights.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/files/proc_maps.h"
#include "base/clock.h"
#include "base/map.h"
#include "test/support/rigs/unwind_rig.h"
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_BYTES    (UINT64_C(128) << 20)
#define FRAMES_MAX    (RECORD_MAX_USER_FRAMES + 1)
#define EXPLAINED_MAX 16
#define ANCESTORS_MAX 32

enum outcome {
    IDENTICAL,
    COPY_ENDED, /* the same as far as the copy of the stack goes */
    EXPLAINED,  /* the same up to a frame of a function that was named with -e */
    FURTHER,    /* the same, and on where elfutils gave up */
    DIFFERENT,
    GONE,       /* the process, or the code that it ran: elfutils cannot look at it */
    NOT_LOADED, /* the tick had no rows yet */
    OUTCOMES,
};

static const char *const outcome_names[OUTCOMES] = {
    "identical", "copy_ended", "explained", "further", "different", "gone", "not_loaded",
};

struct target { /* a process that the command is or has started */
    uint32_t pid;
    bool ours;
    Dwfl *dwfl; /* NULL = not looked at yet */
    char *maps; /* as they were then */
};

struct stack {
    Dwarf_Addr pcs[FRAMES_MAX];
    size_t n;
};

static struct {
    struct unwind_rig rig;
    struct sampler *sampler;
    struct cpu_events cpus;
    struct ring *ring;
    struct map targets;
    unsigned show;
    struct {
        const char *function;
        uint64_t count;
    } explained[EXPLAINED_MAX];
    unsigned n_explained;
    uint64_t outcomes[OUTCOMES], ends[UNWIND_ENDS], frames;
} oracle;

/* ---- elfutils ---- */

static const struct record_header *record_now;
static struct proc_map stack_now; /* the mapping that its stack lies in */
static bool copy_ended;           /* something was asked for that lies behind the copy */

static bool read_copy(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *argument)
{
    (void)dwfl, (void)argument;
    const struct record_stack *stack = record_stack(record_now);
    uint64_t at = address - stack->start;
    if (address < stack->start || at + sizeof(uint64_t) > stack->size) {
        copy_ended |= address > stack->start && address < stack_now.end;
        return false;
    }
    memcpy(result, (const uint8_t *)(stack + 1) + at, sizeof(uint64_t));
    return true;
}

static pid_t next_thread(Dwfl *dwfl, void *argument, void **thread_argument)
{
    (void)dwfl, (void)argument;
    if (*thread_argument)
        return 0;
    *thread_argument = &oracle;
    return (pid_t)record_now->tid;
}

static bool set_registers(Dwfl_Thread *thread, void *argument)
{
    (void)argument;
    const struct record_stack *stack = record_stack(record_now);
#if defined(__x86_64__)
    Dwarf_Word registers[17];
    memcpy(registers, stack->registers, 16 * sizeof(*registers));
    registers[16] = stack->pc;
    return dwfl_thread_state_registers(thread, 0, 17, registers);
#else
    Dwarf_Word registers[32];
    memcpy(registers, stack->registers, sizeof(registers));
    dwfl_thread_state_register_pc(thread, stack->pc);
    return dwfl_thread_state_registers(thread, 0, 32, registers);
#endif
}

static int take_frame(Dwfl_Frame *frame, void *argument)
{
    struct stack *stack = argument;
    bool exact;
    if (stack->n == FRAMES_MAX || !dwfl_frame_pc(frame, &stack->pcs[stack->n], &exact))
        return DWARF_CB_ABORT;
    stack->n++;
    return DWARF_CB_OK;
}

static char *read_maps(uint32_t pid)
{
    struct buf text = BUF_INIT(PROC_MAPS_BYTES_MAX);
    char *maps = NULL;
    if (!proc_maps_read(pid, &text) && text.len)
        maps = strndup((const char *)text.data, text.len);
    buf_close(&text);
    return maps;
}

static Dwfl *open_dwfl(uint32_t pid)
{
    static const Dwfl_Callbacks files = {.find_elf = dwfl_linux_proc_find_elf,
                                         .find_debuginfo = dwfl_standard_find_debuginfo};
    static const Dwfl_Thread_Callbacks threads = {.next_thread = next_thread,
                                                  .memory_read = read_copy,
                                                  .set_initial_registers = set_registers};
    Dwfl *dwfl = dwfl_begin(&files);
    if (!dwfl)
        return NULL;
    if (dwfl_linux_proc_report(dwfl, (pid_t)pid) || dwfl_report_end(dwfl, NULL, NULL) ||
        !dwfl_attach_state(dwfl, NULL, (pid_t)pid, &threads, NULL)) {
        dwfl_end(dwfl);
        return NULL;
    }
    return dwfl;
}

static bool maps_are(const struct target *target)
{
    char *maps = read_maps(target->pid);
    bool same = maps && target->maps && !strcmp(maps, target->maps);
    free(maps);
    return same;
}

static void forget_view(struct target *target)
{
    free(target->maps);
    target->maps = NULL;
    if (target->dwfl)
        dwfl_end(target->dwfl);
    target->dwfl = NULL;
}

/* Its view of the process, anew when mappings changed. elfutils reads them by itself, in parts: if
 * the process ends or runs another program meanwhile, it sees the first ones alone, and unwinds
 * code of the others (ld.so lies behind all libraries) by frame pointers. Such a view is none. */
static Dwfl *dwfl_of(struct target *target)
{
    if (maps_are(target))
        return target->dwfl;
    forget_view(target);
    target->maps = read_maps(target->pid);
    target->dwfl = target->maps ? open_dwfl(target->pid) : NULL;
    if (!target->dwfl || !maps_are(target))
        forget_view(target);
    return target->dwfl;
}

/* ---- comparing ---- */

static void show_side(Dwfl *dwfl, const char *who, const Dwarf_Addr *pcs, size_t n)
{
    printf("  %s\n", who);
    for (size_t i = 0; i < n; i++) {
        Dwfl_Module *module = dwfl_addrmodule(dwfl, pcs[i]);
        const char *file =
            module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : "?";
        const char *name = module ? dwfl_module_addrname(module, pcs[i] - (i > 0)) : NULL;
        printf("    %2zu %#" PRIx64 " %s (%s)\n", i, pcs[i], name ? name : "?", file ? file : "?");
    }
}

/* The mapping of an address; none: all zero. */
static struct proc_map mapping_of(const char *maps, uint64_t address)
{
    struct bytes text = BYTES_STR(maps);
    struct proc_map map;
    while (proc_maps_next(&text, &map))
        if (address >= map.start && address < map.end)
            return map;
    return (struct proc_map){0};
}

/* The last frame that both have is of a function where elfutils is known to go wrong. */
static bool is_explained(Dwfl *dwfl, const struct stack *ours, size_t n_same)
{
    Dwarf_Addr pc = n_same ? ours->pcs[n_same - 1] - (n_same > 1) : 0;
    Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
    const char *name = module ? dwfl_module_addrname(module, pc) : NULL;
    for (unsigned i = 0; name && i < oracle.n_explained; i++) {
        if (strcmp(name, oracle.explained[i].function) != 0)
            continue;
        oracle.explained[i].count++;
        return true;
    }
    return false;
}

static enum outcome judge_frames(Dwfl *dwfl, const struct stack *ours, const struct stack *theirs)
{
    size_t n_same = 0;
    while (n_same < ours->n && n_same < theirs->n && ours->pcs[n_same] == theirs->pcs[n_same])
        n_same++;
    if (n_same == ours->n && n_same == theirs->n)
        return IDENTICAL;
    if (n_same == theirs->n && copy_ended)
        return COPY_ENDED;
    if (is_explained(dwfl, ours, n_same))
        return EXPLAINED;
    return n_same == theirs->n ? FURTHER : DIFFERENT;
}

/* Those of runtimes that are read are left out: elfutils has the native ones behind them. */
static void take_native(const struct record_header *record, struct stack *ours)
{
    const uint64_t *at = record_frames(record) + record->kernel_words;
    const uint64_t *end = at + record->user_words;
    struct record_frame frame;
    for (ours->n = 0; record_frame_next(&at, end, &frame);)
        if (record_frame_is_native(frame.words[0]))
            ours->pcs[ours->n++] = record_frame_address(frame.words[0]);
}

static enum outcome judge(const struct record_header *record, const struct target *target,
                          struct stack *ours)
{
    Dwfl *dwfl = target->dwfl;
    struct stack theirs = {.n = 0};
    take_native(record, ours);
    stack_now = mapping_of(target->maps, record_stack(record)->start + RECORD_RED_ZONE);
    copy_ended = false;
    int outcome = dwfl_getthread_frames(dwfl, (pid_t)record->tid, take_frame, &theirs);
    const char *why = outcome ? dwfl_errmsg(-1) : "";
    while (theirs.n > 1 && !mapping_of(target->maps, theirs.pcs[theirs.n - 1]).executable)
        theirs.n--; /* made up */
    enum outcome judged = judge_frames(dwfl, ours, &theirs);
    if ((judged == DIFFERENT || judged == FURTHER) && oracle.show) {
        oracle.show--;
        printf("%s: pid %u, end %u, %zu frames; elfutils: %zu (%d) %s\n", outcome_names[judged],
               record->pid, record->end, ours->n, theirs.n, outcome, why);
        show_side(dwfl, "ours", ours->pcs, ours->n);
        show_side(dwfl, "elfutils'", theirs.pcs, theirs.n);
    }
    return judged;
}

/* ---- samples ---- */

static pid_t parent_of(pid_t pid)
{
    char path[32], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[n] = '\0';
    if (file)
        fclose(file);
    const char *end = strrchr(text, ')');
    int parent = 0;
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* The command, or started by it: orphans become children of this process. The symbolizer is of this
 * process's session, the command is of its own. */
static bool is_ours(pid_t pid)
{
    if (getsid(pid) == getsid(0))
        return false;
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        pid = parent_of(pid);
        if (pid == getpid())
            return true;
    }
    return false;
}

static struct target *target_of(uint32_t pid)
{
    struct target *target = map_get(&oracle.targets, &pid);
    if (target)
        return target;
    target = calloc(1, sizeof(*target));
    if (!target)
        abort();
    target->pid = pid;
    target->ours = is_ours((pid_t)pid);
    if (map_put(&oracle.targets, target, NULL))
        abort();
    return target;
}

static enum outcome compare(const struct record_header *record, struct target *target)
{
    struct stack ours;
    if (record->end == UNWIND_END_WANTED) {
        unwind_rig_take(&oracle.rig, record);
        return NOT_LOADED;
    }
    Dwfl *dwfl = record->flags & RECORD_FLAG_STACK ? dwfl_of(target) : NULL;
    if (!dwfl || !mapping_of(target->maps, record_stack(record)->pc).executable)
        return GONE;
    record_now = record;
    enum outcome outcome = judge(record, target, &ours);
    oracle.frames += ours.n;
    oracle.ends[record->end]++;
    return outcome;
}

static void on_record(void *context, const struct record_header *record)
{
    (void)context;
    struct target *target = record->pid ? target_of(record->pid) : NULL;
    if (!target || !target->ours || record->flags & RECORD_FLAG_KERNEL_THREAD)
        return;
    oracle.outcomes[compare(record, target)]++;
}

/* ---- running ---- */

static void open_all(uint32_t frequency_hz, uint64_t unwind_bytes)
{
    char why[SAMPLER_DIAGNOSIS_MAX];
    struct sampler_settings settings = {.frequency_hz = frequency_hz,
                                        .ring_size_bytes = RING_BYTES,
                                        .unwind_bytes = unwind_bytes,
                                        .stacks_always = true};
    if (sampler_open(&settings, &oracle.sampler, why, sizeof(why))) {
        fprintf(stderr, "oracle: %s\n", why);
        exit(77);
    }
    MAP_INIT(&oracle.targets, struct target, pid);
    unwind_rig_open(&oracle.rig, oracle.sampler);
    if (ring_open(sampler_ring_fd(oracle.sampler), sampler_ring_size(oracle.sampler), &oracle.ring))
        abort();
}

static pid_t start(char **command)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    setsid();
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(command[0], command);
    fprintf(stderr, "oracle: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

static uint64_t judged(void)
{
    uint64_t n = 0;
    for (int i = IDENTICAL; i <= DIFFERENT; i++)
        n += oracle.outcomes[i];
    return n;
}

static void end_all(pid_t command)
{
    struct target *target;
    kill(-command, SIGKILL);
    for (size_t i = 0; (target = map_next(&oracle.targets, &i));)
        if (target->ours && is_ours((pid_t)target->pid))
            kill((pid_t)target->pid, SIGKILL);
}

static void watch(pid_t command, unsigned seconds, uint64_t n_enough)
{
    uint64_t end_ns = clock_monotonic_ns() + seconds * NS_PER_SEC;
    while (clock_monotonic_ns() < end_ns && judged() < n_enough &&
           waitpid(command, NULL, WNOHANG) == 0) {
        ring_drain(oracle.ring, ring_position(oracle.ring), on_record, NULL, NULL);
        rig_round(&oracle.rig.symbolizer);
    }
    end_all(command);
}

struct options {
    unsigned seconds;
    uint32_t frequency_hz;
    unsigned mib;
    uint64_t n_min;
    uint64_t n_enough;
    bool whole;
};

static int report(const char *name, const struct options *options)
{
    uint64_t n = judged();
    uint64_t same = oracle.outcomes[IDENTICAL];
    if (!options->whole)
        same += oracle.outcomes[COPY_ENDED];
    double percent = n ? 100 * (double)same / (double)n : 0;
    double explained = n ? 100 * (double)oracle.outcomes[EXPLAINED] / (double)n : 0;
    printf("FIGURE oracle %s identical %.2f %%, explained %.2f %% of %" PRIu64
           " samples, %.1f frames\n",
           name, percent, explained, n, n ? (double)oracle.frames / (double)n : 0);
    for (int i = 0; i < OUTCOMES; i++)
        printf("%s %" PRIu64 " ", outcome_names[i], oracle.outcomes[i]);
    printf("; ends");
    for (int i = 0; i < UNWIND_ENDS; i++)
        printf(" %" PRIu64, oracle.ends[i]);
    for (unsigned i = 0; i < oracle.n_explained; i++)
        printf("; %s %" PRIu64, oracle.explained[i].function, oracle.explained[i].count);
    printf("\n");
    return percent + explained >= 99.5 && n >= options->n_min ? 0 : 1;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    int option;
    while ((option = getopt(argc, argv, "+s:f:m:n:u:we:v:")) != -1) {
        if (option == 's')
            options->seconds = (unsigned)atoi(optarg);
        else if (option == 'f')
            options->frequency_hz = (uint32_t)atoi(optarg);
        else if (option == 'm')
            options->mib = (unsigned)atoi(optarg);
        else if (option == 'n')
            options->n_min = (unsigned)atoi(optarg);
        else if (option == 'u')
            options->n_enough = (unsigned)atoi(optarg);
        else if (option == 'w')
            options->whole = true;
        else if (option == 'e' && oracle.n_explained < EXPLAINED_MAX)
            oracle.explained[oracle.n_explained++].function = optarg;
        else if (option == 'v')
            oracle.show = (unsigned)atoi(optarg);
        else
            return false;
    }
    return optind < argc;
}

int main(int argc, char **argv)
{
    struct options options = {
        .seconds = 10, .frequency_hz = 499, .mib = 64, .n_min = 1, .n_enough = UINT64_MAX};
    if (!read_options(argc, argv, &options))
        return 2;
    open_all(options.frequency_hz, (uint64_t)options.mib << 20);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t command = start(argv + optind);
    if (cpu_events_open(&oracle.cpus, oracle.sampler))
        return 77;
    watch(command, options.seconds, options.n_enough);
    int code = report(argv[optind], &options);
    cpu_events_close(&oracle.cpus);
    ring_close(oracle.ring);
    unwind_rig_close(&oracle.rig);
    sampler_close(oracle.sampler);
    return code;
}

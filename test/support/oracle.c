/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oracle [-s SECONDS] [-f HZ] [-m MIB] [-n N] [-v N] COMMAND...: runs the command (and all that it
 * starts) under the sampler in the mode that copies registers and stack with each sample, has
 * elfutils unwind the same stack, and compares frame by frame. -m: memory for unwind tables; -n: at
 * least so many stacks must have been compared; -v: shows so many stacks that differ. Prints
 * figures as the benchmarks do; exits 1 below 99.5 % identical stacks, 77 without rights.
 */
#include "agent-bpf/cpu_events.h"
#include "agent-bpf/proc_maps.h"
#include "base/clock.h"
#include "base/map.h"
#include "test/support/unwind_rig.h"
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_BYTES (UINT64_C(128) << 20)
#define FRAMES_MAX (RECORD_MAX_USER_FRAMES + 1)

enum outcome {
    IDENTICAL,
    COPY_ENDED, /* the same as far as the copy of the stack goes */
    FURTHER,    /* the same, and on where elfutils gave up */
    DIFFERENT,
    GONE,       /* the process: elfutils cannot look at it */
    NOT_LOADED, /* the tick had no rows yet */
    OUTCOMES,
};

static const char *const outcome_names[OUTCOMES] = {
    "identical", "copy_ended", "further", "different", "gone", "not_loaded",
};

struct target { /* a process of the command's session */
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
    pid_t session;
    unsigned show;
    uint64_t outcomes[OUTCOMES], ends[UNWIND_ENDS], frames;
} oracle;

/* ---- elfutils ---- */

static const struct record_header *record_now;

static bool read_copy(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *argument)
{
    (void)dwfl, (void)argument;
    const struct record_stack *stack = record_stack(record_now);
    uint64_t at = address - stack->start;
    if (address < stack->start || at + sizeof(uint64_t) > stack->size)
        return false;
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

/* Its view of the process, anew when mappings changed. */
static Dwfl *dwfl_of(struct target *target)
{
    char *maps = read_maps(target->pid);
    if (!maps || (target->maps && !strcmp(maps, target->maps))) {
        free(maps);
        return maps ? target->dwfl : NULL;
    }
    free(target->maps);
    target->maps = maps;
    if (target->dwfl)
        dwfl_end(target->dwfl);
    target->dwfl = open_dwfl(target->pid);
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

static enum outcome judge(const struct record_header *record, Dwfl *dwfl, struct stack *ours)
{
    struct stack theirs = {.n = 0};
    const uint64_t *words = record_frames(record) + record->kernel_words;
    for (ours->n = 0; ours->n < record->user_words; ours->n++)
        ours->pcs[ours->n] = record_frame_address(words[ours->n]);
    int outcome = dwfl_getthread_frames(dwfl, (pid_t)record->tid, take_frame, &theirs);
    const char *why = outcome ? dwfl_errmsg(-1) : "";
    size_t n = ours->n < theirs.n ? ours->n : theirs.n;
    enum outcome judged = DIFFERENT;
    if (!memcmp(ours->pcs, theirs.pcs, n * sizeof(*ours->pcs))) {
        bool copied_all = record_stack(record)->size < RECORD_STACK_MAX;
        if (ours->n == theirs.n)
            judged = IDENTICAL;
        else if (ours->n > theirs.n)
            judged = copied_all ? FURTHER : COPY_ENDED;
    }
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

static struct target *target_of(uint32_t pid)
{
    struct target *target = map_get(&oracle.targets, &pid);
    if (target)
        return target;
    target = calloc(1, sizeof(*target));
    if (!target)
        abort();
    target->pid = pid;
    target->ours = getsid((pid_t)pid) == oracle.session;
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
    if (!dwfl)
        return GONE;
    record_now = record;
    enum outcome outcome = judge(record, dwfl, &ours);
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
    char why[SAMPLER_WHY_MAX];
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
    execvp(command[0], command);
    fprintf(stderr, "oracle: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

static void watch(pid_t pid, unsigned seconds)
{
    uint64_t end_ns = clock_monotonic_ns() + seconds * NS_PER_SEC;
    while (clock_monotonic_ns() < end_ns && waitpid(pid, NULL, WNOHANG) == 0) {
        ring_drain(oracle.ring, ring_position(oracle.ring), on_record, NULL, NULL);
        rig_round(&oracle.rig.analyst);
    }
    kill(-pid, SIGKILL);
}

static int report(const char *name, uint64_t n_min)
{
    uint64_t judged = 0;
    for (int i = IDENTICAL; i <= DIFFERENT; i++)
        judged += oracle.outcomes[i];
    uint64_t same = oracle.outcomes[IDENTICAL] + oracle.outcomes[COPY_ENDED];
    double percent = judged ? 100 * (double)same / (double)judged : 0;
    printf("FIGURE oracle %s identical %.2f %% of %" PRIu64 " samples, %.1f frames\n", name,
           percent, judged, judged ? (double)oracle.frames / (double)judged : 0);
    for (int i = 0; i < OUTCOMES; i++)
        printf("%s %" PRIu64 " ", outcome_names[i], oracle.outcomes[i]);
    printf("; ends");
    for (int i = 0; i < UNWIND_ENDS; i++)
        printf(" %" PRIu64, oracle.ends[i]);
    printf("\n");
    return percent >= 99.5 && judged >= n_min ? 0 : 1;
}

int main(int argc, char **argv)
{
    unsigned seconds = 10, frequency_hz = 499, mib = 64, n_min = 1;
    int option;
    while ((option = getopt(argc, argv, "+s:f:m:n:v:")) != -1) {
        if (option == 's')
            seconds = (unsigned)atoi(optarg);
        else if (option == 'f')
            frequency_hz = (uint32_t)atoi(optarg);
        else if (option == 'm')
            mib = (unsigned)atoi(optarg);
        else if (option == 'n')
            n_min = (unsigned)atoi(optarg);
        else if (option == 'v')
            oracle.show = (unsigned)atoi(optarg);
        else
            return 2;
    }
    if (optind == argc)
        return 2;
    open_all(frequency_hz, (uint64_t)mib << 20);
    oracle.session = start(argv + optind);
    if (cpu_events_open(&oracle.cpus, oracle.sampler))
        return 77;
    watch(oracle.session, seconds);
    int code = report(argv[optind], n_min);
    cpu_events_close(&oracle.cpus);
    ring_close(oracle.ring);
    unwind_rig_close(&oracle.rig);
    sampler_close(oracle.sampler);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hotspot_steps PID: waits for a JVM's first thread of Java at the first instruction of each stub
 * that the JVM lists, and lets it go on by one instruction at a time to the stub's return. At each
 * of them the step to the caller must find what called it. Prints for each instruction,
 * tab-separated: how often it was seen, how often the step was wrong, its stub; where it was wrong
 * the code, and what was found instead.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "test/support/rigs/hotspot_rig.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static int steps_read(void *out, size_t size, uint64_t address);

#define HOTSPOT_READ(walk, out, size, address) ((void)(walk), steps_read(out, size, address))

#include "agent-bpf/runtimes/hotspot/hotspot_step.h"

#define CALLS_MAX   4096
#define PLACES_MAX  65536
#define CALL_BYTES  15
#define STUBS_MAX   1024
#define AT_ONCE     4   /* stubs that are waited for: debug registers */
#define ENTRIES     8   /* of a stub, that are looked at */
#define STEPS_MAX   400 /* of an entry */
#define TRIES       300 /* of 2 ms: stubs that nobody calls */
#define ARENA_BYTES (1u << 20)
#define CODE_BYTES  48 /* shown */

struct place { /* an instruction of a stub */
    uint64_t pc, blob;
    uint64_t seen, wrong;
    struct hotspot_caller found, right; /* of the last wrong one */
    uint64_t sp;
};

static struct {
    pid_t pid, tid;
    struct hotspot_rig *rig;
    const struct hotspot_process *process;
    struct hotspot_caller calls[CALLS_MAX]; /* what each call that has not returned returns to */
    size_t n_calls;
    struct place places[PLACES_MAX];
} steps;

static int steps_read(void *out, size_t size, uint64_t address)
{
    struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
    return process_vm_readv(steps.pid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

static uint64_t word_at(uint64_t address)
{
    uint64_t word = 0;
    return steps_read(&word, sizeof(word), address) ? 0 : word;
}

/* ---- calls ---- */

/* Adapters take their return address off the stack and put it back: that is no return. */
static void calls_follow(const struct user_regs_struct *before, const struct user_regs_struct *now)
{
    for (; steps.n_calls; steps.n_calls--) {
        const struct hotspot_caller *last = &steps.calls[steps.n_calls - 1];
        if (now->rsp < last->sp || (now->rsp == last->sp && now->rip != last->pc))
            break;
    }
    if (now->rsp != before->rsp - 8 || now->rip - before->rip <= CALL_BYTES)
        return;
    uint64_t to = word_at(now->rsp);
    if (to - before->rip <= CALL_BYTES && to != before->rip && steps.n_calls < CALLS_MAX)
        steps.calls[steps.n_calls++] =
            (struct hotspot_caller){.pc = to, .sp = now->rsp + 8, .fp = before->rbp};
}

/* ---- places ---- */

static struct place *place_of(uint64_t pc)
{
    for (size_t i = pc * UINT64_C(0x9e3779b97f4a7c15) >> 48;; i = (i + 1) % PLACES_MAX)
        if (!steps.places[i].pc || steps.places[i].pc == pc)
            return &steps.places[i];
}

static void place_look(const struct user_regs_struct *now)
{
    static struct hotspot_walk walk;
    if (!steps.n_calls || !hotspot_holds(steps.process, now->rip) ||
        hotspot_in_interpreter(steps.process, now->rip))
        return;
    walk = (struct hotspot_walk){.pc = now->rip,
                                 .sp = now->rsp,
                                 .fp = now->rbp,
                                 .rax = now->rax,
                                 .rbx = now->rbx,
                                 .r13 = now->r13,
                                 .is_leaf = 1,
                                 .has_registers = 1};
    hotspot_begin(&walk);
    int end = hotspot_walk_step(&walk, steps.process);
    if (walk.words[0] >> RECORD_FRAME_SHIFT != FRAME_JVM_STUB)
        return;
    const struct hotspot_caller *right = &steps.calls[steps.n_calls - 1];
    struct place *place = place_of(now->rip);
    place->pc = now->rip;
    place->blob = walk.blob;
    place->seen++;
    if (end == HOTSPOT_UNWINDS && walk.pc == right->pc && walk.sp == right->sp &&
        walk.fp == right->fp)
        return;
    place->wrong++;
    place->found = walk.caller;
    place->right = *right;
    place->sp = now->rsp;
}

static void print_code(const char *what, uint64_t address)
{
    uint8_t code[CODE_BYTES] = {0};
    steps_read(code, sizeof(code), address - CODE_BYTES / 2);
    printf("\t%s ", what);
    for (size_t i = 0; i < sizeof(code); i++)
        printf("%s%02x", i == CODE_BYTES / 2 ? " | " : "", code[i]);
}

static void print_caller(const char *what, const struct hotspot_caller *caller, uint64_t sp)
{
    printf("\t%s pc %llx sp+%lld fp %llx", what, caller->pc, caller->sp - sp, caller->fp);
}

static void place_print(const struct place *place)
{
    struct arena arena;
    const uint64_t pc = place->pc & (RECORD_FRAME_EXACT - 1);
    const struct record_frame frame = {
        .words = {pc | (uint64_t)FRAME_JVM_STUB << RECORD_FRAME_SHIFT, place->blob}};
    arena_init(&arena, ARENA_BYTES);
    struct runtime_memory memory = hotspot_rig_memory(steps.rig);
    struct runtime_names names = {.arena = &arena,
                                  .names = arena_zalloc(&arena, sizeof(*names.names))};
    int error =
        hotspot_names(steps.process, hotspot_rig_cache(steps.rig), &memory, &frame, 1, &names);
    bool named = !error && names.names->n_lines;
    const char *name = named ? (const char *)names.names->lines[0].function.data : "";
    printf("%" PRIu64 "\t%" PRIu64 "\t%s", place->seen, place->wrong, name);
    if (place->wrong) {
        print_code("code", place->pc);
        print_code("caller", place->right.pc);
        print_caller("right", &place->right, place->sp);
        print_caller("found", &place->found, place->sp);
    }
    printf("\n");
    arena_close(&arena);
}

/* ---- the thread ---- */

/* The second of the process: the first one only waits for it. */
static pid_t main_thread(pid_t pid)
{
    char path[64];
    pid_t second = INT32_MAX;
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (atoi(entry->d_name) > pid && atoi(entry->d_name) < second)
            second = atoi(entry->d_name);
    if (folder)
        closedir(folder);
    return second;
}

static int step(struct user_regs_struct *registers)
{
    int status;
    return ptrace(PTRACE_SINGLESTEP, steps.tid, NULL, NULL) ||
           waitpid(steps.tid, &status, __WALL) < 0 || !WIFSTOPPED(status) ||
           ptrace(PTRACE_GETREGS, steps.tid, NULL, registers);
}

/* From the first instruction of a stub to its return. */
static int stub_run(struct user_regs_struct *before)
{
    struct user_regs_struct now;
    steps.calls[0] = (struct hotspot_caller){
        .pc = word_at(before->rsp), .sp = before->rsp + 8, .fp = before->rbp};
    steps.n_calls = 1;
    place_look(before);
    for (int i = 0; i < STEPS_MAX && steps.n_calls; i++, *before = now) {
        if (step(&now))
            return -1;
        calls_follow(before, &now);
        place_look(&now);
    }
    return 0;
}

static int poke(size_t debug_register, uint64_t value)
{
    size_t at = offsetof(struct user, u_debugreg) + debug_register * sizeof(uint64_t);
    return ptrace(PTRACE_POKEUSER, steps.tid, (void *)at, (void *)(uintptr_t)value) ? -1 : 0;
}

/* The thread is to stop at each of these. */
static int stop_at(const uint64_t *addresses, size_t n)
{
    uint64_t control = 0;
    int error = poke(7, 0);
    for (size_t i = 0; i < n && !error; i++) {
        error = poke(i, addresses[i]);
        control |= UINT64_C(1) << (2 * i);
    }
    return error ? error : poke(7, control);
}

/* With that signal, 0: none. The one that it stopped for; 0: it was stopped, as none came. */
static int go_on(int with)
{
    int status = 0;
    if (ptrace(PTRACE_CONT, steps.tid, NULL, (void *)(uintptr_t)with))
        return -1;
    for (int i = 0; i < TRIES; i++, usleep(2000)) {
        pid_t stopped = waitpid(steps.tid, &status, __WALL | WNOHANG);
        if (stopped < 0 || (stopped > 0 && !WIFSTOPPED(status)))
            return -1;
        if (stopped > 0)
            return WSTOPSIG(status);
    }
    ptrace(PTRACE_INTERRUPT, steps.tid, NULL, NULL);
    if (waitpid(steps.tid, &status, __WALL) < 0 || !WIFSTOPPED(status))
        return -1;
    return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
}

/* ---- stubs ---- */

struct watched {
    uint64_t address;
    unsigned left; /* entries to be looked at */
};

static int watch(const struct watched *stubs, size_t n)
{
    uint64_t addresses[AT_ONCE];
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++)
        if (stubs[i].left)
            addresses[n_left++] = stubs[i].address;
    int error = stop_at(addresses, n_left);
    return error ? error : (int)n_left;
}

static int take_entry(struct watched *stubs, size_t n)
{
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, steps.tid, NULL, &registers))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (stubs[i].address != registers.rip)
            continue;
        stubs[i].left--;
        return stop_at(NULL, 0) ? -1 : stub_run(&registers);
    }
    return 0;
}

static int stubs_take(struct watched *stubs, size_t n)
{
    for (int with = 0;;) {
        int left = watch(stubs, n);
        if (left <= 0)
            return left;
        int signal = go_on(with);
        if (signal <= 0)
            return signal;
        with = signal == SIGTRAP ? 0 : signal;
        if (signal == SIGTRAP && take_entry(stubs, n))
            return -1;
    }
}

/* The JVM's list, StubCodeDesc: next, group, name, begin. */
static int stubs_take_all(void)
{
    uint64_t node = word_at(steps.process->stub_list);
    for (int taken = 0; node && taken < STUBS_MAX; taken += AT_ONCE) {
        struct watched stubs[AT_ONCE];
        size_t n = 0;
        for (; node && n < AT_ONCE; node = word_at(node))
            if (hotspot_holds(steps.process, word_at(node + 24)))
                stubs[n++] = (struct watched){word_at(node + 24), ENTRIES};
        if (stubs_take(stubs, n))
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int error, status;
    if (argc != 2)
        return 2;
    steps.pid = atoi(argv[1]);
    steps.tid = main_thread(steps.pid);
    steps.rig = hotspot_rig_open((uint32_t)steps.pid, &error);
    if (!steps.rig)
        return error == -EAGAIN ? 2 : 1;
    steps.process = hotspot_rig_process(steps.rig);
    if (ptrace(PTRACE_SEIZE, steps.tid, NULL, NULL) ||
        ptrace(PTRACE_INTERRUPT, steps.tid, NULL, NULL) || waitpid(steps.tid, &status, __WALL) < 0)
        return 1;
    error = stubs_take_all();
    for (size_t i = 0; i < PLACES_MAX; i++)
        if (steps.places[i].pc)
            place_print(&steps.places[i]);
    hotspot_rig_close(steps.rig);
    return error ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of known stacks (unwind_host.c), traced, and unwound with the rows of their files. */
#include "agent-bpf/unwind/eh_frame.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/symbols/symbols.h"
#include "agent-bpf/unwind/unwind.h"
#include "test/support/fixtures/skip.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MODULES_MAX 16
#define PAGES_MAX   256
#define BELOW_SP    4096

struct module {
    uint64_t start, end, to_elf; /* of the executable mapping; added to an address */
    struct eh_frame *frame;      /* or NULL */
    struct symbols *symbols;
    struct unwind_page pages[PAGES_MAX];
    unsigned n_pages;
};

static struct {
    pid_t pid;
    int memory_fd;
    uint64_t stack_start;
    unsigned n_modules;
    struct module modules[MODULES_MAX];
    uint8_t stack[1 << 20];
} process;

static struct unwind_frames frames;

/* ---- the traced process ---- */

static void add_module(const struct proc_map *map, const char *path)
{
    struct module *module = &process.modules[process.n_modules++];
    struct elf elf;
    uint64_t vaddr;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && process.n_modules <= MODULES_MAX);
    assert_int_equal(elf_open(fd, &elf), 0);
    assert_true(elf_address_of_offset(&elf, map->offset, &vaddr));
    *module = (struct module){.start = map->start, .end = map->end, .to_elf = vaddr - map->start};
    int error = eh_frame_open(&elf, &module->frame);
    assert_true(error == 0 || error == ELF_MISSING);
    assert_int_equal(symbols_open(&elf, NULL, &module->symbols), 0);
    close(fd);
}

static void read_maps(void)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct proc_map map;
    assert_int_equal(proc_maps_read((uint32_t)process.pid, &text), 0);
    struct bytes rest = buf_bytes(&text);
    while (proc_maps_next(&rest, &map)) {
        char path[4096];
        snprintf(path, sizeof(path), "%.*s", (int)map.path.len, (const char *)map.path.data);
        if (!strcmp(path, "[stack]"))
            process.stack_start = map.start;
        if (map.executable && map.inode)
            add_module(&map, path);
    }
}

static void process_end(void)
{
    for (unsigned i = 0; i < process.n_modules; i++) {
        struct module *module = &process.modules[i];
        for (unsigned j = 0; j < module->n_pages; j++)
            unwind_page_close(&module->pages[j]);
        eh_frame_close(module->frame);
        symbols_close(module->symbols);
    }
    process.n_modules = 0;
    close(process.memory_fd);
    kill(process.pid, SIGKILL);
    waitpid(process.pid, NULL, 0);
}

/* Up to the next breakpoint; other signals are the program's own. */
static void run_to_breakpoint(void)
{
    int status, signal = 0;
    do {
        assert_int_equal(ptrace(PTRACE_CONT, process.pid, NULL, signal), 0);
        assert_int_equal(waitpid(process.pid, &status, 0), process.pid);
        assert_true(WIFSTOPPED(status));
        signal = WSTOPSIG(status);
    } while (signal != SIGTRAP);
}

/* False: there is no such program. */
static bool start(const char *variant, const char *scenario)
{
    char path[4096], memory[64];
    int status;
    snprintf(path, sizeof(path), UNWIND_HOSTS "/%s", variant);
    if (access(path, X_OK))
        return false;
    process.pid = fork();
    if (!process.pid) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        execl(path, path, scenario, (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(process.pid, &status, 0), process.pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip_because("tracing is forbidden");
    assert_true(WIFSTOPPED(status));
    run_to_breakpoint();
    snprintf(memory, sizeof(memory), "/proc/%d/mem", process.pid);
    process.memory_fd = open(memory, O_RDONLY | O_CLOEXEC);
    assert_true(process.memory_fd >= 0);
    read_maps();
    return true;
}

/* ---- unwinding it ---- */

static struct module *module_at(uint64_t address)
{
    for (unsigned i = 0; i < process.n_modules; i++)
        if (address >= process.modules[i].start && address < process.modules[i].end)
            return &process.modules[i];
    return NULL;
}

static bool find(void *context, uint64_t address, struct unwind_rule *rule)
{
    (void)context;
    struct module *module = module_at(address);
    unsigned i = 0;
    if (!module)
        return false;
    *rule = (struct unwind_rule){.cfa = UNWIND_NO_INFO};
    if (!module->frame)
        return true;
    uint64_t vaddr = address + module->to_elf;
    while (i < module->n_pages && vaddr - module->pages[i].start >= UNWIND_PAGE_BYTES)
        i++;
    if (i == module->n_pages) {
        assert_true(i < PAGES_MAX);
        assert_int_equal(eh_frame_page(module->frame, vaddr, &module->pages[i]), 0);
        assert_int_equal(module->pages[i].damaged, 0);
        module->n_pages++;
    }
    *rule = *unwind_page_find(&module->pages[i], vaddr);
    return true;
}

static void unwind_now(bool whole_stack) /* or only what lies in front of the leaf */
{
    struct user_regs_struct r;
    assert_int_equal(ptrace(PTRACE_GETREGS, process.pid, NULL, &r), 0);
    uint64_t from = whole_stack ? process.stack_start : (r.rsp & ~(uint64_t)7) - BELOW_SP;
    ssize_t n = pread(process.memory_fd, process.stack, sizeof(process.stack), (off_t)from);
    assert_true(n > 0);
    struct unwind_input input = {
        .elf_machine = EM_X86_64,
        .registers = {.pc = r.rip,
                      .of = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9,
                             r.r10, r.r11, r.r12, r.r13, r.r14, r.r15},
                      .known = 0xffff},
        .stack_start = from,
        .stack = BYTES(process.stack, (size_t)n),
        .find = find,
    };
    unwind(&input, &frames);
}

static const char *name_of(const struct unwind_frame *frame)
{
    static char name[SYMBOLS_NAME_MAX];
    uint64_t address = frame->pc - frame->is_return;
    const struct module *module = module_at(address);
    if (!module || symbols_find(module->symbols, address + module->to_elf, name))
        return "?";
    return name;
}

static void print_frames(void)
{
    for (uint32_t i = 0; i < frames.n && i < 40; i++)
        print_message("  %" PRIx64 " %s\n", frames.frames[i].pc, name_of(&frames.frames[i]));
    print_message("  %u frames, end %u\n", frames.n, frames.end);
}

/* expected: names of the frames, leaf first; "?" is any one, "*" any number of them; the rest
 * are "main" and what calls it. */
static bool frames_are(const char *const *expected, bool to_the_end)
{
    uint32_t at = 0;
    for (; *expected; expected++) {
        bool any_number = !strcmp(*expected, "*");
        if (any_number)
            expected++;
        while (any_number && at < frames.n && strcmp(name_of(&frames.frames[at]), *expected) != 0)
            at++;
        if (at == frames.n ||
            (strcmp(*expected, "?") != 0 && strcmp(name_of(&frames.frames[at]), *expected) != 0))
            return false;
        at++;
    }
    if (at == frames.n || strcmp(name_of(&frames.frames[at]), "main") != 0)
        return false;
    return !to_the_end || (frames.end == UNWIND_END_OF_STACK &&
                           !strcmp(name_of(&frames.frames[frames.n - 1]), "_start"));
}

static bool is_musl(const char *variant)
{
    return !strncmp(variant, "musl", 4);
}

static const char *const variants[] = {
    "O0",       "O2",          "O3",          "clang_O2",         "static",
    "no_table", "musl_static", "debug_frame", "debug_frame_zlib", "debug_frame_zstd"};

#define FOR_EACH_VARIANT(variant)                                                                  \
    const char *variant;                                                                           \
    for (size_t v = 0; v < sizeof(variants) / sizeof(*variants) && (variant = variants[v]); v++)

static void expect(const char *variant, const char *scenario, const char *const *expected)
{
    if (!start(variant, scenario))
        return;
    unwind_now(true);
    /* musl has no unwind information of its own */
    bool good = frames_are(expected, !is_musl(variant));
    if (!good) {
        print_message("%s %s:\n", variant, scenario);
        print_frames();
    }
    process_end();
    assert_true(good);
}

static void recursion(void **state)
{
    (void)state;
    const char *expected[303] = {"stop_here", [301] = "recursion"};
    for (int i = 1; i <= 300; i++)
        expected[i] = "descend";
    FOR_EACH_VARIANT(variant)
    expect(variant, "recursion", expected);
}

static void deeper_than_the_limit(void **state)
{
    (void)state;
    assert_true(start("O2", "too_deep"));
    unwind_now(true);
    process_end();
    assert_int_equal(frames.n, UNWIND_FRAMES_MAX);
    assert_int_equal(frames.end, UNWIND_END_TRUNCATED);
}

static void moving_stack(void **state)
{
    (void)state;
    static const char *const expected[] = {"stop_here", "with_alloca", "with_aligned",
                                           "moving_stack", NULL};
    FOR_EACH_VARIANT(variant)
    expect(variant, "moving_stack", expected);
}

static void signals(void **state)
{
    (void)state;
    static const char *const same_stack[] = {"stop_here",   "on_signal",  "?",
                                             "interrupted", "in_handler", NULL};
    static const char *const other_stack[] = {
        "stop_here", "on_signal", "?", "interrupted", "in_handler_on_other_stack", NULL};
    FOR_EACH_VARIANT(variant)
    {
        if (is_musl(variant))
            continue;
        expect(variant, "in_handler", same_stack);
        expect(variant, "in_handler_on_other_stack", other_stack);
    }
}

static void tail_call(void **state)
{
    (void)state;
    static const char *const jumped[] = {"stop_here", "tail_called", "tail_call", NULL};
    static const char *const called[] = {"stop_here", "tail_called", "tail_caller", "tail_call",
                                         NULL};
    FOR_EACH_VARIANT(variant)
    expect(variant, "tail_call", !strcmp(variant, "O0") ? called : jumped);
}

static void through_library(void **state)
{
    (void)state;
    static const char *const expected[] = {"stop_here", "compare", "*", "through_library", NULL};
    FOR_EACH_VARIANT(variant)
    {
        if (!is_musl(variant))
            expect(variant, "through_library", expected);
    }
}

static void by_frame_pointer(void **state)
{
    (void)state;
    static const char *const expected[] = {"stop_here", "without_unwind_info", "through_no_info",
                                           NULL};
    FOR_EACH_VARIANT(variant)
    expect(variant, "through_no_info", expected);
}

/* The caller's frames stay the same while everything that it calls is stepped through. */
static unsigned step_through(const char *variant)
{
    static struct unwind_frames before;
    unsigned steps = 0;
    if (!start(variant, "every_instruction"))
        return 0;
    unwind_now(false);
    before = frames;
    assert_string_equal(name_of(&frames.frames[0]), "every_instruction");
    for (;; steps++) {
        int status;
        siginfo_t info;
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, process.pid, NULL, 0), 0);
        assert_int_equal(waitpid(process.pid, &status, 0), process.pid);
        assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
        assert_int_equal(ptrace(PTRACE_GETSIGINFO, process.pid, NULL, &info), 0);
        if (info.si_code == SI_KERNEL)
            break; /* the other breakpoint */
        unwind_now(false);
        bool good = frames.end == UNWIND_END_OF_STACK && frames.n >= before.n;
        for (uint32_t i = 1; i < before.n && good; i++)
            good = frames.frames[frames.n - i].pc == before.frames[before.n - i].pc;
        if (!good || strcmp(name_of(&frames.frames[frames.n - before.n]), "every_instruction")) {
            print_message("%s, step %u:\n", variant, steps);
            print_frames();
            fail();
        }
    }
    process_end();
    return steps;
}

static void every_instruction(void **state)
{
    (void)state;
    unsigned steps = 0;
    FOR_EACH_VARIANT(variant)
    {
        if (!is_musl(variant))
            steps += step_through(variant);
    }
    print_message("%u instructions\n", steps);
    assert_true(steps > 3000);
}

/* ---- made up ---- */

#define STACK UINT64_C(0x7fff00001000)
#define CODE  UINT64_C(0x400000) /* one rule for all of it */

struct made_up {
    struct unwind_rule rule;
    uint64_t stack[16];
    struct unwind_input input;
};

static bool find_made_up(void *context, uint64_t address, struct unwind_rule *rule)
{
    const struct made_up *made_up = context;
    *rule = made_up->rule;
    return address >= CODE && address < CODE + 0x1000;
}

/* Frames of two words, CFA = sp + 16, return address at CFA - 8. */
static void make_up(struct made_up *made_up)
{
    *made_up = (struct made_up){
        .rule = {.cfa = UNWIND_REGISTER,
                 .base = 7,
                 .cfa_offset = 16,
                 .offsets = {-1, 6, 3},
                 .places = UNWIND_IN_REGISTER << 2 | UNWIND_IN_REGISTER << 4},
        .stack = {0, CODE + 1, 0, CODE + 2, 0, 0},
        .input = {.elf_machine = EM_X86_64,
                  .stack_start = STACK,
                  .find = find_made_up,
                  .registers = {.pc = CODE, .of = {[6] = STACK, [7] = STACK}, .known = 0xc0}},
    };
    made_up->input.stack = BYTES(made_up->stack, sizeof(made_up->stack));
    made_up->input.context = made_up;
}

static void assert_ends(const struct made_up *made_up, uint32_t n, enum unwind_end end)
{
    unwind(&made_up->input, &frames);
    assert_int_equal(frames.n, n);
    assert_int_equal(frames.end, end);
}

static void ends(void **state)
{
    (void)state;
    struct made_up m;
    make_up(&m);
    assert_ends(&m, 3, UNWIND_END_OF_STACK);
    assert_int_equal(frames.frames[0].pc, CODE);
    assert_false(frames.frames[0].is_return);
    assert_int_equal(frames.frames[2].pc, CODE + 2);
    assert_true(frames.frames[2].is_return);
    m.stack[3] = CODE; /* a call that nothing follows belongs to what lies in front of it */
    assert_ends(&m, 2, UNWIND_END_BAD_ADDRESS);
    m.stack[3] = 0x1234;
    assert_ends(&m, 2, UNWIND_END_BAD_ADDRESS);
    m.input.registers.pc = 0x1234;
    assert_ends(&m, 1, UNWIND_END_BAD_ADDRESS);
    make_up(&m);
    m.input.stack.len = 31; /* a byte less than the second return address needs */
    assert_ends(&m, 2, UNWIND_END_NO_MEMORY);
    m.input.stack.len = 32;
    assert_ends(&m, 3, UNWIND_END_NO_MEMORY);
    make_up(&m);
    m.input.registers.of[7] = STACK - 8;
    assert_ends(&m, 1, UNWIND_END_OF_STACK);
    m.input.registers.of[7] = UINT64_MAX - 7;
    assert_ends(&m, 1, UNWIND_END_NO_PROGRESS);
    m.input.registers.of[7] = STACK - 4096;
    assert_ends(&m, 1, UNWIND_END_NO_MEMORY);
    make_up(&m);
    m.rule.offsets[UNWIND_RA] = UNWIND_LOST;
    m.rule.places |= UNWIND_IN_REGISTER;
    assert_ends(&m, 1, UNWIND_END_OF_STACK);
    make_up(&m);
    m.rule.base = 0; /* not known */
    assert_ends(&m, 1, UNWIND_END_UNKNOWN);
    m.rule.base = 255;
    assert_ends(&m, 1, UNWIND_END_UNKNOWN);
    m.rule.cfa = UNWIND_UNKNOWN;
    assert_ends(&m, 1, UNWIND_END_UNKNOWN);
}

/* The index is only known in the frame that was interrupted. */
static void indexed(void **state)
{
    (void)state;
    struct made_up m;
    make_up(&m);
    m.rule.cfa = UNWIND_INDEXED;
    m.rule.cfa_offset = 8;
    m.rule.cfa_add = UNWIND_INDEXED_BY(9, 8);
    m.input.registers.of[9] = 1;
    m.input.registers.known |= 1 << 9;
    m.stack[2] = STACK + 24;
    assert_ends(&m, 2, UNWIND_END_UNKNOWN);
    assert_int_equal(frames.frames[1].pc, CODE + 2);
    m.input.registers.of[9] = UINT64_MAX / 16;
    assert_ends(&m, 1, UNWIND_END_NO_MEMORY);
    m.input.registers.known &= ~(1u << 9);
    assert_ends(&m, 1, UNWIND_END_UNKNOWN);
}

static void never_in_circles(void **state)
{
    (void)state;
    struct made_up m;
    make_up(&m);
    m.rule.cfa_offset = 0; /* the stack is not climbed */
    m.rule.offsets[UNWIND_RA] = 1;
    assert_ends(&m, 2, UNWIND_END_NO_PROGRESS); /* a leaf may do so, once */
    m.rule.cfa = UNWIND_DEREF;                  /* a word that points to itself */
    m.stack[0] = STACK;
    assert_ends(&m, 2, UNWIND_END_NO_PROGRESS);
    m.rule.flags = UNWIND_SIGNAL_FRAME; /* may come from any other stack, but not without end */
    assert_ends(&m, UNWIND_FRAMES_MAX, UNWIND_END_TRUNCATED);
    make_up(&m);
    m.rule.cfa = UNWIND_NO_INFO; /* by a frame pointer that points to itself */
    m.stack[0] = STACK;
    assert_ends(&m, 2, UNWIND_END_UNKNOWN);
    m.input.registers.of[6] = 0;
    assert_ends(&m, 1, UNWIND_END_OF_STACK);
    m.input.registers.of[6] = STACK + 4;
    assert_ends(&m, 1, UNWIND_END_UNKNOWN);
}

/* A leaf without a frame, and a signed return address. */
static void leaf_of_aarch64(void **state)
{
    (void)state;
    struct made_up m;
    make_up(&m);
    m.input.elf_machine = EM_AARCH64;
    m.rule = (struct unwind_rule){
        .cfa = UNWIND_REGISTER, .base = 31, .offsets = {30, 29, 19}, .places = 0x3f};
    m.input.registers.of[30] = CODE + 8 + (UINT64_C(0x2a) << 48);
    m.input.registers.of[31] = STACK;
    m.input.registers.known = UINT32_C(1) << 30 | UINT32_C(1) << 31;
    assert_ends(&m, 2, UNWIND_END_NO_PROGRESS); /* no caller can be like that too */
    assert_int_equal(frames.frames[1].pc, CODE + 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursion),
        cmocka_unit_test(deeper_than_the_limit),
        cmocka_unit_test(moving_stack),
        cmocka_unit_test(signals),
        cmocka_unit_test(tail_call),
        cmocka_unit_test(through_library),
        cmocka_unit_test(by_frame_pointer),
        cmocka_unit_test(every_instruction),
        cmocka_unit_test(ends),
        cmocka_unit_test(indexed),
        cmocka_unit_test(never_in_circles),
        cmocka_unit_test(leaf_of_aarch64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

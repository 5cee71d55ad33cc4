/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/hotspot_rig.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "agent-bpf/unwind/eh_frame.h"
#include "base/buf.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct hotspot_rig;

static int rig_read(struct hotspot_rig *rig, void *out, size_t size, uint64_t address);

static struct hotspot_rig *rig_now; /* whose process a step reads */

#define HOTSPOT_READ(walk, out, size, address) ((void)(walk), rig_read(rig_now, out, size, address))

#include "agent-bpf/runtimes/hotspot/hotspot_step.h"

#define FILES_MAX     128
#define PAGES_MAX     512
#define STACK_BYTES   (8u << 20)
#define REQUEST_BYTES (1u << 20)
#define CACHE_BYTES   (16u << 20)

struct rig_file { /* mapped code */
    uint64_t start, end;
    uint64_t bias; /* address minus ELF address */
    int fd;
    struct elf elf;
    struct eh_frame *rows; /* NULL: it has none */
    uint64_t inode;
};

struct hotspot_rig {
    uint32_t pid;
    struct hotspot_process process;
    size_t n_files;
    struct rig_file files[FILES_MAX];
    struct {
        const struct eh_frame *rows;
        struct unwind_page page;
    } pages[PAGES_MAX];
    size_t n_pages;
    uint8_t *stack;
    struct runtime_cache *cache;
    uint64_t requests, bytes;
    uint64_t request_bytes; /* since the memory was asked for */
    bool has_first;
    uint64_t first[8]; /* registers of the first frame of Java in the last stack */
    void (*take)(void *context, uint64_t address, const void *data, size_t size);
    void *context;
};

/* ---- memory ---- */

static int rig_read(struct hotspot_rig *rig, void *out, size_t size, uint64_t address)
{
    struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
    bool all = process_vm_readv((pid_t)rig->pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
    if (all && rig->take)
        rig->take(rig->context, address, out, size);
    return all ? 0 : -EFAULT;
}

static int rig_read_ranges(void *context, struct reader_range *ranges, size_t n)
{
    struct hotspot_rig *rig = context;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += ranges[i].size;
        ranges[i].error = rig_read(rig, ranges[i].out, ranges[i].size, ranges[i].address);
    }
    assert(n <= READER_RANGES_MAX && bytes <= READER_BYTES_MAX);
    rig->request_bytes += bytes;
    if (rig->request_bytes > REQUEST_BYTES)
        return -E2BIG;
    rig->requests++;
    rig->bytes += bytes;
    return 0;
}

struct runtime_memory hotspot_rig_memory(struct hotspot_rig *rig)
{
    rig->request_bytes = 0;
    return (struct runtime_memory){.read = rig_read_ranges, .context = rig, .program = 1};
}

/* ---- native code ---- */

static void rig_open_file(struct hotspot_rig *rig, const struct proc_map *map)
{
    struct rig_file *file = &rig->files[rig->n_files];
    char path[64];
    uint64_t vaddr;
    snprintf(path, sizeof(path), "/proc/%u/map_files/%lx-%lx", rig->pid, (long)map->start,
             (long)map->end);
    *file = (struct rig_file){.start = map->start, .end = map->end, .inode = map->inode};
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0)
        return;
    if (elf_open(file->fd, &file->elf) || !elf_address_of_offset(&file->elf, map->offset, &vaddr)) {
        close(file->fd);
        return;
    }
    file->bias = map->start - vaddr;
    if (eh_frame_open(&file->elf, &file->rows))
        file->rows = NULL;
    rig->n_files++;
}

static void rig_open_files(struct hotspot_rig *rig)
{
    struct buf maps = BUF_INIT(0);
    struct proc_map map;
    proc_maps_read(rig->pid, &maps);
    struct bytes rest = buf_bytes(&maps);
    while (proc_maps_next(&rest, &map) && rig->n_files < FILES_MAX)
        if (map.executable && map.inode)
            rig_open_file(rig, &map);
    buf_close(&maps);
}

static void rig_close_files(struct hotspot_rig *rig)
{
    for (size_t i = 0; i < rig->n_pages; i++)
        unwind_page_close(&rig->pages[i].page);
    for (size_t i = 0; i < rig->n_files; i++) {
        eh_frame_close(rig->files[i].rows);
        close(rig->files[i].fd);
    }
    rig->n_files = rig->n_pages = 0;
}

static const struct unwind_page *rig_page(struct hotspot_rig *rig, struct eh_frame *rows,
                                          uint64_t address)
{
    for (size_t i = 0; i < rig->n_pages; i++)
        if (rig->pages[i].rows == rows && address - rig->pages[i].page.start < UNWIND_PAGE_BYTES)
            return &rig->pages[i].page;
    assert(rig->n_pages < PAGES_MAX);
    if (eh_frame_page(rows, address, &rig->pages[rig->n_pages].page))
        return NULL;
    rig->pages[rig->n_pages].rows = rows;
    return &rig->pages[rig->n_pages++].page;
}

static const struct rig_file *rig_file_of(const struct hotspot_rig *rig, uint64_t address)
{
    for (size_t i = 0; i < rig->n_files; i++)
        if (address >= rig->files[i].start && address < rig->files[i].end)
            return &rig->files[i];
    return NULL;
}

static bool rig_find_rule(void *context, uint64_t address, struct unwind_rule *rule)
{
    struct hotspot_rig *rig = context;
    const struct rig_file *file = rig_file_of(rig, address);
    *rule = (struct unwind_rule){0};
    if (!file)
        return false;
    const struct unwind_page *page =
        file->rows ? rig_page(rig, file->rows, address - file->bias) : NULL;
    if (page)
        *rule = *unwind_page_find(page, address - file->bias);
    return true;
}

/* ---- walking ---- */

static void stack_add(struct hotspot_rig_stack *stack, enum hotspot_rig_kind kind,
                      const __u64 *words, size_t n)
{
    if (stack->n == HOTSPOT_RIG_FRAMES)
        return;
    struct hotspot_rig_frame *frame = &stack->frames[stack->n++];
    *frame = (struct hotspot_rig_frame){.kind = kind};
    memcpy(frame->frame.words, words, n * sizeof(*words));
}

/* Native frames up to the first of Java; false: it ends there. */
static bool walk_native(struct hotspot_rig *rig, struct unwind_input *input,
                        struct hotspot_rig_stack *stack)
{
    static struct unwind_frames frames;
    input->stack_start = input->registers.of[7] - 128;
    struct iovec local = {rig->stack, STACK_BYTES},
                 remote = {(void *)(uintptr_t)input->stack_start, STACK_BYTES};
    ssize_t size = process_vm_readv((pid_t)rig->pid, &local, 1, &remote, 1, 0);
    input->stack = BYTES(rig->stack, size > 0 ? (size_t)size : 0);
    unwind(input, &frames);
    for (uint32_t i = 0; i < frames.n; i++)
        stack_add(stack, HOTSPOT_RIG_NATIVE, (const __u64 *)&frames.frames[i].pc, 1);
    input->registers = frames.registers;
    input->is_return = true;
    stack->end = (int)frames.end;
    return frames.end == UNWIND_END_BAD_ADDRESS &&
           hotspot_holds(&rig->process, frames.registers.pc);
}

static void walk_add_java(const struct hotspot_walk *walk, struct hotspot_rig_stack *stack)
{
    for (unsigned i = 0; i < walk->n_words;) {
        unsigned kind = (unsigned)(walk->words[i] >> RECORD_FRAME_SHIFT);
        unsigned n = kind == FRAME_JVM_COMPILED ? 3 : kind == FRAME_JVM_GAP ? 1 : 2;
        stack_add(stack,
                  kind == FRAME_JVM_COMPILED      ? HOTSPOT_RIG_COMPILED
                  : kind == FRAME_JVM_INTERPRETED ? HOTSPOT_RIG_INTERPRETED
                  : kind == FRAME_JVM_GAP         ? HOTSPOT_RIG_FROZEN
                                                  : HOTSPOT_RIG_STUB,
                  &walk->words[i], n);
        i += n;
    }
}

static bool walk_java(struct hotspot_rig *rig, struct unwind_input *input,
                      struct hotspot_rig_stack *stack)
{
    static struct hotspot_walk walk;
    const uint64_t *of = input->registers.of;
    walk.pc = input->registers.pc;
    walk.sp = of[7];
    walk.fp = of[6];
    walk.rax = of[0];
    walk.rbx = of[3];
    walk.r13 = of[13];
    walk.is_leaf = !input->is_return;
    walk.has_registers = walk.is_leaf;
    if (!rig->has_first) {
        const uint64_t first[8] = {walk.pc,  walk.sp,  walk.fp,      walk.rax,
                                   walk.rbx, walk.r13, walk.is_leaf, 0};
        memcpy(rig->first, first, sizeof(first));
        rig->has_first = true;
    }
    hotspot_begin(&walk);
    rig_now = rig;
    int end = HOTSPOT_UNWINDS;
    while (end == HOTSPOT_UNWINDS && hotspot_holds(&rig->process, walk.pc) &&
           stack->n < HOTSPOT_RIG_FRAMES) {
        end = hotspot_walk_step(&walk, &rig->process);
        walk_add_java(&walk, stack);
    }
    input->registers.pc = walk.pc;
    input->registers.of[7] = walk.sp;
    input->registers.of[6] = walk.fp;
    input->registers.known = 1u << 7 | 1u << 6;
    input->is_return = true;
    stack->end = end;
    return end == HOTSPOT_UNWINDS && stack->n < HOTSPOT_RIG_FRAMES;
}

static void rig_walk_registers(struct hotspot_rig *rig, const struct user_regs_struct *regs,
                               struct hotspot_rig_stack *stack)
{
    const uint64_t of[] = {regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi, regs->rdi,
                           regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
                           regs->r12, regs->r13, regs->r14, regs->r15};
    struct unwind_input input = {
        .elf_machine = EM_X86_64,
        .registers = {.pc = regs->rip, .known = 0xffff},
        .find = rig_find_rule,
        .context = rig,
    };
    memcpy(input.registers.of, of, sizeof(of));
    stack->n = 0;
    rig->has_first = false;
    for (bool more = true; more;)
        more = hotspot_holds(&rig->process, input.registers.pc) ? walk_java(rig, &input, stack)
                                                                : walk_native(rig, &input, stack);
}

static bool thread_stop(uint32_t tid, struct user_regs_struct *regs)
{
    int status;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
        return false;
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) || waitpid((pid_t)tid, &status, __WALL) < 0)
        return false;
    return WIFSTOPPED(status) && !ptrace(PTRACE_GETREGS, tid, NULL, regs);
}

bool hotspot_rig_walk_named(struct hotspot_rig *rig, uint32_t tid, struct hotspot_rig_stack *stack,
                            struct runtime_names *names, int *error)
{
    static struct record_frame frames[HOTSPOT_RIG_FRAMES];
    struct user_regs_struct regs;
    bool stopped = thread_stop(tid, &regs);
    if (stopped)
        rig_walk_registers(rig, &regs, stack);
    if (stopped && names) {
        struct runtime_memory memory = hotspot_rig_memory(rig);
        size_t n = hotspot_rig_java(stack, frames);
        names->names = arena_zalloc(names->arena, n * sizeof(*names->names));
        *error = hotspot_names(&rig->process, rig->cache, &memory, frames,
                               n < HOTSPOT_FRAMES_MAX ? n : HOTSPOT_FRAMES_MAX, names);
    }
    ptrace(PTRACE_DETACH, tid, NULL, NULL);
    return stopped;
}

bool hotspot_rig_walk(struct hotspot_rig *rig, uint32_t tid, struct hotspot_rig_stack *stack)
{
    return hotspot_rig_walk_named(rig, tid, stack, NULL, NULL);
}

size_t hotspot_rig_java(const struct hotspot_rig_stack *stack, struct record_frame *frames)
{
    size_t n = 0;
    for (uint32_t i = 0; i < stack->n; i++)
        if (stack->frames[i].kind != HOTSPOT_RIG_NATIVE)
            frames[n++] = stack->frames[i].frame;
    return n;
}

/* ---- opening ---- */

static int rig_attach(struct hotspot_rig *rig)
{
    int error = -ENOENT;
    rig_open_files(rig);
    for (size_t i = 0; i < rig->n_files && error == -ENOENT; i++) {
        struct hotspot_constants constants;
        enum runtime_refusal why;
        error = hotspot_open(&rig->files[i].elf, &constants);
        struct runtime_memory memory = hotspot_rig_memory(rig);
        if (!error)
            error = hotspot_attach(&constants, rig->files[i].bias, &memory, &rig->process, &why);
    }
    if (error)
        rig_close_files(rig);
    return error;
}

struct hotspot_rig *hotspot_rig_open(uint32_t pid, int *error)
{
    struct hotspot_rig *rig = calloc(1, sizeof(*rig));
    rig->pid = pid;
    rig->stack = malloc(STACK_BYTES);
    *error = getenv("HOTSPOT_UNCACHED") ? 0 : runtime_cache_open(CACHE_BYTES, &rig->cache);
    if (!*error)
        *error = rig_attach(rig);
    if (!*error)
        return rig;
    hotspot_rig_close(rig);
    return NULL;
}

void hotspot_rig_close(struct hotspot_rig *rig)
{
    rig_close_files(rig);
    runtime_cache_close(rig->cache);
    free(rig->stack);
    free(rig);
}

const struct hotspot_process *hotspot_rig_process(const struct hotspot_rig *rig)
{
    return &rig->process;
}

struct runtime_cache *hotspot_rig_cache(struct hotspot_rig *rig)
{
    return rig->cache;
}

const uint64_t *hotspot_rig_first(const struct hotspot_rig *rig)
{
    return rig->has_first ? rig->first : NULL;
}

void hotspot_rig_counts(const struct hotspot_rig *rig, uint64_t *requests, uint64_t *bytes)
{
    *requests = rig->requests;
    *bytes = rig->bytes;
}

void hotspot_rig_record(struct hotspot_rig *rig,
                        void (*take)(void *context, uint64_t address, const void *data,
                                     size_t size),
                        void *context)
{
    rig->take = take;
    rig->context = context;
}

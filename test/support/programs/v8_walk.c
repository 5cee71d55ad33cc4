/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks and names the stack of a thread of a program with V8, stopped by ptrace, with the step that
 * the sampler's BPF program has: v8_walk TID SAMPLES [PERIOD-US [LATER-US]]. For each sample a line
 * "end WHY" follows its frames, each call a line: kind, outcome, function, file, line, column,
 * start line, separated by tabs. V8_WALK_IMAGE in the environment names a file that gets the memory
 * that was read; V8_WALK_UNCACHED: nothing is kept from one sample to the next. A first line has
 * the milliseconds that reading the file took.
 */
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/runtimes/runtime_cache.h"
#include "agent-bpf/runtimes/v8/v8_attach.h"
#include "agent-bpf/runtimes/v8/v8_names.h"
#include "agent-bpf/unwind/eh_frame.h"
#include "base/clock.h"
#include "test/support/fixtures/v8_image.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES_MAX 512
#define FILES_MAX  64
#define FP         6
#define SP         7

struct walk;
static int v8_step_read(void *context, void *out, uint32_t size, uint64_t address);
static bool v8_step_is_code(void *context, const struct v8_process *process, uint64_t address);
#include "agent-bpf/runtimes/v8/v8_step.h"

struct code_file {
    uint64_t inode;
    int fd;
    struct elf elf;
    struct eh_frame *frame;
};

struct walk {
    int pid, tid;
    struct buf maps;
    struct code_file files[FILES_MAX];
    size_t n_files;
    struct v8_file file;
    struct v8_process process;
    struct runtime_memory memory;
    struct v8_step step;
    uint64_t registers[16];
    uint32_t known;
    uint64_t frames[FRAMES_MAX][3];
    size_t n;
    size_t requests, bytes;
    struct runtime_cache *cache;
    struct v8_image *image; /* NULL: none is recorded */
};

static int v8_step_read(void *context, void *out, uint32_t size, uint64_t address)
{
    const struct walk *walk = context;
    struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
    return process_vm_readv(walk->pid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

static bool find_map(const struct walk *walk, uint64_t address, struct proc_map *map)
{
    struct bytes rest = buf_bytes(&walk->maps);
    while (proc_maps_next(&rest, map))
        if (map->executable && address >= map->start && address < map->end)
            return true;
    return false;
}

static bool v8_step_is_code(void *context, const struct v8_process *process, uint64_t address)
{
    const struct walk *walk = context;
    struct proc_map map;
    __u64 offset;
    return v8_process_builtin(process, address, &offset) ||
           (find_map(walk, address, &map) && !map.inode);
}

/* What is read goes into the image. */
static void record(struct walk *walk, const struct reader_range *range)
{
    uint8_t bytes[V8_HEAP_LINE];
    uint64_t first = range->address - range->address % V8_HEAP_LINE;
    for (uint64_t at = first; at < range->address + range->size; at += V8_HEAP_LINE) {
        uint8_t *to =
            v8_step_read(walk, bytes, sizeof(bytes), at) ? NULL : v8_image_add(walk->image, at);
        if (to)
            memcpy(to, bytes, sizeof(bytes));
    }
}

static void write_image(const struct walk *walk, const uint64_t (*frames)[3], size_t n,
                        const char *path)
{
    struct v8_image_header header = {.version = walk->file.version,
                                     .n_frames = (uint32_t)n,
                                     .n_lines = (uint32_t)walk->image->n_lines};
    FILE *file = fopen(path, "we");
    memcpy(header.builtins, walk->process.builtins, sizeof(header.builtins));
    if (!file || fwrite(&header, sizeof(header), 1, file) != 1 ||
        fwrite(frames, sizeof(*frames), n, file) != n ||
        fwrite(walk->image->lines, sizeof(*walk->image->lines), walk->image->n_lines, file) !=
            walk->image->n_lines ||
        fclose(file))
        exit(5);
}

static int memory_read(void *context, struct reader_range *ranges, size_t n)
{
    struct walk *walk = context;
    walk->requests++;
    for (size_t i = 0; i < n; i++) {
        if (walk->image)
            record(walk, &ranges[i]);
        ranges[i].error = v8_step_read(walk, ranges[i].out, ranges[i].size, ranges[i].address);
        walk->bytes += ranges[i].size;
        walk->memory.bytes_left -= ranges[i].size;
    }
    return 0;
}

static struct code_file *open_file(struct walk *walk, const struct proc_map *map)
{
    char path[4096];
    for (size_t i = 0; i < walk->n_files; i++)
        if (walk->files[i].inode == map->inode)
            return &walk->files[i];
    if (walk->n_files == FILES_MAX)
        return NULL;
    struct code_file *file = &walk->files[walk->n_files];
    snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, walk->pid, map->start,
             map->end);
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 || elf_open(file->fd, &file->elf))
        return NULL;
    if (eh_frame_open(&file->elf, &file->frame))
        file->frame = NULL;
    file->inode = map->inode;
    walk->n_files++;
    return file;
}

static bool find_rule(struct walk *walk, uint64_t address, struct unwind_rule *rule)
{
    struct proc_map map;
    struct unwind_page page;
    uint64_t vaddr;
    *rule = (struct unwind_rule){.cfa = UNWIND_NO_INFO};
    if (!find_map(walk, address, &map))
        return false;
    struct code_file *file = map.inode ? open_file(walk, &map) : NULL;
    if (!file || !file->frame ||
        !elf_address_of_offset(&file->elf, address - map.start + map.offset, &vaddr) ||
        eh_frame_page(file->frame, vaddr, &page))
        return true;
    *rule = *unwind_page_find(&page, vaddr);
    unwind_page_close(&page);
    return true;
}

static bool get_register(const struct walk *walk, unsigned number, uint64_t *value)
{
    if (number >= 16 || !(walk->known >> number & 1))
        return false;
    *value = walk->registers[number];
    return true;
}

static bool get_slot(struct walk *walk, const struct unwind_rule *rule, unsigned slot, uint64_t cfa,
                     uint64_t *value)
{
    unsigned place = UNWIND_PLACE(rule, slot);
    uint64_t from = cfa;
    if (place == UNWIND_IN_REGISTER)
        return get_register(walk, (uint16_t)rule->offsets[slot], value);
    if (place != UNWIND_AT_CFA && !get_register(walk, place == UNWIND_AT_SP ? SP : FP, &from))
        return false;
    return !v8_step_read(walk, value, 8, from + (uint64_t)((int64_t)rule->offsets[slot] * 8));
}

/* NULL: it goes on; else why not. */
static const char *native_step(struct walk *walk)
{
    struct unwind_rule rule;
    struct v8_step *step = &walk->step;
    uint64_t base, cfa, pc, fp, third, index = 0;
    if (!find_rule(walk, step->pc - !step->is_leaf, &rule))
        return "bad address";
    if (rule.cfa == UNWIND_NO_INFO) {
        if (!get_register(walk, FP, &fp) || !fp)
            return "end of stack";
        rule = (struct unwind_rule){.cfa = UNWIND_REGISTER,
                                    .base = FP,
                                    .cfa_offset = 16,
                                    .offsets = {-1, -2, 0},
                                    .places = UNWIND_IN_REGISTER << 2 * UNWIND_THIRD};
        rule.offsets[UNWIND_THIRD] = UNWIND_LOST;
    }
    if (UNWIND_PLACE(&rule, UNWIND_RA) == UNWIND_IN_REGISTER &&
        rule.offsets[UNWIND_RA] == UNWIND_LOST)
        return "end of stack";
    if (rule.cfa == UNWIND_UNKNOWN || !get_register(walk, rule.base, &base))
        return "unknown";
    cfa = base + (uint64_t)(int64_t)rule.cfa_offset;
    if (rule.cfa == UNWIND_INDEXED && !get_register(walk, UNWIND_INDEX(&rule), &index))
        return "unknown";
    if (rule.cfa == UNWIND_DEREF || rule.cfa == UNWIND_INDEXED) {
        if (v8_step_read(walk, &cfa, 8, cfa + index * 8))
            return "no memory";
        cfa += rule.cfa == UNWIND_DEREF ? (uint64_t)(int64_t)rule.cfa_add
                                        : (uint64_t)UNWIND_INDEXED_ADD(&rule);
    }
    if (rule.cfa == UNWIND_PLT && (int64_t)(step->pc & 15) >= rule.cfa_add)
        cfa += 8;
    if (!get_slot(walk, &rule, UNWIND_RA, cfa, &pc))
        return "no memory";
    bool has_fp = get_slot(walk, &rule, UNWIND_FP, cfa, &fp);
    bool has_third = get_slot(walk, &rule, UNWIND_THIRD, cfa, &third);
    walk->known = 1u << SP | (unsigned)has_fp << FP | (unsigned)has_third << 3;
    walk->registers[SP] = cfa;
    walk->registers[FP] = has_fp ? fp : 0;
    walk->registers[3] = has_third ? third : 0;
    step->pc = pc;
    step->is_leaf = !!(rule.flags & UNWIND_SIGNAL_FRAME);
    return pc ? NULL : "end of stack";
}

static const char *v8_frame(struct walk *walk)
{
    static const char *const outcomes[] = {NULL, "no memory", "no progress", "unknown"};
    struct v8_step *step = &walk->step;
    step->sp = walk->registers[SP];
    step->fp = walk->known >> FP & 1 ? walk->registers[FP] : 0;
    step->offset_register = walk->registers[9];
    step->bytecode_register = walk->registers[12];
    step->function_register = walk->registers[5];
    int outcome = v8_step(&walk->process, step, walk);
    if (step->n_words) {
        memcpy(walk->frames[walk->n], step->words, sizeof(step->words));
        if (step->n_words == 1)
            walk->frames[walk->n][1] = walk->frames[walk->n][2] = 0;
        walk->n++;
    }
    walk->registers[SP] = step->sp;
    walk->registers[FP] = step->fp;
    walk->known = 1u << SP | 1u << FP;
    return outcome ? outcomes[outcome] : step->pc ? NULL : "end of stack";
}

static const char *walk_stack(struct walk *walk)
{
    const char *end = NULL;
    walk->n = 0;
    while (!end && walk->n < FRAMES_MAX) {
        struct v8_step *step = &walk->step;
        if (v8_step_is_code(walk, &walk->process, step->pc - !step->is_leaf)) {
            end = v8_frame(walk);
            continue;
        }
        uint64_t *words = walk->frames[walk->n++];
        words[0] = step->pc | (uint64_t)FRAME_NATIVE << RECORD_FRAME_SHIFT;
        words[1] = words[2] = 0;
        end = native_step(walk);
    }
    return end ? end : "truncated";
}

static void take_registers(struct walk *walk)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, walk->tid, NULL, &regs))
        exit(3);
    const uint64_t of[] = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi,
                           regs.rbp, regs.rsp, regs.r8,  regs.r9,  regs.r10, regs.r11,
                           regs.r12, regs.r13, regs.r14, regs.r15};
    memcpy(walk->registers, of, sizeof(of));
    walk->known = 0xffff;
    walk->step.pc = regs.rip;
    walk->step.is_leaf = 1;
}

struct found {
    enum v8_names_outcome outcome;
    char *lines; /* to be printed */
};

static const char *const outcome_names[] = {"named", "stale", "unreadable", "unknown"};

static int take(void *context, size_t frame, enum v8_names_outcome outcome,
                const struct v8_name *names, size_t n)
{
    struct found *found = context;
    size_t size;
    FILE *out = open_memstream(&found[frame].lines, &size);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "\t%s\t%s\t%u\t%u\t%u%c", names[i].function, names[i].file, names[i].line,
                names[i].column, names[i].start_line, i + 1 < n ? '\n' : ' ');
    fclose(out);
    found[frame].outcome = outcome;
    return 0;
}

static struct runtime_cache_key key_of(enum v8_kept kind, const uint64_t key[3])
{
    return (struct runtime_cache_key){.words = {key[0], key[1], key[2]}, .kind = kind};
}

static bool kept_get(void *context, enum v8_kept kind, const uint64_t words[3], struct bytes *value)
{
    const struct walk *walk = context;
    const struct runtime_cache_key key = key_of(kind, words);
    return runtime_cache_get(walk->cache, &key, value);
}

static void kept_put(void *context, enum v8_kept kind, const uint64_t words[3], struct bytes value)
{
    const struct walk *walk = context;
    const struct runtime_cache_key key = key_of(kind, words);
    runtime_cache_put(walk->cache, 0, &key, value);
}

/* Names of the frames of V8; found: zeroed. */
static int find_names(struct walk *walk, struct found *found)
{
    static uint64_t wanted[FRAMES_MAX][3];
    size_t n = 0;
    for (size_t i = 0; i < walk->n; i++)
        if (walk->frames[i][0] >> RECORD_FRAME_SHIFT == FRAME_V8)
            memcpy(wanted[n++], walk->frames[i], sizeof(wanted[0]));
    walk->memory.bytes_left = 1u << 20;
    walk->requests = walk->bytes = 0;
    const struct v8_store store = {kept_get, kept_put, walk};
    const struct v8_names_request request = {.file = &walk->file,
                                             .process = &walk->process,
                                             .store = walk->cache ? &store : NULL,
                                             .memory = &walk->memory,
                                             .frames = (const uint64_t(*)[3])wanted,
                                             .n = n};
    int error = v8_names_find(&request, take, found);
    if (walk->image)
        write_image(walk, wanted, n, getenv("V8_WALK_IMAGE"));
    return error;
}

static void forget_names(struct found *found)
{
    for (size_t i = 0; i < FRAMES_MAX; i++)
        free(found[i].lines);
    memset(found, 0, FRAMES_MAX * sizeof(*found));
}

static void print_frames(struct walk *walk, const char *end, struct found *found)
{
    uint64_t start = clock_monotonic_ns();
    int error = find_names(walk, found);
    uint64_t took = clock_monotonic_ns() - start;
    for (size_t i = 0, v8 = 0; i < walk->n; i++) {
        const uint64_t *words = walk->frames[i];
        bool exact = words[0] & RECORD_FRAME_EXACT;
        if (words[0] >> RECORD_FRAME_SHIFT != FRAME_V8) {
            printf("native%s\t%" PRIx64 "\n", exact ? " leaf" : "", words[0] << 9 >> 9);
            continue;
        }
        printf("v8%s%s\t%s\t%" PRIx64 "\n", words[1] & V8_FRAME_INTERPRETED ? " interpreted" : "",
               exact ? " leaf" : "", outcome_names[found[v8].outcome], words[0] << 9 >> 9);
        if (found[v8].lines && *found[v8].lines)
            printf("%s\n", found[v8].lines);
        v8++;
    }
    printf("end\t%s\t%d\t%zu requests\t%zu bytes\t%.2f ms\n", end, error, walk->requests,
           walk->bytes, (double)took / 1e6);
}

/* The code of the frame is gone, and with it lines and what was inlined: its function is still
 * known. */
static bool is_poorer(const char *before, const char *after)
{
    const char *outer = strrchr(before, '\n');
    const char *name = outer ? outer + 1 : before, *end = name;
    unsigned line, column;
    int start;
    for (int tabs = 0; *end && tabs < 3; end++)
        tabs += *end == '\t';
    return !strncmp(name, after, (size_t)(end - name)) &&
           sscanf(after + (end - name), "%u\t%u\t%n", &line, &column, &start) == 2 && !line;
}

/* The names of the same words some time after: they must be the same, or none. */
static void print_later(struct walk *walk, const struct found *before)
{
    static struct found after[FRAMES_MAX];
    unsigned outcomes[4] = {0}, different = 0, poorer = 0;
    find_names(walk, after);
    for (size_t i = 0; i < FRAMES_MAX; i++) {
        if (!before[i].lines || before[i].outcome != V8_NAMED)
            continue;
        outcomes[after[i].outcome]++;
        if (after[i].outcome != V8_NAMED || !strcmp(before[i].lines, after[i].lines))
            continue;
        if (is_poorer(before[i].lines, after[i].lines) ||
            is_poorer(after[i].lines, before[i].lines)) {
            poorer++;
            continue;
        }
        different++;
        printf("different\t%s\n---\t%s\n", before[i].lines, after[i].lines);
    }
    printf("later\tnamed %u\tstale %u\tunreadable %u\tunknown %u\tpoorer %u\tdifferent %u\n",
           outcomes[0], outcomes[1], outcomes[2], outcomes[3], poorer, different);
    forget_names(after);
}

static int sample(struct walk *walk, useconds_t later_us)
{
    int status;
    if (ptrace(PTRACE_INTERRUPT, walk->tid, NULL, NULL) ||
        waitpid(walk->tid, &status, __WALL) != walk->tid || !WIFSTOPPED(status))
        return 4;
    proc_maps_read((uint32_t)walk->pid, &walk->maps);
    walk->memory.maps = buf_bytes(&walk->maps);
    take_registers(walk);
    const char *end = walk_stack(walk);
    bool leaf_shown = getenv("V8_WALK_CODE") != NULL;
    if (leaf_shown) {
        struct user_regs_struct regs;
        uint8_t code[64];
        ptrace(PTRACE_GETREGS, walk->tid, NULL, &regs);
        v8_step_read(walk, code, 64, regs.rip - 28);
        printf("code ");
        for (int i = 0; i < 64; i++)
            printf("%s%02x", i == 28 ? "|" : "", code[i]);
        uint64_t words[4] = {0};
        v8_step_read(walk, words, sizeof(words), regs.rsp);
        printf(" sp %llx fp %llx pc %llx at sp", regs.rsp, regs.rbp, regs.rip);
        for (int i = 0; i < 4; i++)
            printf(" %" PRIx64, words[i]);
        printf("\n");
    }
    static struct found found[FRAMES_MAX];
    print_frames(walk, end, found);
    int error = ptrace(PTRACE_CONT, walk->tid, NULL, NULL) ? 4 : 0;
    if (later_us && !error) {
        usleep(later_us);
        print_later(walk, found);
    }
    forget_names(found);
    fflush(stdout);
    return error;
}

static bool find_v8(struct walk *walk)
{
    struct bytes rest = buf_bytes(&walk->maps);
    struct proc_map map;
    while (proc_maps_next(&rest, &map)) {
        struct code_file *file = map.executable && map.inode ? open_file(walk, &map) : NULL;
        uint64_t start = clock_monotonic_ns(), vaddr;
        int error = file ? v8_file_read(&file->elf, &walk->file) : V8_FILE_NONE;
        if (error == V8_FILE_NONE)
            continue;
        printf("file\t%d\tversion %u\tbuiltins %" PRIx64 "+%" PRIx64 "\thandlers %x-%x\tbytecodes "
               "%u\t%.2f ms\n",
               error, walk->file.version, walk->file.builtins, walk->file.builtins_bytes,
               walk->file.process.handlers, walk->file.process.handlers_end, walk->file.n_bytecodes,
               (double)(clock_monotonic_ns() - start) / 1e6);
        if (error || !elf_address_of_offset(&file->elf, map.offset, &vaddr))
            return false;
        error = v8_attach(&walk->file, map.start - vaddr, &walk->memory, &walk->process);
        printf("attach\t%d\t%llx-%llx\t%llx-%llx\n", error, walk->process.builtins[0].start,
               walk->process.builtins[0].end, walk->process.builtins[1].start,
               walk->process.builtins[1].end);
        return !error;
    }
    return false;
}

static int pid_of(int tid)
{
    char path[64], line[256];
    int pid = tid;
    snprintf(path, sizeof(path), "/proc/%d/status", tid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "Tgid: %d", &pid) == 1)
            break;
    if (file)
        fclose(file);
    return pid;
}

int main(int argc, char **argv)
{
    static struct walk walk;
    if (argc < 3)
        return 2;
    walk.tid = atoi(argv[1]);
    walk.pid = pid_of(walk.tid);
    walk.memory = (struct runtime_memory){.read = memory_read, .context = &walk};
    if (!getenv("V8_WALK_UNCACHED") && runtime_cache_open(16u << 20, &walk.cache))
        return 2;
    if (getenv("V8_WALK_IMAGE"))
        walk.image = calloc(1, sizeof(*walk.image));
    if (proc_maps_read((uint32_t)walk.pid, &walk.maps))
        return 3;
    walk.memory.maps = buf_bytes(&walk.maps);
    if (!find_v8(&walk))
        return 1;
    if (ptrace(PTRACE_SEIZE, walk.tid, NULL, NULL))
        return 3;
    int error = 0;
    for (int i = 0; !error && i < atoi(argv[2]); i++) {
        error = sample(&walk, argc > 4 ? (useconds_t)atoi(argv[4]) : 0);
        usleep(argc > 3 ? (useconds_t)atoi(argv[3]) : 1000);
    }
    return error;
}

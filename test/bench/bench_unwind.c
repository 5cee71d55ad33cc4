/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind information of the largest executable that is found (or named), and of one of 500 MB: what
 * samples touch against all of it, in time and memory; and a frame unwound in user space. The files
 * are in the page cache.
 */
#include "agent-bpf/unwind/eh_frame.h"
#include "agent-bpf/unwind/unwind.h"
#include "base/clock.h"
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEPTH = 100, WALKS = 20000, OPENINGS = 1000, TOUCHED = 200 };

static int open_largest(int argc, char **argv, struct elf *largest)
{
    static const char *const patterns[] = {"/usr/lib/*/libLLVM-*.so*",
                                           "/usr/lib/*/libclang-cpp.so*", "/usr/bin/node",
                                           "/usr/lib/gcc/*/*/cc1plus", "/usr/lib/*/libc.so.6"};
    glob_t found = {0};
    int best = -1;
    for (size_t i = 0; argc < 2 && i < sizeof(patterns) / sizeof(*patterns); i++)
        glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &found);
    char **paths = argc < 2 ? found.gl_pathv : argv + 1;
    size_t n = argc < 2 ? found.gl_pathc : (size_t)argc - 1;
    for (size_t i = 0; i < n; i++) {
        struct elf elf;
        struct eh_frame *frame = NULL;
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && !elf_open(fd, &elf) && (best < 0 || elf.size > largest->size) &&
            !eh_frame_open(&elf, &frame)) {
            if (best >= 0)
                close(best);
            best = fd;
            *largest = elf;
            fprintf(stderr, "bench_unwind: %s\n", paths[i]);
        } else if (fd >= 0) {
            close(fd);
        }
        eh_frame_close(frame);
    }
    globfree(&found);
    return best;
}

struct sums {
    uint64_t pages, rows, rules, worst_ns;
};

static uint64_t bytes_of(const struct sums *sums)
{
    return sums->rows * sizeof(struct unwind_row) + sums->rules * sizeof(struct unwind_rule);
}

static void read_page(struct eh_frame *frame, uint64_t *at, struct sums *sums)
{
    struct unwind_page page;
    uint64_t began_ns = clock_monotonic_ns();
    if (eh_frame_page(frame, *at, &page))
        abort();
    uint64_t spent_ns = clock_monotonic_ns() - began_ns;
    sums->worst_ns = spent_ns > sums->worst_ns ? spent_ns : sums->worst_ns;
    sums->pages++;
    sums->rows += page.n_rows;
    sums->rules += page.n_rules;
    *at = page.start + UNWIND_PAGE_BYTES;
    unwind_page_close(&page);
}

static void print_figure(const char *prefix, const char *name, double value, const char *unit)
{
    printf("unwind_%s%s %.6g %s\n", prefix, name, value, unit);
}

static uint64_t load_whole(const struct elf *elf, const char *prefix, uint64_t *last)
{
    struct eh_frame *frame;
    struct sums sums = {0};
    uint64_t at = 0, began_ns = clock_monotonic_ns();
    if (eh_frame_open(elf, &frame))
        abort();
    while (!eh_frame_next(frame, at, &at))
        read_page(frame, &at, &sums);
    uint64_t spent_ns = clock_monotonic_ns() - began_ns;
    *last = at;
    print_figure(prefix, "file_mib", (double)elf->size / (1 << 20), "MiB");
    print_figure(prefix, "whole_ms", (double)spent_ns / 1e6, "ms");
    print_figure(prefix, "whole_mib", (double)bytes_of(&sums) / (1 << 20), "MiB");
    print_figure(prefix, "rows_per_s", (double)sums.rows * 1e9 / (double)spent_ns, "rows/s");
    print_figure(prefix, "bytes_per_row", (double)bytes_of(&sums) / (double)sums.rows, "bytes");
    print_figure(prefix, "page_worst_us", (double)sums.worst_ns / 1e3, "us");
    print_figure(prefix, "reader_bytes", (double)eh_frame_bytes(frame), "bytes");
    eh_frame_close(frame);
    return spent_ns;
}

/* What samples touch: one page by a table opened for it alone, and TOUCHED pages all over. */
static void load_parts(const struct elf *elf, const char *prefix, uint64_t whole_ns, uint64_t last)
{
    struct eh_frame *frame = NULL;
    struct sums single = {0}, touched = {0};
    uint64_t at, began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < OPENINGS; i++) {
        if (eh_frame_open(elf, &frame))
            abort();
        at = last / OPENINGS * i;
        if (!eh_frame_next(frame, at, &at))
            read_page(frame, &at, &single);
        if (i + 1 < OPENINGS)
            eh_frame_close(frame);
    }
    uint64_t single_ns = (clock_monotonic_ns() - began_ns) / OPENINGS;
    began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < TOUCHED; i++) {
        at = last / TOUCHED * i;
        if (!eh_frame_next(frame, at, &at))
            read_page(frame, &at, &touched);
    }
    uint64_t touched_ns = clock_monotonic_ns() - began_ns;
    eh_frame_close(frame);
    print_figure(prefix, "open_and_page_us", (double)single_ns / 1e3, "us");
    print_figure(prefix, "page_bytes", (double)bytes_of(&single) / (double)single.pages, "bytes");
    print_figure(prefix, "touched_pages", TOUCHED, "pages");
    print_figure(prefix, "touched_ms", (double)touched_ns / 1e6, "ms");
    print_figure(prefix, "touched_mib", (double)bytes_of(&touched) / (1 << 20), "MiB");
    print_figure(prefix, "touched_share_of_time", (double)touched_ns / (double)whole_ns, "ratio");
}

static void loading(const struct elf *elf, const char *prefix)
{
    uint64_t last, whole_ns = load_whole(elf, prefix, &last);
    load_parts(elf, prefix, whole_ns, last);
}

/* ---- an executable of 500 MB ---- */

#define LARGE_BYTES    (UINT64_C(500) * 1000 * 1000)
#define LARGE_TEXT     UINT64_C(0x1000) /* address and offset of its code */
#define LARGE_FUNCTION 208              /* bytes; as dense as C++ is */

/* push rbp; push rbx; sub: as compilers write it, five rows. */
struct large_fde {
    uint32_t length;
    uint32_t cie;
    int32_t start;
    uint32_t range;
    uint8_t augmentation;
    uint8_t instructions[15];
};

struct large_cie {
    uint32_t length;
    uint32_t id;
    uint8_t rest[16];
};

struct large_head {
    uint8_t encodings[4];
    int32_t eh_frame;
    uint32_t count;
};

static void put(int fd, const void *bytes, size_t size, uint64_t offset)
{
    if (pwrite(fd, bytes, size, (off_t)offset) != (ssize_t)size)
        abort();
}

static void put_functions(int fd, uint32_t n, uint64_t eh_frame, uint64_t table)
{
    struct large_fde *fdes = calloc(n, sizeof(*fdes));
    int32_t(*entries)[2] = calloc(n, sizeof(*entries));
    if (!fdes || !entries)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = eh_frame + sizeof(struct large_cie) + i * sizeof(*fdes);
        uint64_t start = LARGE_TEXT + (uint64_t)i * LARGE_FUNCTION;
        fdes[i] = (struct large_fde){
            .length = sizeof(*fdes) - 4,
            .cie = (uint32_t)(at + 4 - eh_frame),
            .start = (int32_t)(start - (at + 8)),
            .range = LARGE_FUNCTION - 8,
            .instructions = {0x41, 0x0e, 16, 0x86, 2, 0x41, 0x0e, 24, 0x83, 3, 0x44, 0x0e, 32,
                             (uint8_t)(0x40 + 20 + i % 40), 0x0a},
        };
        entries[i][0] = (int32_t)(start - table);
        entries[i][1] = (int32_t)(at - table);
    }
    put(fd, fdes, n * sizeof(*fdes), eh_frame + sizeof(struct large_cie));
    put(fd, entries, n * sizeof(*entries), table + sizeof(struct large_head));
    free(fdes);
    free(entries);
}

/* In memory; its code is a hole. */
static int make_large(void)
{
    const uint32_t n = (uint32_t)(LARGE_BYTES / (LARGE_FUNCTION + sizeof(struct large_fde) + 8));
    uint64_t text_end = LARGE_TEXT + (uint64_t)n * LARGE_FUNCTION;
    uint64_t eh_frame = (text_end + 0xfff) & ~UINT64_C(0xfff);
    uint64_t eh_end = eh_frame + sizeof(struct large_cie) + n * sizeof(struct large_fde) + 4;
    uint64_t table = (eh_end + 0xfff) & ~UINT64_C(0xfff);
    uint64_t end = table + sizeof(struct large_head) + (uint64_t)n * 8;
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr segments[2];
    } head = {
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                               EV_CURRENT},
                   .e_type = ET_DYN,
                   .e_machine = EM_X86_64,
                   .e_version = EV_CURRENT,
                   .e_phoff = sizeof(Elf64_Ehdr),
                   .e_ehsize = sizeof(Elf64_Ehdr),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = 2},
        .segments = {{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = end, .p_memsz = end},
                     {.p_type = PT_GNU_EH_FRAME,
                      .p_flags = PF_R,
                      .p_offset = table,
                      .p_vaddr = table,
                      .p_filesz = end - table,
                      .p_memsz = end - table}},
    };
    struct large_cie cie = {.length = sizeof(cie) - 4,
                            .rest = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1}};
    struct large_head index = {.encodings = {1, 0x1b, 0x03, 0x3b},
                               .eh_frame = (int32_t)(eh_frame - (table + 4)),
                               .count = n};
    int fd = memfd_create("large", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)end))
        abort();
    put(fd, &head, sizeof(head), 0);
    put(fd, &cie, sizeof(cie), eh_frame);
    put(fd, &index, sizeof(index), table);
    put_functions(fd, n, eh_frame, table);
    return fd;
}

/* ---- own stack ---- */

static struct unwind_page own_page;
static uint64_t own_bias;

static bool find(void *context, uint64_t address, struct unwind_rule *rule)
{
    (void)context;
    uint64_t vaddr = address - own_bias;
    if (vaddr - own_page.start >= UNWIND_PAGE_BYTES)
        return false;
    *rule = *unwind_page_find(&own_page, vaddr);
    return true;
}

static int note_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
    (void)size;
    *(uint64_t *)bias = info->dlpi_addr;
    return 1; /* the first is the executable */
}

#ifdef __x86_64__
static void __attribute__((noinline)) walk_often(void)
{
    static uint8_t copy[64 * 1024];
    static struct unwind_frames frames;
    struct unwind_input input = {.elf_machine = EM_X86_64, .find = find};
    uint64_t *of = input.registers.of;
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n\tmov %%rbx, %3"
                     : "=r"(input.registers.pc), "=m"(of[7]), "=m"(of[6]), "=m"(of[3]));
    input.registers.known = 1 << 7 | 1 << 6 | 1 << 3;
    input.stack_start = of[7];
    memcpy(copy, (const void *)of[7], sizeof(copy) / 4); /* the frames are small */
    input.stack = BYTES(copy, sizeof(copy) / 4);
    uint64_t n = 0, began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < WALKS; i++) {
        unwind(&input, &frames);
        n += frames.n;
    }
    uint64_t spent_ns = clock_monotonic_ns() - began_ns;
    if (n < (uint64_t)WALKS * DEPTH)
        fprintf(stderr, "bench_unwind: only %u frames\n", frames.n);
    printf("unwind_user_frame_ns %.1f ns\n", (double)spent_ns / (double)n);
}

static int __attribute__((noinline)) descend(int depth)
{
    volatile uint64_t frame[8] = {(uint64_t)depth};
    if (depth)
        return descend(depth - 1) + (int)frame[0];
    walk_often();
    return 1;
}

static void own_stack(void)
{
    volatile uint8_t above[16 * 1024] = {0}; /* so that all that is copied is stack */
    struct elf elf;
    struct eh_frame *frame;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    dl_iterate_phdr(note_bias, &own_bias);
    if (fd < 0 || elf_open(fd, &elf) || eh_frame_open(&elf, &frame) ||
        eh_frame_page(frame, (uint64_t)(uintptr_t)descend - own_bias, &own_page))
        abort();
    close(fd);
    descend(DEPTH + above[1]);
    eh_frame_close(frame);
    unwind_page_close(&own_page);
}
#else
static void own_stack(void)
{
}
#endif

int main(int argc, char **argv)
{
    struct elf elf;
    int fd = open_largest(argc, argv, &elf);
    if (fd < 0)
        return fprintf(stderr, "bench_unwind: no executable with unwind information\n"), 1;
    loading(&elf, "");
    close(fd);
    fd = make_large();
    if (elf_open(fd, &elf))
        abort();
    loading(&elf, "500mb_");
    close(fd);
    own_stack();
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind information of the largest executable that is found (or named): one page against all of
 * it, in time and memory, and a frame unwound in user space. The file is in the page cache.
 */
#include "agent-bpf/eh_frame.h"
#include "agent-bpf/unwind.h"
#include "base/clock.h"
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEPTH = 100, WALKS = 20000, OPENINGS = 1000 };

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

/* Whole, then pages here and there, each by a table opened for it alone. */
static void loading(const struct elf *elf)
{
    struct eh_frame *frame;
    struct sums whole = {0}, single = {0};
    uint64_t at = 0, began_ns = clock_monotonic_ns();
    if (eh_frame_open(elf, &frame))
        abort();
    while (!eh_frame_next(frame, at, &at))
        read_page(frame, &at, &whole);
    uint64_t whole_ns = clock_monotonic_ns() - began_ns, last = at;
    printf("unwind_file_mib %.1f MiB\n", (double)elf->size / (1 << 20));
    printf("unwind_whole_ms %.2f ms\n", (double)whole_ns / 1e6);
    printf("unwind_whole_mib %.2f MiB\n", (double)bytes_of(&whole) / (1 << 20));
    printf("unwind_rows_per_s %.0f rows/s\n", (double)whole.rows * 1e9 / (double)whole_ns);
    printf("unwind_bytes_per_row %.2f bytes\n", (double)bytes_of(&whole) / (double)whole.rows);
    printf("unwind_page_worst_us %.1f us\n", (double)whole.worst_ns / 1e3);
    printf("unwind_reader_bytes %zu bytes\n", eh_frame_bytes(frame));
    eh_frame_close(frame);
    began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < OPENINGS; i++) {
        if (eh_frame_open(elf, &frame))
            abort();
        at = last / OPENINGS * i;
        if (!eh_frame_next(frame, at, &at))
            read_page(frame, &at, &single);
        eh_frame_close(frame);
    }
    uint64_t single_ns = (clock_monotonic_ns() - began_ns) / OPENINGS;
    printf("unwind_open_and_page_us %.1f us\n", (double)single_ns / 1e3);
    printf("unwind_page_bytes %.0f bytes\n", (double)bytes_of(&single) / (double)single.pages);
    printf("unwind_page_share_of_time %.5f ratio\n", (double)single_ns / (double)whole_ns);
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
    loading(&elf);
    close(fd);
    own_stack();
    return 0;
}

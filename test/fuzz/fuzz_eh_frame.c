/* SPDX-License-Identifier: Apache-2.0 */
/* A file's pages, and a stack unwound with them; the stack is the file's bytes too. */
#include "agent-bpf/unwind/eh_frame.h"
#include "agent-bpf/unwind/unwind.h"
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES_MAX   8
#define STACK_START UINT64_C(0x7ffc00000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct unwind_page *page)
{
    assert(page->n_rows && page->n_rows <= UNWIND_ROWS_MAX && page->rows[0].low == 0);
    assert(page->n_rules <= UNWIND_RULES_MAX);
    for (uint32_t i = 0; i < page->n_rows; i++) {
        assert(page->rows[i].rule < page->n_rules);
        assert(!i || page->rows[i].low > page->rows[i - 1].low);
        assert(!i || page->rows[i].rule != page->rows[i - 1].rule);
    }
}

static bool find(void *context, uint64_t address, struct unwind_rule *rule)
{
    const struct unwind_page *page = context;
    *rule = *unwind_page_find(page, page->start + (uint16_t)address);
    return true;
}

static void walk(uint16_t machine, struct unwind_page *page, struct bytes stack)
{
    static struct unwind_frames frames;
    struct unwind_input input = {
        .elf_machine = machine,
        .registers = {.pc = page->start + 0x100, .known = UINT32_MAX},
        .stack_start = STACK_START,
        .stack = stack,
        .find = find,
        .context = page,
    };
    for (unsigned i = 0; i < UNWIND_REGISTERS_MAX; i++)
        input.registers.of[i] = STACK_START + i * 8;
    unwind(&input, &frames);
    assert(frames.n && frames.n <= UNWIND_FRAMES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (ftruncate(fd, (off_t)size) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    struct elf elf;
    struct eh_frame *frame;
    if (elf_open(fd, &elf) || eh_frame_open(&elf, &frame))
        return 0;
    uint64_t at = 0;
    for (unsigned i = 0; i < PAGES_MAX && !eh_frame_next(frame, at, &at); i++) {
        struct unwind_page page;
        if (eh_frame_page(frame, at, &page))
            break;
        check(&page);
        walk(elf.machine, &page, BYTES(data, size));
        at = page.start + UNWIND_PAGE_BYTES;
        unwind_page_close(&page);
        if (!at)
            break;
    }
    eh_frame_close(frame);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages are built in ascending order, so a new page is built: the old rows before each range of Go
 * code, then the range, and so on.
 * Source of the frames' layout: Go's internal ABI document, cmd/internal/obj of both machines.
 */
#include "agent-bpf/unwind/go_unwind.h"
#include "agent-bpf/unwind/eh_cfa.h"
#include <errno.h>

struct merging {
    const struct eh_machine *machine;
    bool is_x86;
    const struct unwind_page *old;
    struct unwind_page *page;
    uint32_t next_row; /* of old, not copied yet */
    uint64_t at;       /* the new page is built up to here */
};

/* The table gives the depth of the stack: the return address is there (x86-64), or where the stack
 * pointer points (aarch64), with the frame pointer next to it. */
static struct unwind_rule rule_of_depth(const struct merging *merging, uint32_t depth)
{
    struct unwind_rule rule = {.cfa = UNWIND_REGISTER, .base = merging->machine->sp};
    if (merging->is_x86) {
        rule.cfa_offset = (int32_t)(depth + UNWIND_WORD);
        rule.offsets[UNWIND_RA] = -1;
        rule.offsets[UNWIND_FP] = depth ? -2 : merging->machine->fp;
        rule.places = depth ? 0 : UNWIND_IN_REGISTER << 2 * UNWIND_FP;
    } else {
        rule.cfa_offset = (int32_t)depth;
        rule.offsets[UNWIND_RA] = depth ? 0 : merging->machine->ra;
        rule.offsets[UNWIND_FP] = depth ? -1 : merging->machine->fp;
        unsigned place = depth ? UNWIND_AT_SP : UNWIND_IN_REGISTER;
        rule.places = (uint8_t)(place << 2 * UNWIND_RA | place << 2 * UNWIND_FP);
    }
    rule.offsets[UNWIND_THIRD] = UNWIND_LOST;
    rule.places |= UNWIND_IN_REGISTER << 2 * UNWIND_THIRD;
    return rule;
}

static struct unwind_rule rule_of(const struct merging *merging, const struct go_stack *stack)
{
    struct unwind_rule rule = rule_of_depth(merging, stack->depth);
    if (stack->flags & GO_FUNCTION_OUTERMOST) {
        rule.offsets[UNWIND_RA] = UNWIND_LOST;
        rule.places |= UNWIND_IN_REGISTER << 2 * UNWIND_RA;
    } else if (stack->flags & GO_FUNCTION_WRITES_SP) {
        rule = (struct unwind_rule){
            .cfa = UNWIND_REGISTER,
            .base = merging->machine->fp,
            .cfa_offset = 2 * UNWIND_WORD,
            .offsets = {[UNWIND_RA] = -1, [UNWIND_FP] = -2, [UNWIND_THIRD] = UNWIND_LOST},
            .places = UNWIND_IN_REGISTER << 2 * UNWIND_THIRD,
            .flags = UNWIND_OTHER_STACK,
        };
    }
    return rule;
}

static int copy_old_row(struct merging *merging, uint64_t address, uint64_t end)
{
    const struct unwind_page *old = merging->old;
    if (address >= end)
        return 0;
    return unwind_page_put(merging->page, address, unwind_page_find(old, address));
}

/* Copies the old rows of addresses from merging->at up to `to`. */
static int copy_old(struct merging *merging, uint64_t to)
{
    const struct unwind_page *old = merging->old;
    int error = copy_old_row(merging, merging->at, to);
    for (; !error && merging->next_row < old->n_rows; merging->next_row++) {
        uint64_t address = old->start + old->rows[merging->next_row].low;
        if (address >= to)
            break;
        if (address > merging->at)
            error = copy_old_row(merging, address, to);
    }
    merging->at = to > merging->at ? to : merging->at;
    return error;
}

static int put_stack(void *context, const struct go_stack *stack)
{
    struct merging *merging = context;
    if (stack->start < merging->at) /* out of order */
        return 0;
    struct unwind_rule rule = rule_of(merging, stack);
    int error = copy_old(merging, stack->start);
    error = error ? error : unwind_page_put(merging->page, stack->start, &rule);
    merging->at = stack->end;
    return error;
}

int go_unwind_page(const struct go_symbols *symbols, uint16_t elf_machine, struct unwind_page *page)
{
    struct unwind_page made;
    struct merging merging = {.machine = eh_machine_of(elf_machine),
                              .is_x86 = elf_machine == EM_X86_64,
                              .old = page,
                              .page = &made,
                              .at = page->start};
    uint64_t end = page->start + UNWIND_PAGE_BYTES;
    int error = merging.machine ? unwind_page_init(&made, page->start) : -EINVAL;
    if (error)
        return error;
    error = go_symbols_stacks(symbols, page->start, end, put_stack, &merging);
    if (error >= 0)
        error = copy_old(&merging, end);
    if (error < 0) {
        unwind_page_close(&made);
        return error;
    }
    made.unknown += page->unknown;
    made.damaged += page->damaged;
    unwind_page_close(page);
    *page = made;
    return 0;
}

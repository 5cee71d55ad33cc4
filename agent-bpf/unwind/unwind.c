/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/unwind/unwind.h"
#include "agent-bpf/unwind/eh_cfa.h"

/* aarch64: bits above may hold a signature. Addresses of 52 bits are only given out on request. */
#define A64_ADDRESS_MASK ((UINT64_C(1) << 48) - 1)

enum { GOES_ON = -1 };

struct walk {
    const struct unwind_input *input;
    const struct eh_machine *machine;
    struct unwind_registers registers;
    bool is_return; /* what registers.pc is */
};

static bool read_word(const struct unwind_input *input, uint64_t address, uint64_t *word)
{
    uint64_t at = address - input->stack_start;
    if (address < input->stack_start || at > input->stack.len ||
        sizeof(*word) > input->stack.len - at)
        return false;
    memcpy(word, input->stack.data + at, sizeof(*word));
    return true;
}

static bool read_register(const struct unwind_registers *registers, unsigned reg, uint64_t *value)
{
    if (reg >= UNWIND_REGISTERS_MAX || !(registers->known >> reg & 1))
        return false;
    *value = registers->of[reg];
    return true;
}

static int find_cfa(const struct walk *walk, const struct unwind_rule *rule, uint64_t *cfa)
{
    uint64_t base, index = 0;
    if (rule->cfa == UNWIND_UNKNOWN || !read_register(&walk->registers, rule->base, &base))
        return UNWIND_END_UNKNOWN;
    *cfa = base + (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == UNWIND_INDEXED && !read_register(&walk->registers, UNWIND_INDEX(rule), &index))
        return UNWIND_END_UNKNOWN;
    if (rule->cfa == UNWIND_DEREF || rule->cfa == UNWIND_INDEXED) {
        if (!read_word(walk->input, *cfa + index * UNWIND_WORD, cfa))
            return UNWIND_END_NO_MEMORY;
        *cfa += rule->cfa == UNWIND_DEREF ? (uint64_t)(int64_t)rule->cfa_add
                                          : (uint64_t)UNWIND_INDEXED_ADD(rule);
    }
    if (rule->cfa == UNWIND_PLT && (int64_t)(walk->registers.pc & 15) >= rule->cfa_add)
        *cfa += UNWIND_WORD;
    return GOES_ON;
}

/* The caller's value of what a slot stands for. */
static int read_slot(const struct walk *walk, const struct unwind_rule *rule, unsigned slot,
                     uint64_t cfa, uint64_t *value)
{
    unsigned place = UNWIND_PLACE(rule, slot);
    uint64_t from = cfa;
    if (place == UNWIND_IN_REGISTER) /* a bad number is not known either */
        return read_register(&walk->registers, (uint16_t)rule->offsets[slot], value)
                   ? GOES_ON
                   : UNWIND_END_UNKNOWN;
    if (place != UNWIND_AT_CFA &&
        !read_register(&walk->registers,
                       place == UNWIND_AT_SP ? walk->machine->sp : walk->machine->fp, &from))
        return UNWIND_END_UNKNOWN;
    from += (uint64_t)((int64_t)rule->offsets[slot] * UNWIND_WORD);
    return read_word(walk->input, from, value) ? GOES_ON : UNWIND_END_NO_MEMORY;
}

static void register_set(struct unwind_registers *registers, unsigned reg, uint64_t value)
{
    registers->of[reg] = value;
    registers->known |= UINT32_C(1) << reg;
}

/* Nothing is known of the function: it may have a frame that begins with the caller's frame
 * pointer and the return address, as the ABIs have it. */
static struct unwind_rule frame_pointer_rule(const struct eh_machine *machine)
{
    return (struct unwind_rule){
        .cfa = UNWIND_REGISTER,
        .base = machine->fp,
        .cfa_offset = 2 * UNWIND_WORD,
        .offsets = {[UNWIND_RA] = -1, [UNWIND_FP] = -2, [UNWIND_THIRD] = UNWIND_LOST},
        .places = UNWIND_IN_REGISTER << 2 * UNWIND_THIRD,
    };
}

static bool is_outermost(const struct unwind_rule *rule)
{
    return UNWIND_PLACE(rule, UNWIND_RA) == UNWIND_IN_REGISTER &&
           rule->offsets[UNWIND_RA] == UNWIND_LOST;
}

/* A frame lies below its caller's. Only a leaf may have none of its own (aarch64), and a signal may
 * have come on another stack. */
static bool unwind_climbs(const struct walk *walk, const struct unwind_rule *rule, uint64_t cfa)
{
    uint64_t sp;
    if (rule->flags & (UNWIND_SIGNAL_FRAME | UNWIND_OTHER_STACK))
        return true;
    if (!read_register(&walk->registers, walk->machine->sp, &sp))
        return false;
    return cfa > sp || (cfa == sp && !walk->is_return);
}

/* Without frame pointers the register holds anything. */
static bool may_be_frame(const struct walk *walk)
{
    uint64_t sp, fp;
    return read_register(&walk->registers, walk->machine->sp, &sp) &&
           read_register(&walk->registers, walk->machine->fp, &fp) && fp >= sp &&
           fp % UNWIND_WORD == 0;
}

/* To the caller: GOES_ON, or why there is none. */
static int walk_step(struct walk *walk, struct unwind_rule *rule)
{
    const struct eh_machine *machine = walk->machine;
    struct unwind_registers caller = {0};
    uint64_t cfa, value, fp;
    if (rule->cfa == UNWIND_NO_INFO) {
        if (read_register(&walk->registers, machine->fp, &fp) && !fp)
            return UNWIND_END_OF_STACK; /* as programs begin with it */
        if (!may_be_frame(walk))
            return UNWIND_END_UNKNOWN;
        *rule = frame_pointer_rule(machine);
    }
    if (is_outermost(rule))
        return UNWIND_END_OF_STACK;
    int end = find_cfa(walk, rule, &cfa);
    if (end == GOES_ON && !unwind_climbs(walk, rule, cfa))
        end = UNWIND_END_NO_PROGRESS;
    if (end == GOES_ON)
        end = read_slot(walk, rule, UNWIND_RA, cfa, &caller.pc);
    if (end != GOES_ON) /* after a switch to another stack this is its end */
        return rule->flags & UNWIND_OTHER_STACK ? UNWIND_END_OF_STACK : end;
    register_set(&caller, machine->sp, cfa);
    if (read_slot(walk, rule, UNWIND_FP, cfa, &value) == GOES_ON)
        register_set(&caller, machine->fp, value);
    if (read_slot(walk, rule, UNWIND_THIRD, cfa, &value) == GOES_ON)
        register_set(&caller, machine->third, value);
    if (machine->ra < machine->n_registers) /* aarch64 */
        caller.pc &= A64_ADDRESS_MASK;
    walk->registers = caller;
    walk->is_return = !(rule->flags & UNWIND_SIGNAL_FRAME);
    return caller.pc ? GOES_ON : UNWIND_END_OF_STACK;
}

/* False: the code at the address is none of a runtime's. Its step must go up the stack, too. */
static bool walk_runtime(struct walk *walk, struct unwind_frames *frames, uint64_t address,
                         int *end)
{
    const struct unwind_input *input = walk->input;
    struct unwind_step step = {.registers = walk->registers, .is_return = walk->is_return};
    uint64_t sp = 0, caller_sp = 0;
    int outcome = input->step ? input->step(input->context, address, &step) : UNWIND_NOT_A_RUNTIME;
    if (outcome == UNWIND_NOT_A_RUNTIME)
        return false;
    for (uint32_t i = 0; i < step.n_frames && frames->n < UNWIND_FRAMES_MAX; i++)
        frames->frames[frames->n++] = (struct unwind_frame){.code = step.frames[i]};
    *end = outcome;
    if (outcome != GOES_ON)
        return true;
    read_register(&walk->registers, walk->machine->sp, &sp);
    if (!read_register(&step.registers, walk->machine->sp, &caller_sp) || caller_sp <= sp)
        *end = UNWIND_END_NO_PROGRESS;
    else if (!step.registers.pc)
        *end = UNWIND_END_OF_STACK;
    walk->registers = step.registers;
    walk->is_return = step.is_return;
    return true;
}

/* Native code: by its rule; NULL: there is no code. */
static int walk_native(struct walk *walk, struct unwind_frames *frames, struct unwind_rule *rule)
{
    const struct unwind_input *input = walk->input;
    uint64_t pc = walk->registers.pc;
    /* What a signal handler returns to has not called it. */
    bool exact = !walk->is_return || (rule && rule->flags & UNWIND_SIGNAL_FRAME);
    uint64_t evaluates =
        input->evaluates ? input->evaluates(input->context, pc - walk->is_return) : 0;
    struct unwind_frame *frame = &frames->frames[frames->n++];
    *frame = (struct unwind_frame){.pc = pc, .is_return = !exact};
    int end = rule ? walk_step(walk, rule) : UNWIND_END_BAD_ADDRESS;
    /* The stack pointer of a caller is the CFA of what it called. */
    if (evaluates && end == GOES_ON &&
        read_register(&walk->registers, walk->machine->sp, &frame->cfa))
        frame->evaluates = evaluates;
    return end;
}

void unwind(const struct unwind_input *input, struct unwind_frames *frames)
{
    struct walk walk = {input, eh_machine_of(input->elf_machine), input->registers,
                        input->is_return};
    int end = walk.machine ? GOES_ON : UNWIND_END_UNKNOWN;
    frames->n = 0;
    while (end == GOES_ON) {
        struct unwind_rule rule;
        /* a call may be the last instruction of its function */
        uint64_t address = walk.registers.pc - walk.is_return;
        bool is_code = input->find(input->context, address, &rule);
        if (frames->n == UNWIND_FRAMES_MAX)
            end = UNWIND_END_TRUNCATED;
        else if (!is_code && frames->n)
            end = UNWIND_END_BAD_ADDRESS;
        else if (!is_code || !walk_runtime(&walk, frames, address, &end))
            end = walk_native(&walk, frames, is_code ? &rule : NULL);
    }
    frames->end = (enum unwind_end)end;
    frames->registers = walk.registers;
}

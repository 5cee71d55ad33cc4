/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/unwind/eh_cfa.h"

enum { /* high two bits, or the whole byte */
       CFA_ADVANCE_LOC = 0x40,
       CFA_OFFSET = 0x80,
       CFA_RESTORE = 0xc0,
       CFA_NOP = 0x00,
       CFA_ADVANCE_LOC1 = 0x02,
       CFA_ADVANCE_LOC2 = 0x03,
       CFA_ADVANCE_LOC4 = 0x04,
       CFA_OFFSET_EXTENDED = 0x05,
       CFA_RESTORE_EXTENDED = 0x06,
       CFA_UNDEFINED = 0x07,
       CFA_SAME_VALUE = 0x08,
       CFA_REGISTER = 0x09,
       CFA_REMEMBER_STATE = 0x0a,
       CFA_RESTORE_STATE = 0x0b,
       CFA_DEF_CFA = 0x0c,
       CFA_DEF_CFA_REGISTER = 0x0d,
       CFA_DEF_CFA_OFFSET = 0x0e,
       CFA_DEF_CFA_EXPRESSION = 0x0f,
       CFA_EXPRESSION = 0x10,
       CFA_OFFSET_EXTENDED_SF = 0x11,
       CFA_DEF_CFA_SF = 0x12,
       CFA_DEF_CFA_OFFSET_SF = 0x13,
       CFA_VAL_OFFSET = 0x14,
       CFA_VAL_OFFSET_SF = 0x15,
       CFA_VAL_EXPRESSION = 0x16,
       CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
       CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
       CFA_GNU_ARGS_SIZE = 0x2e,
       CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

const struct eh_machine *eh_machine_of(uint16_t elf_machine)
{
    static const struct eh_machine x86_64 = {
        .sp = 7, .fp = 6, .third = 3, .ra = 16, .n_registers = 16};
    static const struct eh_machine aarch64 = {
        .sp = 31, .fp = 29, .third = 19, .ra = 30, .n_registers = 32};
    return elf_machine == EM_X86_64 ? &x86_64 : elf_machine == EM_AARCH64 ? &aarch64 : NULL;
}

/* ---- numbers ---- */

struct bytes eh_bytes(struct eh_cursor *cursor, uint64_t size)
{
    if (cursor->failed || size > (uint64_t)(cursor->end - cursor->at)) {
        cursor->failed = true;
        return BYTES(cursor->end, 0);
    }
    struct bytes bytes = BYTES(cursor->at, size);
    cursor->at += size;
    return bytes;
}

struct bytes eh_rest(const struct eh_cursor *cursor)
{
    return BYTES(cursor->at, (size_t)(cursor->end - cursor->at));
}

uint64_t eh_fixed(struct eh_cursor *cursor, size_t size)
{
    uint64_t value = 0;
    struct bytes bytes = eh_bytes(cursor, size);
    memcpy(&value, bytes.data, bytes.len);
    return value;
}

static uint64_t eh_cursor_leb(struct eh_cursor *cursor, bool is_signed)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = eh_fixed(cursor, 1);
        uint64_t bits = byte & 0x7f;
        if (shift == 63 && bits > 1 && !(is_signed && bits == 0x7f))
            break; /* more than 64 bits */
        value |= bits << shift;
        if (byte & 0x80)
            continue;
        if (is_signed && byte & 0x40 && shift < 57)
            value |= ~UINT64_C(0) << (shift + 7);
        return value;
    }
    cursor->failed = true;
    return 0;
}

uint64_t eh_uleb(struct eh_cursor *cursor)
{
    return eh_cursor_leb(cursor, false);
}

int64_t eh_sleb(struct eh_cursor *cursor)
{
    return (int64_t)eh_cursor_leb(cursor, true);
}

/* ---- instructions ---- */

struct run {
    const struct eh_program *program;
    struct eh_cursor cursor;
    struct eh_state *state;
    uint64_t at; /* address that the state holds from */
    unsigned n_remembered;
    struct eh_state remembered[EH_REMEMBERED_MAX];
};

static int64_t run_scaled(const struct run *run, int64_t factored)
{
    int64_t offset;
    return __builtin_mul_overflow(factored, run->program->data_align, &offset) ? INT64_MAX : offset;
}

static int64_t cfa_negated(int64_t offset)
{
    return offset == INT64_MIN ? INT64_MAX : -offset;
}

static int64_t unsigned_offset(struct run *run) /* what does not fit cannot be expressed later */
{
    uint64_t offset = eh_uleb(&run->cursor);
    return offset <= INT64_MAX ? (int64_t)offset : INT64_MAX;
}

/* The slot of a register that is kept; the rules of others go to *ignored. */
static struct eh_slot *slot_of(const struct run *run, uint64_t reg, struct eh_slot *ignored)
{
    const struct eh_machine *machine = run->program->machine;
    if (reg == machine->ra)
        return &run->state->slots[UNWIND_RA];
    if (reg == machine->fp)
        return &run->state->slots[UNWIND_FP];
    return reg == machine->third ? &run->state->slots[UNWIND_THIRD] : ignored;
}

static int run_advance(struct run *run, uint64_t to)
{
    const struct eh_program *program = run->program;
    if (!program->emit || to < run->at)
        return ELF_MALFORMED;
    to = to < program->end ? to : program->end;
    int error = 0;
    if (to > run->at)
        error = program->emit(program->context, run->at, to, run->state);
    run->at = to;
    return error;
}

static int advance_by(struct run *run, uint64_t factored)
{
    uint64_t delta, to;
    if (__builtin_mul_overflow(factored, run->program->code_align, &delta) ||
        __builtin_add_overflow(run->at, delta, &to))
        return ELF_MALFORMED;
    return run_advance(run, to);
}

static int run_remember(struct run *run)
{
    if (run->n_remembered == EH_REMEMBERED_MAX)
        return ELF_MALFORMED;
    run->remembered[run->n_remembered++] = *run->state;
    return 0;
}

static int restore_state(struct run *run)
{
    if (!run->n_remembered)
        return ELF_MALFORMED;
    *run->state = run->remembered[--run->n_remembered];
    return 0;
}

static void set_base(struct run *run, uint64_t reg)
{
    struct eh_cfa *cfa = &run->state->in_register;
    bool good = reg < run->program->machine->n_registers;
    cfa->how = good ? UNWIND_REGISTER : UNWIND_UNKNOWN;
    cfa->base = good ? (uint8_t)reg : 0;
    run->state->by_expression = false;
}

static int run_cfa_instruction(struct run *run, uint8_t op)
{
    struct eh_cursor *cursor = &run->cursor;
    struct eh_cfa *cfa = &run->state->in_register;
    switch (op) {
    case CFA_DEF_CFA:
        set_base(run, eh_uleb(cursor));
        cfa->offset = unsigned_offset(run);
        return 0;
    case CFA_DEF_CFA_SF:
        set_base(run, eh_uleb(cursor));
        cfa->offset = run_scaled(run, eh_sleb(cursor));
        return 0;
    case CFA_DEF_CFA_REGISTER:
        set_base(run, eh_uleb(cursor));
        return 0;
    case CFA_DEF_CFA_OFFSET:
        cfa->offset = unsigned_offset(run);
        return 0;
    case CFA_DEF_CFA_OFFSET_SF:
        cfa->offset = run_scaled(run, eh_sleb(cursor));
        return 0;
    case CFA_DEF_CFA_EXPRESSION:
        run->state->expression =
            eh_expression_cfa(eh_bytes(cursor, eh_uleb(cursor)), run->program->machine);
        run->state->by_expression = true;
        return 0;
    default:
        return ELF_MALFORMED;
    }
}

static int run_register_instruction(struct run *run, uint8_t op)
{
    struct eh_cursor *cursor = &run->cursor;
    uint64_t reg = eh_uleb(cursor);
    struct eh_slot ignored, *slot = slot_of(run, reg, &ignored);
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        *slot = (struct eh_slot){UNWIND_AT_CFA, run_scaled(run, unsigned_offset(run))};
        return 0;
    case CFA_OFFSET_EXTENDED_SF:
        *slot = (struct eh_slot){UNWIND_AT_CFA, run_scaled(run, eh_sleb(cursor))};
        return 0;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        *slot = (struct eh_slot){UNWIND_AT_CFA, cfa_negated(run_scaled(run, unsigned_offset(run)))};
        return 0;
    case CFA_RESTORE_EXTENDED:
        if (slot != &ignored)
            *slot = run->program->initial->slots[slot - run->state->slots];
        return 0;
    case CFA_UNDEFINED:
        *slot = (struct eh_slot){UNWIND_IN_REGISTER, UNWIND_LOST};
        return 0;
    case CFA_SAME_VALUE:
        *slot = (struct eh_slot){UNWIND_IN_REGISTER, (int64_t)(reg & INT64_MAX)};
        return 0;
    case CFA_REGISTER:
        *slot = (struct eh_slot){UNWIND_IN_REGISTER, unsigned_offset(run)};
        return 0;
    case CFA_EXPRESSION:
        *slot = eh_expression_slot(eh_bytes(cursor, eh_uleb(cursor)), run->program->machine);
        return 0;
    case CFA_VAL_OFFSET:
        eh_uleb(cursor);
        *slot = (struct eh_slot){.place = EH_PLACE_UNKNOWN};
        return 0;
    case CFA_VAL_OFFSET_SF:
        eh_sleb(cursor);
        *slot = (struct eh_slot){.place = EH_PLACE_UNKNOWN};
        return 0;
    case CFA_VAL_EXPRESSION:
        eh_bytes(cursor, eh_uleb(cursor));
        *slot = (struct eh_slot){.place = EH_PLACE_UNKNOWN};
        return 0;
    default:
        return ELF_MALFORMED;
    }
}

static int run_instruction(struct run *run)
{
    struct eh_cursor *cursor = &run->cursor;
    uint8_t op = (uint8_t)eh_fixed(cursor, 1), low = op & 0x3f;
    struct eh_slot ignored, *slot;
    switch (op & 0xc0) {
    case CFA_ADVANCE_LOC:
        return advance_by(run, low);
    case CFA_OFFSET:
        *slot_of(run, low, &ignored) =
            (struct eh_slot){UNWIND_AT_CFA, run_scaled(run, unsigned_offset(run))};
        return 0;
    case CFA_RESTORE:
        slot = slot_of(run, low, &ignored);
        if (slot != &ignored)
            *slot = run->program->initial->slots[slot - run->state->slots];
        return 0;
    default:
        break;
    }
    switch (op) {
    case CFA_NOP:
    case CFA_AARCH64_NEGATE_RA_STATE:
    case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
        return 0;
    case CFA_ADVANCE_LOC1:
        return advance_by(run, eh_fixed(cursor, 1));
    case CFA_ADVANCE_LOC2:
        return advance_by(run, eh_fixed(cursor, 2));
    case CFA_ADVANCE_LOC4:
        return advance_by(run, eh_fixed(cursor, 4));
    case CFA_REMEMBER_STATE:
        return run_remember(run);
    case CFA_RESTORE_STATE:
        return restore_state(run);
    case CFA_GNU_ARGS_SIZE:
        eh_uleb(cursor);
        return 0;
    case CFA_DEF_CFA:
    case CFA_DEF_CFA_SF:
    case CFA_DEF_CFA_REGISTER:
    case CFA_DEF_CFA_OFFSET:
    case CFA_DEF_CFA_OFFSET_SF:
    case CFA_DEF_CFA_EXPRESSION:
        return run_cfa_instruction(run, op);
    default:
        return run_register_instruction(run, op);
    }
}

int eh_cfa_run(const struct eh_program *program, struct eh_state *state)
{
    struct bytes code = program->instructions;
    struct run run;
    run.program = program;
    run.cursor = (struct eh_cursor){code.data, code.data + code.len, false};
    run.state = state;
    run.at = program->start;
    run.n_remembered = 0;
    int error = 0;
    while (!error && run.cursor.at < run.cursor.end) {
        if (program->emit && run.at >= program->end)
            return 0;
        error = run_instruction(&run);
        if (run.cursor.failed)
            error = ELF_MALFORMED;
    }
    if (!error && program->emit)
        error = run_advance(&run, program->end);
    return error;
}

/* ---- states and rules ---- */

void eh_state_init(struct eh_state *state, const struct eh_machine *machine)
{
    *state = (struct eh_state){
        .in_register = {.how = UNWIND_UNKNOWN},
        .slots =
            {
                [UNWIND_RA] = {UNWIND_IN_REGISTER, machine->ra},
                [UNWIND_FP] = {UNWIND_IN_REGISTER, machine->fp},
                [UNWIND_THIRD] = {UNWIND_IN_REGISTER, machine->third},
            },
    };
    if (machine->n_registers > machine->ra) /* aarch64's ABI: before any instruction CFA = sp */
        state->in_register = (struct eh_cfa){.how = UNWIND_REGISTER, .base = machine->sp};
}

static bool put_cfa(const struct eh_cfa *cfa, struct unwind_rule *rule)
{
    if (cfa->offset != (int32_t)cfa->offset || cfa->add != (int16_t)cfa->add)
        return false;
    rule->cfa = cfa->how;
    rule->base = cfa->base;
    rule->cfa_offset = (int32_t)cfa->offset;
    rule->cfa_add = (int16_t)cfa->add;
    return cfa->how > UNWIND_UNKNOWN;
}

static bool put_slot(const struct eh_slot *slot, const struct eh_machine *machine, unsigned which,
                     struct unwind_rule *rule)
{
    int64_t offset = slot->offset;
    if (slot->place == EH_PLACE_UNKNOWN)
        return false;
    if (slot->place == UNWIND_IN_REGISTER && offset != UNWIND_LOST &&
        (offset < 0 || offset >= machine->n_registers))
        return false; /* the pc itself too: it is not the caller's */
    if (slot->place != UNWIND_IN_REGISTER) {
        if (offset % UNWIND_WORD)
            return false;
        offset /= UNWIND_WORD;
    }
    if (offset != (int16_t)offset)
        return false;
    rule->offsets[which] = (int16_t)offset;
    rule->places |= (uint8_t)(slot->place << 2 * which);
    return true;
}

void eh_rule(const struct eh_state *state, const struct eh_machine *machine, uint8_t flags,
             struct unwind_rule *rule)
{
    const struct eh_slot lost = {UNWIND_IN_REGISTER, UNWIND_LOST};
    const struct eh_slot *slots = state->slots;
    *rule = (struct unwind_rule){.flags = flags};
    if (!put_cfa(state->by_expression ? &state->expression : &state->in_register, rule) ||
        !put_slot(&slots[UNWIND_RA], machine, UNWIND_RA, rule)) {
        *rule = (struct unwind_rule){.cfa = UNWIND_UNKNOWN};
        return;
    }
    for (unsigned i = UNWIND_FP; i < UNWIND_SLOTS; i++)
        if (!put_slot(&slots[i], machine, i, rule))
            put_slot(&lost, machine, i, rule);
}

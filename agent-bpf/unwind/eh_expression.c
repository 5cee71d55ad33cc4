/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions are not evaluated. They are matched against the forms that occur (unwind_rows.h has
 * the figures):
 *   CFA   breg R n; deref [; plus_uconst m]
 *   CFA   breg R n; breg I 0; lit8; mul; plus; deref [; plus_uconst m]
 *         (stacks in hand-written code)
 *   CFA   breg SP n; breg PC 0; lit15; and; litK; ge; lit3; shl; plus
 *         (PLT of GNU linkers)
 *   slot  [drop;] breg SP|FP n
 */
#include "agent-bpf/unwind/eh_cfa.h"

enum {
    OP_DEREF = 0x06,
    OP_DROP = 0x13,
    OP_AND = 0x1a,
    OP_MUL = 0x1e,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
};

static bool cursor_take_op(struct eh_cursor *cursor, uint8_t op)
{
    if (cursor->at == cursor->end || *cursor->at != op)
        return false;
    cursor->at++;
    return true;
}

static bool take_breg(struct eh_cursor *cursor, uint8_t *reg, int64_t *offset)
{
    if (cursor->at == cursor->end || *cursor->at < OP_BREG0 || *cursor->at > OP_BREG31)
        return false;
    *reg = (uint8_t)(*cursor->at++ - OP_BREG0);
    *offset = eh_sleb(cursor);
    return !cursor->failed;
}

static bool take_literal(struct eh_cursor *cursor, int64_t *value)
{
    if (cursor->at == cursor->end || *cursor->at < OP_LIT0 || *cursor->at > OP_LIT31)
        return false;
    *value = *cursor->at++ - OP_LIT0;
    return true;
}

static bool take_plt(struct eh_cursor *cursor, const struct eh_machine *machine, int64_t *from)
{
    uint8_t reg;
    int64_t offset;
    return take_breg(cursor, &reg, &offset) && reg == machine->ra && offset == 0 &&
           cursor_take_op(cursor, OP_LIT0 + 15) && cursor_take_op(cursor, OP_AND) &&
           take_literal(cursor, from) && cursor_take_op(cursor, OP_GE) &&
           cursor_take_op(cursor, OP_LIT0 + 3) && cursor_take_op(cursor, OP_SHL) &&
           cursor_take_op(cursor, OP_PLUS);
}

static bool take_index(struct eh_cursor *cursor, const struct eh_machine *machine, uint8_t *index)
{
    int64_t offset;
    return take_breg(cursor, index, &offset) && *index < machine->n_registers && offset == 0 &&
           cursor_take_op(cursor, OP_LIT0 + UNWIND_WORD) && cursor_take_op(cursor, OP_MUL) &&
           cursor_take_op(cursor, OP_PLUS) && cursor_take_op(cursor, OP_DEREF);
}

/* What is added to the word that was read; max + 1: more than that. */
static int64_t take_add(struct eh_cursor *cursor, int64_t max)
{
    if (!cursor_take_op(cursor, OP_PLUS_UCONST))
        return 0;
    uint64_t add = eh_uleb(cursor);
    return add <= (uint64_t)max ? (int64_t)add : max + 1;
}

static void take_dereference(struct eh_cursor *cursor, struct eh_cfa *found)
{
    found->how = UNWIND_DEREF;
    found->add = take_add(cursor, INT16_MAX);
}

static void take_indexed(struct eh_cursor *cursor, uint8_t index, struct eh_cfa *found)
{
    int64_t add = take_add(cursor, UNWIND_INDEXED_ADD_MAX);
    found->how = UNWIND_INDEXED;
    found->add = add <= UNWIND_INDEXED_ADD_MAX ? UNWIND_INDEXED_BY(index, add) : INT16_MAX + 1;
}

struct eh_cfa eh_expression_cfa(struct bytes expression, const struct eh_machine *machine)
{
    struct eh_cursor cursor = {expression.data, expression.data + expression.len, false};
    struct eh_cfa cfa = {.how = UNWIND_UNKNOWN}, found = cfa;
    uint8_t index;
    if (!take_breg(&cursor, &found.base, &found.offset) || found.base >= machine->n_registers)
        return cfa;
    struct eh_cursor second = cursor;
    if (cursor_take_op(&cursor, OP_DEREF))
        take_dereference(&cursor, &found);
    else if (take_index(&second, machine, &index))
        take_indexed(&second, index, &found), cursor = second;
    else if (take_plt(&cursor, machine, &found.add))
        found.how = UNWIND_PLT;
    return cursor.failed || cursor.at != cursor.end ? cfa : found;
}

struct eh_slot eh_expression_slot(struct bytes expression, const struct eh_machine *machine)
{
    struct eh_cursor cursor = {expression.data, expression.data + expression.len, false};
    struct eh_slot unknown = {.place = EH_PLACE_UNKNOWN}, found = unknown;
    uint8_t reg;
    cursor_take_op(&cursor, OP_DROP); /* of the CFA, which is on the stack at the beginning */
    if (!take_breg(&cursor, &reg, &found.offset) || cursor.at != cursor.end)
        return unknown;
    if (reg == machine->sp)
        found.place = UNWIND_AT_SP;
    if (reg == machine->fp)
        found.place = UNWIND_AT_FP;
    return found;
}

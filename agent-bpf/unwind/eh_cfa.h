/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Runs call frame instructions into states, each valid for a range of addresses, and converts
 * states to rules (unwind_rows.h). Pure functions on bytes in memory; any input is safe. Source of
 * the format: DWARF 5 sections 6.4.2 and 7.24; GNU and aarch64 additions. The signing of return
 * addresses (aarch64) is not followed: readers strip the top bits. Thread: any; no state. Outcomes:
 * 0; ELF_MALFORMED; what emit() returned.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/unwind_rows.h"

#define EH_REMEMBERED_MAX 32

/* Reads little-endian numbers. Reading beyond the end sets `failed` and gives 0, also from then on.
 */
struct eh_cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

uint64_t eh_fixed(struct eh_cursor *cursor, size_t size); /* 1, 2, 4 or 8 bytes */
uint64_t eh_uleb(struct eh_cursor *cursor);
int64_t eh_sleb(struct eh_cursor *cursor);
struct bytes eh_bytes(struct eh_cursor *cursor, uint64_t size);
struct bytes eh_rest(const struct eh_cursor *cursor);

struct eh_machine { /* DWARF numbers */
    uint8_t sp;
    uint8_t fp;
    uint8_t third; /* see unwind_rows.h */
    uint8_t ra;
    uint8_t n_registers; /* that may be a base */
};

const struct eh_machine *eh_machine_of(uint16_t elf_machine);

#define EH_PLACE_UNKNOWN 4 /* beside enum unwind_place: cannot be expressed */

struct eh_slot {
    uint8_t place;
    int64_t offset; /* bytes; or a register */
};

struct eh_cfa {
    uint8_t how; /* enum unwind_cfa */
    uint8_t base;
    int64_t offset;
    int64_t add;
};

struct eh_state {
    bool by_expression; /* which of the two gives the CFA */
    struct eh_cfa expression;
    struct eh_cfa in_register;
    struct eh_slot slots[UNWIND_SLOTS];
};

struct eh_program {
    const struct eh_machine *machine;
    struct bytes instructions;
    uint64_t code_align;
    int64_t data_align;
    uint64_t start; /* addresses that it covers; the end may be cut to those of interest */
    uint64_t end;
    const struct eh_state *initial; /* DW_CFA_restore goes back to it */
    int (*emit)(void *context, uint64_t start, uint64_t end, const struct eh_state *state);
    void *context;
};

/* The state before any instruction. */
void eh_state_init(struct eh_state *state, const struct eh_machine *machine);
/* Runs from *state, which becomes the state at the end. Without emit: a CIE's instructions. */
int eh_cfa_run(const struct eh_program *program, struct eh_state *state);
void eh_rule(const struct eh_state *state, const struct eh_machine *machine, uint8_t flags,
             struct unwind_rule *rule);

/* eh_expression.c: .how = UNWIND_UNKNOWN, .place = EH_PLACE_UNKNOWN if it is of another form. */
struct eh_cfa eh_expression_cfa(struct bytes expression, const struct eh_machine *machine);
struct eh_slot eh_expression_slot(struct bytes expression, const struct eh_machine *machine);

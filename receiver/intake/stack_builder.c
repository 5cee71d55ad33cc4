/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/stack_builder.h"
#include "agent-bpf/unwind_rows.h"
#include <assert.h>
#include <string.h>

void stack_builder_init(struct stack_builder *builder)
{
    builder->n = 0; /* arrays are written before they are read */
    builder->n_codes = 0;
}

struct frame *stack_builder_add(struct stack_builder *builder, enum frame_kind kind,
                                uint64_t address)
{
    assert(builder->n <= STACK_BUILDER_MAX);
    if (builder->n + 1 >= STACK_BUILDER_MAX)
        return NULL;
    builder->identities[builder->n] = NULL;
    struct frame *frame = &builder->frames[builder->n++];
    *frame = (struct frame){.kind = (uint8_t)kind, .address = address};
    return frame;
}

void stack_builder_want_names(struct stack_builder *builder, const uint8_t *identity)
{
    assert(builder->n > 0);
    builder->identities[builder->n - 1] = identity;
}

/* STACK_BUILDER_CODES: no room. */
static uint32_t code_index(struct stack_builder *builder, const struct record_frame *code)
{
    for (uint32_t i = builder->n_codes; i > 0; i--) /* recursion: mostly among the last ones */
        if (record_frame_equal(&builder->codes[i - 1], code))
            return i - 1;
    if (builder->n_codes == STACK_BUILDER_CODES)
        return STACK_BUILDER_CODES;
    builder->codes[builder->n_codes] = *code;
    return builder->n_codes++;
}

void stack_builder_add_code(struct stack_builder *builder, const struct record_frame *code)
{
    struct frame *frame = stack_builder_add(builder, STACK_FRAME_SPECIAL, 0);
    if (!frame)
        return;
    frame->executable = FRAME_UNNAMED;
    frame->address = UNNAMED_ADDRESS(record_frame_kind(code->words[0]), code_index(builder, code));
}

void stack_builder_end(struct stack_builder *builder, uint8_t end)
{
    if (end == UNWIND_END_OF_STACK)
        return;
    assert(builder->n < STACK_BUILDER_MAX);
    builder->identities[builder->n] = NULL;
    builder->frames[builder->n++] =
        (struct frame){.kind = STACK_FRAME_SPECIAL, .executable = FRAME_TRUNCATION, .address = end};
}

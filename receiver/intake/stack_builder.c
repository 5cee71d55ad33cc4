/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/stack_builder.h"
#include "agent-bpf/unwind_rows.h"
#include <assert.h>
#include <string.h>

void stack_builder_init(struct stack_builder *builder)
{
    builder->n = 0; /* other fields are written before they are read */
}

struct frame *stack_builder_add(struct stack_builder *builder, enum frame_kind kind,
                                uint64_t address)
{
    assert(builder->n <= STACK_BUILDER_MAX);
    if (builder->n >= RECORD_MAX_FRAME_WORDS)
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

void stack_builder_copy(struct stack_builder *builder, const struct frame *frames, size_t n)
{
    size_t room = STACK_BUILDER_MAX - builder->n;
    n = n < room ? n : room;
    if (!n)
        return;
    memcpy(builder->frames + builder->n, frames, n * sizeof(*frames));
    memset(builder->identities + builder->n, 0, n * sizeof(*builder->identities));
    builder->n += n;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "store/stacks/stack_dictionary.h"

static int dictionary_canonical(void *context, int64_t id, int64_t *canonical)
{
    return stacks_canonical(context, id, canonical);
}

static int dictionary_frames(void *context, int64_t id, const struct frame **frames, size_t *n)
{
    return stacks_frames(context, id, frames, n);
}

static int public_id(void *context, int64_t id, uint8_t out[16])
{
    return stacks_public_id(context, id, out);
}

static int dictionary_executable(void *context, int64_t id, const struct executable_facts **facts)
{
    return stacks_executable_get(context, id, facts);
}

static int dictionary_name(void *context, const struct frame *frame, struct frame_name *name)
{
    return stacks_name(context, frame, name);
}

struct stack_dictionary stack_dictionary_of(struct stacks *stacks)
{
    return (struct stack_dictionary){stacks,    dictionary_canonical,  dictionary_frames,
                                     public_id, dictionary_executable, dictionary_name};
}

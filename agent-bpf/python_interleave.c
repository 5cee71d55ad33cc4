/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both lists go from the innermost frame outwards, and so do addresses on the stack. Entries below
 * an activation's CFA that were not taken yet belong to it, or to an activation within that is not
 * among the native frames (code of a JIT, a part of the function that is not known): these are
 * within what this activation has called, so their frames go here.
 */
#include "agent-bpf/python_interleave.h"
#include "agent-bpf/record_frame.h"
#include <string.h>

struct merge {
    const uint64_t *next, *end; /* what is left of the list */
    uint64_t *out;
    size_t n_out;
};

static void merge_add(struct merge *merge, const struct record_frame *frame)
{
    size_t n = record_frame_words(record_frame_kind(frame->words[0]));
    memcpy(merge->out + merge->n_out, frame->words, n * sizeof(*frame->words));
    merge->n_out += n;
}

/* Passes the list up to `end`: frames go to the result, entries do not. True: there was a frame. */
static bool merge_take(struct merge *merge, const uint64_t *end)
{
    struct record_frame frame;
    bool any = false;
    while (record_frame_next(&merge->next, end, &frame)) {
        if (record_frame_kind(frame.words[0]) != FRAME_PYTHON)
            continue;
        merge_add(merge, &frame);
        any = true;
    }
    merge->next = end;
    return any;
}

/* Where the next group of frames ends, behind its entry. False: the list was cut in this group,
 * which ends where the list does. */
static bool group_find(const struct merge *merge, const uint64_t **end, uint64_t *entry)
{
    struct record_frame frame;
    *end = merge->next;
    *entry = 0;
    while (record_frame_next(end, merge->end, &frame)) {
        *entry = record_frame_address(frame.words[0]);
        if (record_frame_kind(frame.words[0]) == FRAME_PYTHON_ENTRY)
            return true;
    }
    *end = merge->end;
    return false;
}

/* The groups that belong to the activation with this CFA. The frames of a group without an entry
 * belong to it if no other group does. */
static bool merge_take_below(struct merge *merge, uint64_t cfa)
{
    bool any = false, first = true;
    for (; merge->next < merge->end; first = false) {
        const uint64_t *end;
        uint64_t entry;
        bool whole = group_find(merge, &end, &entry);
        if (whole ? entry >= cfa : !first || !cfa)
            break;
        any = merge_take(merge, end) || any;
        if (!entry) /* one for each activation */
            break;
    }
    return any;
}

struct facts { /* of a list of words */
    size_t n_evaluations, n_python;
    bool counted; /* entries have no address */
    bool cut;
};

static struct facts facts_of(const uint64_t *at, size_t n)
{
    struct facts facts = {0};
    const uint64_t *end = at + n;
    struct record_frame frame = {{0}};
    while (record_frame_next(&at, end, &frame)) {
        enum record_frame_kind kind = record_frame_kind(frame.words[0]);
        facts.n_evaluations += kind == FRAME_NATIVE_EVAL;
        facts.n_python += kind == FRAME_PYTHON;
        if (kind == FRAME_PYTHON_ENTRY && !record_frame_address(frame.words[0]))
            facts.counted = true;
    }
    facts.cut = n && record_frame_kind(frame.words[0]) != FRAME_PYTHON_ENTRY;
    return facts;
}

size_t python_interleave(const struct python_interleave *stack, uint64_t *out, unsigned *remarks)
{
    struct facts user = facts_of(stack->user, stack->n_user);
    struct facts list = facts_of(stack->list, stack->n_list);
    struct merge merge = {.next = stack->list, .end = stack->list + stack->n_list, .out = out};
    const uint64_t *at = stack->user, *end = at + stack->n_user;
    struct record_frame frame;
    /* Of those that are counted, the innermost activation may have no frame yet, or no more;
     * several have none if they belong to an interpreter within. */
    size_t n_empty = list.counted && !list.cut && user.n_evaluations > list.n_python
                         ? user.n_evaluations - list.n_python
                         : 0;
    while (record_frame_next(&at, end, &frame)) {
        bool evaluates = record_frame_kind(frame.words[0]) == FRAME_NATIVE_EVAL;
        if (evaluates && !n_empty && merge_take_below(&merge, frame.words[1]))
            continue;
        if (evaluates) {
            n_empty -= n_empty > 0;
            frame.words[0] = (frame.words[0] & RECORD_FRAME_MASK) | (uint64_t)FRAME_NATIVE
                                                                        << RECORD_FRAME_SHIFT;
        }
        merge_add(&merge, &frame);
    }
    *remarks = list.cut ? PYTHON_INTERLEAVE_CUT : 0;
    if (merge_take(&merge, merge.end))
        *remarks |= PYTHON_INTERLEAVE_APPENDED;
    return merge.n_out;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both lists go from the innermost frame outwards, and so do addresses on the stack. Entries below
 * an activation's CFA that were not taken yet belong to it, or to an activation within that is not
 * among the native frames (code of a JIT, a part of the function that is not known): these are
 * within what this activation has called, so their frames go here.
 *
 * Entries that are counted and activations are paired from the outermost on, if both are known to
 * be there: the innermost activation may have no frame yet, or no more; or its first frame is there
 * and it is not yet. Else they are paired from the innermost on.
 */
#include "agent-bpf/list_interleave.h"
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
static bool merge_pass(struct merge *merge, const uint64_t *end)
{
    struct record_frame frame;
    bool any = false;
    while (record_frame_next(&merge->next, end, &frame)) {
        if (!record_frame_is_listed(frame.words[0]))
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
        if (record_frame_kind(frame.words[0]) == FRAME_LIST_ENTRY)
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
        if (whole ? entry >= cfa || entry == RECORD_LIST_OUTSIDE : !first || !cfa)
            break;
        any = merge_pass(merge, end) || any;
        if (!entry) /* one for each activation */
            break;
    }
    return any;
}

/* The groups of activations that are not among the native frames: within the next one. */
static bool merge_take_groups(struct merge *merge, size_t n)
{
    bool any = false;
    const uint64_t *end;
    uint64_t entry;
    for (; n && group_find(merge, &end, &entry); n--)
        any = merge_pass(merge, end) || any;
    return any;
}

struct facts {                   /* of the list */
    enum record_frame_kind kind; /* of its frames */
    size_t n_entries;
    bool counted; /* entries have no address */
    bool cut;
    bool begins_outside; /* its outermost frames are of no activation */
};

static struct facts facts_of(const struct list_interleave *stack)
{
    struct facts facts = {0};
    const uint64_t *at = stack->list, *end = at + stack->n_list;
    struct record_frame frame = {{0}};
    while (record_frame_next(&at, end, &frame)) {
        enum record_frame_kind kind = record_frame_kind(frame.words[0]);
        bool is_entry = kind == FRAME_LIST_ENTRY;
        if (!facts.kind && record_frame_is_listed(frame.words[0]))
            facts.kind = kind;
        uint64_t address = record_frame_address(frame.words[0]);
        facts.n_entries += is_entry && address != RECORD_LIST_OUTSIDE;
        facts.counted |= is_entry && !address;
    }
    facts.cut = stack->n_list && record_frame_kind(frame.words[0]) != FRAME_LIST_ENTRY;
    facts.begins_outside =
        !facts.cut && record_frame_address(frame.words[0]) == RECORD_LIST_OUTSIDE;
    return facts;
}

enum evaluation {
    EVALUATION_NONE,  /* not of this list */
    EVALUATION_INNER, /* a part of the activation that is its caller */
    EVALUATION,
};

static enum evaluation evaluation_of(const struct record_frame *frame, const struct facts *list)
{
    if (record_frame_kind(frame->words[0]) != FRAME_NATIVE_EVAL ||
        record_frame_kind(frame->words[1]) != list->kind)
        return EVALUATION_NONE;
    return frame->words[1] & RECORD_EVAL_INNER ? EVALUATION_INNER : EVALUATION;
}

static size_t count_evaluations(const struct list_interleave *stack, const struct facts *list)
{
    const uint64_t *at = stack->user, *end = at + stack->n_user;
    struct record_frame frame;
    size_t n = 0;
    while (record_frame_next(&at, end, &frame))
        n += evaluation_of(&frame, list) == EVALUATION;
    return n;
}

/* Words of it. */
static size_t merge_native(struct merge *merge, struct record_frame *frame)
{
    size_t before = merge->n_out;
    if (record_frame_kind(frame->words[0]) == FRAME_NATIVE_EVAL)
        frame->words[0] = (frame->words[0] & RECORD_FRAME_MASK) | (uint64_t)FRAME_NATIVE
                                                                      << RECORD_FRAME_SHIFT;
    merge_add(merge, frame);
    return merge->n_out - before;
}

/* The list's frames in place of those of an activation: of the frame, and of the `inner` words in
 * front of it. False: it has none. *n_more: groups of activations within, which were taken. */
static bool merge_take(struct merge *merge, const struct record_frame *frame, size_t inner,
                       size_t *n_more)
{
    merge->n_out -= inner;
    bool any = merge_take_groups(merge, *n_more);
    *n_more = 0;
    any = merge_take_below(merge, record_frame_address(frame->words[1])) || any;
    merge->n_out += any ? 0 : inner;
    return any;
}

size_t list_interleave(const struct list_interleave *stack, uint64_t *out, unsigned *remarks)
{
    struct facts list = facts_of(stack);
    size_t n_evaluations = count_evaluations(stack, &list), n_entries = list.n_entries;
    struct merge merge = {.next = stack->list, .end = stack->list + stack->n_list, .out = out};
    const uint64_t *at = stack->user, *end = at + stack->n_user;
    struct record_frame frame;
    bool paired = list.counted && !list.cut;
    size_t n_empty = paired && n_evaluations > n_entries ? n_evaluations - n_entries : 0;
    size_t n_more =
        paired && stack->whole && n_entries > n_evaluations ? n_entries - n_evaluations : 0;
    size_t inner = 0; /* words of the frame in front: it is a part of this activation */
    while (record_frame_next(&at, end, &frame)) {
        enum evaluation evaluation = evaluation_of(&frame, &list);
        if (evaluation == EVALUATION && !n_empty && merge_take(&merge, &frame, inner, &n_more)) {
            inner = 0;
            continue;
        }
        n_empty -= evaluation == EVALUATION && n_empty;
        inner = merge_native(&merge, &frame);
        inner = evaluation == EVALUATION_INNER ? inner : 0;
    }
    *remarks = list.cut ? LIST_INTERLEAVE_CUT : 0;
    if (merge_pass(&merge, merge.end) && !list.begins_outside)
        *remarks |= LIST_INTERLEAVE_APPENDED;
    return merge.n_out;
}

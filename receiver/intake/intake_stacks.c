/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record's stack is built, then interned. If the symbolizer has to be asked, the stack gets a row
 * with open frames instead, which the answer completes.
 */
#include "receiver/intake/intake_stacks.h"
#include "agent-bpf/drain/ring.h"
#include "agent-bpf/list_interleave.h"
#include "base/stats.h"
#include "store/stacks/stacks_unfinished.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static const char *const end_names[] = {
    [UNWIND_END_TRUNCATED] = "depth",         [UNWIND_END_NO_MEMORY] = "memory",
    [UNWIND_END_NO_PROGRESS] = "no_progress", [UNWIND_END_BAD_ADDRESS] = "bad_address",
    [UNWIND_END_UNKNOWN] = "no_unwind_info",  [UNWIND_END_WANTED] = "not_loaded",
    [UNWIND_END_FOREIGN] = "foreign",
};
STAT_LOSSES(truncated, "spanprof_stacks_truncated_total",
            "Samples whose stack could not be followed to its outermost frame, by reason.",
            STAT_LABEL("reason", end_names, UNWIND_ENDS), .absent = STAT_BIT(UNWIND_END_OF_STACK));

static void count_truncated(uint8_t end, size_t n)
{
    if (end != UNWIND_END_OF_STACK)
        stat_add_of(&truncated, end, (int64_t)n);
}

enum { NOT_ASKED = 1 };

#define FRUITLESS_MAX 3 /* answers without a name, until no more is asked */

struct intake_stacks {
    struct store *store;
    struct intake_frames *frames;
    struct questions *questions;
};

int intake_stacks_open(struct store *store, struct intake_frames *frames,
                       struct questions *questions, struct intake_stacks **out)
{
    struct intake_stacks *stacks = calloc(1, sizeof(*stacks));
    if (!stacks)
        return -ENOMEM;
    *stacks = (struct intake_stacks){.store = store, .frames = frames, .questions = questions};
    *out = stacks;
    return 0;
}

void intake_stacks_close(struct intake_stacks *stacks)
{
    free(stacks);
}

void intake_stacks_forget(struct intake_stacks *stacks)
{
    count_truncated(UNWIND_END_WANTED, questions_forget(stacks->questions));
}

int intake_stacks_expire(struct intake_stacks *stacks, uint64_t now_ns)
{
    size_t n_late;
    int error = questions_expire(stacks->questions, now_ns, &n_late);
    count_truncated(UNWIND_END_WANTED, n_late);
    return error;
}

/* ---- frames ---- */

static struct stack_sample sample_of(const struct record_header *record)
{
    return (struct stack_sample){
        .pid = record->pid, .time_ns = record->time_ns, .tenant = record->cgroup_id};
}

static struct stack_words words_of(const struct record_header *record)
{
    const uint64_t *kernel = record_frames(record), *user = kernel + record->kernel_words;
    return (struct stack_words){.kernel = kernel,
                                .n_kernel = record->kernel_words,
                                .user = user,
                                .n_user = record->user_words,
                                .list = user + record->user_words,
                                .n_list = record->list_words};
}

static size_t count_frames(const uint64_t *words, size_t n)
{
    const uint64_t *at = words, *end = words + n;
    struct record_frame frame;
    size_t frames = 0;
    while (record_frame_next(&at, end, &frame))
        frames++;
    return frames;
}

/* The interpreter's frames go between the native ones. end_of_user: why there are no more of these.
 */
static int words_add(struct intake_frames *frames, struct stack_builder *builder,
                     const struct stack_sample *sample, const struct stack_words *words,
                     uint8_t end_of_user)
{
    uint64_t merged[2 * RECORD_MAX_USER_WORDS];
    const struct list_interleave parts = {words->user, words->n_user, words->list, words->n_list,
                                          end_of_user == UNWIND_END_OF_STACK};
    struct record_frame frame;
    unsigned remarks;
    int error = 0;
    for (size_t i = 0; i < words->n_kernel && !error; i++) {
        uint64_t address = record_frame_address(words->kernel[i]);
        error = intake_frames_add_kernel(frames, builder, address - (i && address));
    }
    assert(words->n_user + words->n_list <= sizeof(merged) / sizeof(*merged));
    const uint64_t *at = merged, *end = merged + list_interleave(&parts, merged, &remarks);
    while (!error && record_frame_next(&at, end, &frame))
        error = intake_frames_add_user(frames, builder, sample, &frame);
    return error;
}

/* Why there are no further user frames. */
static uint8_t record_end(const struct record_header *record)
{
    const struct stack_words words = words_of(record);
    bool cut = record->flags & RECORD_FLAG_TRUNCATED;
    if (cut && record->end == UNWIND_END_OF_STACK)
        return UNWIND_END_TRUNCATED;
    if (record->end == UNWIND_END_WANTED &&
        count_frames(words.user, words.n_user) >= RECORD_MAX_USER_FRAMES)
        return UNWIND_END_TRUNCATED;
    return record->end;
}

/* ---- rows ---- */

static int stack_intern(struct intake_stacks *stacks, const struct stack_builder *builder,
                        const struct stack_sample *sample, int64_t *id)
{
    bool names_wanted = false;
    int error =
        stacks_intern(store_stacks(stacks->store), builder->frames, builder->n, id, &names_wanted);
    if (!error && names_wanted)
        questions_want_names(stacks->questions, builder, *id, sample);
    return error;
}

/* Asks for the rest of the stack. The frame whose caller is unknown is itself known. NOT_ASKED: the
 * builder's frames are the whole stack. */
static int walk_row(struct intake_stacks *stacks, struct stack_builder *builder,
                    const struct record_header *record, int64_t *id)
{
    const struct stack_sample sample = sample_of(record);
    const struct stack_words words = words_of(record);
    const struct record_stack *stack = record_stack(record);
    const struct record_frame last = record_frame_native(stack->pc, stack->is_return);
    struct question *question =
        questions_new_walk(stacks->questions, &sample, &words, sizeof(*stack) + stack->size);
    int error = intake_frames_add_user(stacks->frames, builder, &sample, &last);
    stack_builder_end(builder, UNWIND_END_WANTED);
    if (error) {
        free(question);
        return error;
    }
    if (!question || questions_ask_walk(stacks->questions, question, stack))
        return NOT_ASKED;
    return questions_put(stacks->questions, question, builder, id);
}

/* The frames are complete; asks for unknown names of code outside files first. */
static int code_row(struct intake_stacks *stacks, struct stack_builder *builder,
                    const struct stack_sample *sample, int64_t *id)
{
    struct record_frame wanted[RECORD_MAX_USER_FRAMES];
    uint32_t n = intake_frames_name_code(stacks->frames, builder, sample, wanted);
    struct question *question =
        n ? questions_new_code(stacks->questions, sample, builder, n) : NULL;
    if (!question || questions_ask_code(stacks->questions, question, wanted))
        return stack_intern(stacks, builder, sample, id);
    return questions_put(stacks->questions, question, builder, id);
}

int intake_stacks_row(struct intake_stacks *stacks, const struct record_header *record, int64_t *id)
{
    const struct stack_sample sample = sample_of(record);
    const struct stack_words words = words_of(record);
    uint8_t end = record_end(record);
    struct stack_builder builder;
    stack_builder_init(&builder);
    int outcome = words_add(stacks->frames, &builder, &sample, &words, end);
    if (outcome)
        return outcome;
    if (end == UNWIND_END_WANTED && record->flags & RECORD_FLAG_STACK && record->pid) {
        outcome = walk_row(stacks, &builder, record, id);
        if (outcome != NOT_ASKED)
            return outcome;
    } else {
        stack_builder_end(&builder, end);
    }
    count_truncated(end, 1);
    return code_row(stacks, &builder, &sample, id);
}

/* ---- answers ---- */

static size_t words_append(uint64_t *words, size_t n, const struct record_frame *frame)
{
    uint32_t more = record_frame_words(record_frame_kind(frame->words[0]));
    memcpy(words + n, frame->words, more * sizeof(*words));
    return n + more;
}

/* The stack with the rest that was found. */
static int answer_add(struct intake_stacks *stacks, struct stack_builder *builder,
                      const struct question *question, const struct symbolizer_unwound *unwound)
{
    uint64_t user[RECORD_MAX_USER_WORDS + RECORD_FRAME_WORDS_MAX];
    struct stack_words words = question->words;
    size_t room = RECORD_MAX_USER_FRAMES - count_frames(words.user, words.n_user);
    uint32_t n = unwound->n < room ? unwound->n : (uint32_t)room;
    uint8_t end = n < unwound->n ? UNWIND_END_TRUNCATED : unwound->end;
    memcpy(user, words.user, words.n_user * sizeof(*user));
    words.user = user;
    for (uint32_t i = 0; i < n; i++)
        words.n_user = words_append(user, words.n_user, &unwound->frames[i]);
    const struct record_frame last = record_frame_native(question->pc, question->is_return);
    if (!unwound->n) /* nothing found: the stack stays as it was */
        words.n_user = words_append(user, words.n_user, &last);
    stack_builder_init(builder);
    int error = words_add(stacks->frames, builder, &question->sample, &words, end);
    stack_builder_end(builder, end);
    if (!error)
        count_truncated(end, 1);
    return error;
}

/* outcome: result of building the stack. */
static int question_finish(struct intake_stacks *stacks, struct question *question,
                           const struct stack_builder *builder, int outcome)
{
    struct stacks *store = store_stacks(stacks->store);
    int64_t same_as;
    int error = outcome ? outcome : stack_intern(stacks, builder, &question->sample, &same_as);
    if (!error)
        error = stacks_finish_frames(store, question->stack, same_as);
    bool forgotten = error == -ESTALE || error == -ENOENT;
    if (forgotten) {
        stacks_close_frames(store, question->stack, STACK_FORGOTTEN);
        count_truncated(UNWIND_END_WANTED, 1);
    }
    questions_end(stacks->questions, question);
    return forgotten ? 0 : error;
}

/* Keeps the row open for names of code that are not known yet. false: nothing to wait for, or in
 * vain. */
static bool wait_for_code(struct intake_stacks *stacks, struct question *question,
                          struct stack_builder *builder)
{
    struct record_frame wanted[RECORD_MAX_USER_FRAMES];
    uint32_t n = intake_frames_name_code(stacks->frames, builder, &question->sample, wanted);
    bool fruitless = question->kind == QUESTION_CODE && n >= question->n_wanted;
    uint32_t n_fruitless = fruitless ? question->n_fruitless + 1 : 0;
    struct question *next =
        n && n_fruitless < FRUITLESS_MAX
            ? questions_new_code(stacks->questions, &question->sample, builder, n)
            : NULL;
    if (!next || questions_ask_code(stacks->questions, next, wanted))
        return false;
    next->n_fruitless = n_fruitless;
    questions_want_names(stacks->questions, builder, question->stack, &question->sample);
    return questions_replace(stacks->questions, question, next);
}

int intake_stacks_answer(struct intake_stacks *stacks, const struct symbolizer_unwound *unwound)
{
    struct question *question = questions_find_walk(stacks->questions, unwound->ticket);
    struct stack_builder builder;
    if (!question)
        return 0; /* late */
    int error = answer_add(stacks, &builder, question, unwound);
    if (!error && wait_for_code(stacks, question, &builder))
        return 0;
    return question_finish(stacks, question, &builder, error);
}

/* may_have_more: not all that was asked for was answered. */
static int code_answered(struct intake_stacks *stacks, struct question *question,
                         bool may_have_more)
{
    struct stack_builder builder;
    question_restore(question, &builder);
    if (may_have_more && wait_for_code(stacks, question, &builder))
        return 0;
    intake_frames_name_code(stacks->frames, &builder, &question->sample, NULL);
    return question_finish(stacks, question, &builder, 0);
}

int intake_stacks_code(struct intake_stacks *stacks, const struct symbolizer_code *code)
{
    struct list waiters = LIST_INIT(waiters), *link;
    uint64_t time_ns;
    if (!questions_code_answered(stacks->questions, code, &waiters, &time_ns))
        return 0; /* late */
    int error = intake_frames_put_code(stacks->frames, time_ns, code);
    bool may_have_more = code->n_frames || code->cut; /* not all fitted, or were named in time */
    while ((link = list_pop(&waiters)))
        if (!error)
            error = code_answered(stacks, question_of_waiter(link), may_have_more);
    return error;
}

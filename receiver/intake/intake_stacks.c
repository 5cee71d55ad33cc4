/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record's stack is built, then interned. If the symbolizer has to be asked, the stack gets a row
 * with open frames instead, which the answer completes.
 */
#include "receiver/intake/intake_stacks.h"
#include "agent-bpf/drain/ring.h"
#include "base/stats.h"
#include "store/stacks/stacks_unfinished.h"
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

/* A return address points after its call, perhaps into the next function or line. The frame's
 * address must lie in the call itself. */
static uint64_t call_address(uint64_t address, bool is_return)
{
    return is_return && address ? address - 1 : address;
}

static int words_add(struct intake_frames *frames, struct stack_builder *builder,
                     const struct record_header *record)
{
    const uint64_t *words = record_frames(record);
    size_t n = (size_t)record->kernel_words + record->user_words;
    int error = 0;
    for (size_t i = 0; i < n && !error; i++) {
        bool user = i >= record->kernel_words;
        bool is_return = user ? !record_frame_is_exact(words[i]) : i > 0;
        uint64_t address = call_address(record_frame_address(words[i]), is_return);
        error = user
                    ? intake_frames_add_user(frames, builder, record->pid, record->time_ns, address)
                    : intake_frames_add_kernel(frames, builder, address);
    }
    return error;
}

/* Why there are no further user frames. */
static uint8_t record_end(const struct record_header *record)
{
    bool cut = record->flags & RECORD_FLAG_TRUNCATED;
    bool full = record->user_words >= RECORD_MAX_USER_FRAMES;
    if ((cut && record->end == UNWIND_END_OF_STACK) || (full && record->end == UNWIND_END_WANTED))
        return UNWIND_END_TRUNCATED;
    return record->end;
}

static bool can_go_on(const struct record_header *record)
{
    return record->flags & RECORD_FLAG_STACK && record_end(record) == UNWIND_END_WANTED &&
           record->pid;
}

/* ---- rows ---- */

static int stack_intern(struct intake_stacks *stacks, const struct stack_builder *builder,
                        uint64_t time_ns, int64_t *id)
{
    bool names_wanted = false;
    int error =
        stacks_intern(store_stacks(stacks->store), builder->frames, builder->n, id, &names_wanted);
    if (!error && names_wanted)
        questions_want_names(stacks->questions, builder, *id, time_ns);
    return error;
}

/* Asks for the rest of the stack. The frame whose caller is unknown is itself known. NOT_ASKED: the
 * builder's frames are the whole stack. */
static int walk_row(struct intake_stacks *stacks, struct stack_builder *builder,
                    const struct record_header *record, int64_t *id)
{
    const struct record_stack *stack = record_stack(record);
    struct question *question = questions_new(stacks->questions, QUESTION_WALK, record, builder,
                                              sizeof(*stack) + stack->size);
    int error = intake_frames_add_user(stacks->frames, builder, record->pid, record->time_ns,
                                       call_address(stack->pc, stack->is_return));
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
                    const struct record_header *record, int64_t *id)
{
    uint64_t addresses[RECORD_MAX_USER_FRAMES];
    uint32_t n =
        intake_frames_name_code(stacks->frames, builder, record->pid, record->time_ns, addresses);
    struct question *question =
        n ? questions_new(stacks->questions, QUESTION_CODE, record, builder, n * sizeof(*addresses))
          : NULL;
    if (!question || questions_ask_code(stacks->questions, question, addresses, n))
        return stack_intern(stacks, builder, record->time_ns, id);
    return questions_put(stacks->questions, question, builder, id);
}

int intake_stacks_row(struct intake_stacks *stacks, const struct record_header *record, int64_t *id)
{
    struct stack_builder builder;
    stack_builder_init(&builder);
    int outcome = words_add(stacks->frames, &builder, record);
    if (outcome)
        return outcome;
    if (can_go_on(record)) {
        outcome = walk_row(stacks, &builder, record, id);
        if (outcome != NOT_ASKED)
            return outcome;
    } else {
        stack_builder_end(&builder, record_end(record));
    }
    count_truncated(record_end(record), 1);
    return code_row(stacks, &builder, record, id);
}

/* ---- answers ---- */

static int answer_add(struct intake_stacks *stacks, struct stack_builder *builder,
                      const struct question *question, const struct symbolizer_unwound *unwound)
{
    uint32_t room = RECORD_MAX_USER_FRAMES - question->n_user;
    uint32_t n = unwound->n < room ? unwound->n : room;
    uint8_t end = n < unwound->n ? UNWIND_END_TRUNCATED : unwound->end;
    int error = 0;
    stack_builder_init(builder);
    stack_builder_copy(builder, question->frames, question->n);
    for (uint32_t i = 0; i < n && !error; i++)
        error = intake_frames_add_user(
            stacks->frames, builder, question->pid, question->time_ns,
            call_address(unwound->frames[i].pc, unwound->frames[i].is_return));
    if (!error && !unwound->n) /* nothing found: the stack stays as it was */
        error = intake_frames_add_user(stacks->frames, builder, question->pid, question->time_ns,
                                       call_address(question->pc, question->is_return));
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
    int error = outcome ? outcome : stack_intern(stacks, builder, question->time_ns, &same_as);
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

/* Keeps the row open for names of code in the rest of the stack. false: nothing to wait for. */
static bool wait_for_code(struct intake_stacks *stacks, struct question *question,
                          struct stack_builder *builder)
{
    uint64_t addresses[RECORD_MAX_USER_FRAMES];
    uint32_t n = intake_frames_name_code(stacks->frames, builder, question->pid, question->time_ns,
                                         addresses);
    struct question *next =
        n ? questions_next(stacks->questions, question, builder, n * sizeof(*addresses)) : NULL;
    if (!next || questions_ask_code(stacks->questions, next, addresses, n))
        return false;
    questions_want_names(stacks->questions, builder, question->stack, question->time_ns);
    return questions_replace(stacks->questions, question, next);
}

int intake_stacks_answer(struct intake_stacks *stacks, const struct symbolizer_unwound *unwound)
{
    struct question *question = questions_find(stacks->questions, unwound->ticket, QUESTION_WALK);
    struct stack_builder builder;
    if (!question)
        return 0; /* late */
    int error = answer_add(stacks, &builder, question, unwound);
    if (!error && wait_for_code(stacks, question, &builder))
        return 0;
    return question_finish(stacks, question, &builder, error);
}

int intake_stacks_code(struct intake_stacks *stacks, const struct symbolizer_code *code)
{
    struct question *question = questions_find(stacks->questions, code->ticket, QUESTION_CODE);
    struct stack_builder builder;
    if (!question || question->pid != code->pid)
        return 0; /* late */
    int error = intake_frames_put_code(stacks->frames, question->time_ns, code);
    if (error)
        return error;
    stack_builder_init(&builder);
    stack_builder_copy(&builder, question->frames, question->n);
    intake_frames_name_code(stacks->frames, &builder, question->pid, question->time_ns, NULL);
    return question_finish(stacks, question, &builder, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A promise keeps the frames that the tick found, so that the answer need only bring the others. It
 * is known to the symbolizer by a number of its own that never comes again: rowids do, after a
 * rollback.
 */
#include "receiver/intake/intake_stacks.h"
#include "agent-bpf/drain/ring.h"
#include "base/list.h"
#include "base/map.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum not_promised { NOT_PROMISED_FULL, NOT_PROMISED_UNKNOWN, NOT_PROMISED_MEMORY, NOT_PROMISED };
enum given_up { GIVEN_UP_LATE, GIVEN_UP_FORGOTTEN, GIVEN_UP_ROLLED_BACK, GIVEN_UP };

static const char *const not_promised_names[] = {[NOT_PROMISED_FULL] = "full",
                                                 [NOT_PROMISED_UNKNOWN] = "process_unknown",
                                                 [NOT_PROMISED_MEMORY] = "memory"};
static const char *const given_up_names[] = {[GIVEN_UP_LATE] = "late",
                                             [GIVEN_UP_FORGOTTEN] = "executable_forgotten",
                                             [GIVEN_UP_ROLLED_BACK] = "rolled_back"};
static const char *const end_names[UNWIND_ENDS] = {
    [UNWIND_END_TRUNCATED] = "depth",         [UNWIND_END_NO_MEMORY] = "memory",
    [UNWIND_END_NO_PROGRESS] = "no_progress", [UNWIND_END_BAD_ADDRESS] = "bad_address",
    [UNWIND_END_UNKNOWN] = "no_unwind_info",  [UNWIND_END_WANTED] = "not_loaded",
    [UNWIND_END_FOREIGN] = "foreign",
};
STAT_COUNTERS(not_promised, "spanprof_stacks_not_promised_total",
              "Stacks that were to be gone on with, and for which it was not tried, by reason.",
              STAT_LABEL("reason", not_promised_names, NOT_PROMISED));
STAT_LOSSES(given_up, "spanprof_stacks_promises_given_up_total",
            "Promised stacks that stayed as the tick left them, by reason.",
            STAT_LABEL("reason", given_up_names, GIVEN_UP));
STAT_LOSSES(truncated, "spanprof_stacks_truncated_total",
            "Samples whose stack could not be followed to its outermost frame, by reason.",
            STAT_LABEL("reason", end_names, UNWIND_ENDS), .absent = STAT_BIT(UNWIND_END_OF_STACK));
STAT_COUNTER(promised, "spanprof_stacks_promised_total",
             "Stacks that the symbolizer was asked to go on with.");
STAT_COUNTER(fulfilled, "spanprof_stacks_promises_fulfilled_total",
             "Promised stacks that the symbolizer has gone on with.");
STAT_GAUGE(open_promises, "spanprof_stacks_promises_open", "Promised stacks without answer.");

enum { NO_PROMISE = 1 };

struct promise {
    uint64_t ticket; /* the symbolizer's name for it */
    struct list age;
    int64_t stack; /* row */
    uint64_t time_ns;
    uint64_t pc;
    uint32_t pid;
    bool is_return;
    bool names_wanted; /* of code without a file; the frames are whole */
    uint16_t n_user;
    size_t bytes; /* with the copy, which may wait to be sent */
    size_t n;
    struct frame frames[];
};

struct intake_stacks {
    struct store *store;
    struct process_table *table;
    struct frames *frames;
    struct map promises;
    struct list ages; /* oldest first */
    size_t bytes;
    uint64_t last_ticket;
};

int intake_stacks_open(struct store *store, struct process_table *table, struct frames *frames,
                       struct intake_stacks **stacksp)
{
    struct intake_stacks *stacks = calloc(1, sizeof(*stacks));
    if (!stacks)
        return -ENOMEM;
    *stacks = (struct intake_stacks){.store = store, .table = table, .frames = frames};
    MAP_INIT(&stacks->promises, struct promise, ticket);
    list_init(&stacks->ages);
    *stacksp = stacks;
    return 0;
}

/* Promises */

static void forget_promise(struct intake_stacks *stacks, struct promise *promise)
{
    map_remove(&stacks->promises, &promise->ticket);
    list_remove(&promise->age);
    stacks->bytes -= promise->bytes;
    free(promise);
    stat_set(&open_promises, (int64_t)stacks->promises.count);
}

static void count_truncated(uint8_t end)
{
    if (end != UNWIND_END_OF_STACK)
        stat_add_of(&truncated, end, 1);
}

static void give_up(struct intake_stacks *stacks, struct promise *promise, enum given_up why)
{
    stacks_give_up(store_stacks(stacks->store), promise->stack);
    stat_add_of(&given_up, why, 1);
    count_truncated(UNWIND_END_WANTED);
    forget_promise(stacks, promise);
}

static void give_up_all(struct intake_stacks *stacks, enum given_up why)
{
    struct list *link;
    while ((link = list_first(&stacks->ages)))
        give_up(stacks, container_of(link, struct promise, age), why);
}

void intake_stacks_forget(struct intake_stacks *stacks)
{
    give_up_all(stacks, GIVEN_UP_ROLLED_BACK);
}

void intake_stacks_close(struct intake_stacks *stacks)
{
    if (!stacks)
        return;
    struct list *link;
    while ((link = list_first(&stacks->ages)))
        forget_promise(stacks, container_of(link, struct promise, age));
    map_close(&stacks->promises);
    free(stacks);
}

void intake_stacks_expire(struct intake_stacks *stacks, uint64_t now_ns)
{
    struct list *link;
    while ((link = list_first(&stacks->ages))) {
        struct promise *promise = container_of(link, struct promise, age);
        if (now_ns < promise->time_ns + STACKS_PROMISE_NS)
            break;
        give_up(stacks, promise, GIVEN_UP_LATE);
    }
}

/* Of the frames at hand; request_bytes may wait to be sent. NULL without memory, or beyond a limit;
 * counted. */
static struct promise *new_promise(struct intake_stacks *stacks, uint32_t pid, uint64_t time_ns,
                                   size_t request_bytes)
{
    size_t n;
    const struct frame *frames = frames_at_hand(stacks->frames, &n);
    size_t bytes = sizeof(struct promise) + n * sizeof(*frames) + request_bytes;
    if (stacks->promises.count >= STACKS_PROMISED_MAX ||
        stacks->bytes + bytes > STACKS_PROMISED_BYTES) {
        stat_add_of(&not_promised, NOT_PROMISED_FULL, 1);
        return NULL;
    }
    struct promise *promise = calloc(1, sizeof(*promise) + n * sizeof(*frames));
    if (!promise) {
        stat_add_of(&not_promised, NOT_PROMISED_MEMORY, 1);
        return NULL;
    }
    promise->ticket = ++stacks->last_ticket;
    promise->time_ns = time_ns;
    promise->pid = pid;
    promise->bytes = bytes;
    promise->n = n;
    if (n)
        memcpy(promise->frames, frames, n * sizeof(*frames));
    return promise;
}

static int ask_symbolizer(struct intake_stacks *stacks, const struct promise *promise,
                          const struct record_stack *stack)
{
    int outcome = process_table_want_unwind(stacks->table,
                                            &(struct process_unwind){.ticket = promise->ticket,
                                                                     .pid = promise->pid,
                                                                     .time_ns = promise->time_ns,
                                                                     .stack = stack});
    if (outcome)
        stat_add_of(&not_promised,
                    outcome == PROCESS_UNKNOWN ? NOT_PROMISED_UNKNOWN : NOT_PROMISED_MEMORY, 1);
    return outcome;
}

static int ask_names(struct intake_stacks *stacks, const struct promise *promise,
                     uint64_t *addresses, uint32_t n)
{
    int outcome = process_table_want_code(stacks->table,
                                          &(struct process_code_wanted){.ticket = promise->ticket,
                                                                        .pid = promise->pid,
                                                                        .time_ns = promise->time_ns,
                                                                        .n = n,
                                                                        .addresses = addresses});
    if (outcome)
        stat_add_of(&not_promised,
                    outcome == PROCESS_UNKNOWN ? NOT_PROMISED_UNKNOWN : NOT_PROMISED_MEMORY, 1);
    return outcome;
}

/* Frames */

/* A return address points behind its call, perhaps into the next function or line: the call itself
 * is what ran. */
static uint64_t call_address(uint64_t address, bool is_return)
{
    return is_return && address ? address - 1 : address;
}

static int add_words(struct frames *frames, const struct record_header *record)
{
    const uint64_t *words = record_frames(record);
    size_t n = (size_t)record->kernel_words + record->user_words;
    int error = 0;
    for (size_t i = 0; i < n && !error; i++) {
        bool user = i >= record->kernel_words;
        bool is_return = user ? !record_frame_is_exact(words[i]) : i > 0;
        uint64_t address = call_address(record_frame_address(words[i]), is_return);
        error = user ? frames_add_user(frames, record->pid, record->time_ns, address)
                     : frames_add_kernel(frames, address);
    }
    return error;
}

static int intern(struct intake_stacks *stacks, uint64_t time_ns, int64_t *id)
{
    size_t n;
    bool names_wanted = false;
    const struct frame *frames = frames_at_hand(stacks->frames, &n);
    int error = stacks_intern(store_stacks(stacks->store), frames, n, id, &names_wanted);
    if (!error && names_wanted)
        frames_want_names(stacks->frames, *id, time_ns);
    return error;
}

/* Names are wanted now: who knows how long the process lives. If executables were forgotten the
 * symbolizer was asked in vain, and is again with another ticket. */
static int put_promise(struct intake_stacks *stacks, struct promise *promise)
{
    size_t n;
    const struct frame *frames = frames_at_hand(stacks->frames, &n);
    int error = stacks_promise(store_stacks(stacks->store), frames, n, &promise->stack);
    if (!error && map_put(&stacks->promises, promise, NULL)) {
        stacks_give_up(store_stacks(stacks->store), promise->stack);
        error = -ENOMEM;
    }
    if (error)
        return error;
    frames_want_names(stacks->frames, promise->stack, promise->time_ns);
    list_append(&stacks->ages, &promise->age);
    stacks->bytes += promise->bytes;
    stat_set(&open_promises, (int64_t)stacks->promises.count);
    stat_add(&promised, 1);
    return 0;
}

/* The frame whose caller is looked for is known in any case. 0 or negative errno; NO_PROMISE: the
 * frames at hand are the stack. */
static int promise_rest(struct intake_stacks *stacks, const struct record_header *record,
                        int64_t *id)
{
    const struct record_stack *stack = record_stack(record);
    struct promise *promise =
        new_promise(stacks, record->pid, record->time_ns, sizeof(*stack) + stack->size);
    if (promise) {
        promise->pc = stack->pc;
        promise->is_return = stack->is_return;
        promise->n_user = record->user_words;
    }
    int outcome = frames_add_user(stacks->frames, record->pid, record->time_ns,
                                  call_address(stack->pc, stack->is_return));
    frames_end(stacks->frames, UNWIND_END_WANTED);
    if (!outcome && (!promise || ask_symbolizer(stacks, promise, stack)))
        outcome = NO_PROMISE;
    if (!outcome)
        outcome = put_promise(stacks, promise);
    if (!outcome)
        *id = promise->stack;
    else
        free(promise);
    return outcome;
}

/* Of the frames at hand, which are whole, for names that were asked for. NULL: all that is known of
 * them is at hand. */
static struct promise *promise_of_names(struct intake_stacks *stacks, uint32_t pid,
                                        uint64_t time_ns)
{
    uint64_t addresses[RECORD_MAX_USER_FRAMES];
    uint32_t n = frames_name_code(stacks->frames, pid, time_ns, addresses);
    struct promise *promise = n ? new_promise(stacks, pid, time_ns, n * sizeof(*addresses)) : NULL;
    if (promise && ask_names(stacks, promise, addresses, n)) {
        free(promise);
        return NULL;
    }
    if (promise)
        promise->names_wanted = true;
    return promise;
}

/* The frames at hand, which are whole; with a promise if they are to be named first. */
static int intern_named(struct intake_stacks *stacks, const struct record_header *record,
                        int64_t *id)
{
    struct promise *promise = promise_of_names(stacks, record->pid, record->time_ns);
    if (!promise)
        return intern(stacks, record->time_ns, id);
    int error = put_promise(stacks, promise);
    if (error)
        free(promise);
    else
        *id = promise->stack;
    return error;
}

/* Why there are no further user frames. */
static uint8_t end_of(const struct record_header *record)
{
    bool cut = record->flags & RECORD_FLAG_TRUNCATED;
    bool full = record->user_words >= RECORD_MAX_USER_FRAMES;
    if ((cut && record->end == UNWIND_END_OF_STACK) || (full && record->end == UNWIND_END_WANTED))
        return UNWIND_END_TRUNCATED;
    return record->end;
}

static bool can_go_on(const struct record_header *record)
{
    return record->flags & RECORD_FLAG_STACK && end_of(record) == UNWIND_END_WANTED && record->pid;
}

static int take_as_it_is(struct intake_stacks *stacks, const struct record_header *record)
{
    frames_end(stacks->frames, end_of(record));
    return NO_PROMISE;
}

int intake_stacks_row(struct intake_stacks *stacks, const struct record_header *record, int64_t *id)
{
    frames_begin(stacks->frames);
    int outcome = add_words(stacks->frames, record);
    if (!outcome && can_go_on(record))
        outcome = promise_rest(stacks, record, id);
    else if (!outcome)
        outcome = take_as_it_is(stacks, record);
    if (outcome != NO_PROMISE)
        return outcome;
    count_truncated(end_of(record));
    return intern_named(stacks, record, id);
}

/* Answers */

static int add_answer(struct intake_stacks *stacks, const struct promise *promise,
                      const struct symbolizer_unwound *unwound)
{
    struct frames *frames = stacks->frames;
    uint32_t room = RECORD_MAX_USER_FRAMES - promise->n_user;
    uint32_t n = unwound->n < room ? unwound->n : room;
    uint8_t end = n < unwound->n ? UNWIND_END_TRUNCATED : unwound->end;
    int error = 0;
    frames_begin(frames);
    frames_add(frames, promise->frames, promise->n);
    for (uint32_t i = 0; i < n && !error; i++)
        error = frames_add_user(frames, promise->pid, promise->time_ns,
                                call_address(unwound->frames[i].pc, unwound->frames[i].is_return));
    if (!error && !unwound->n) /* nothing was found: as it was promised */
        error = frames_add_user(frames, promise->pid, promise->time_ns,
                                call_address(promise->pc, promise->is_return));
    frames_end(frames, end);
    count_truncated(error ? UNWIND_END_OF_STACK : end);
    return error;
}

/* outcome: of putting the frames together that are at hand. */
static int fulfil(struct intake_stacks *stacks, struct promise *promise, int outcome)
{
    int64_t same_as;
    int error = outcome ? outcome : intern(stacks, promise->time_ns, &same_as);
    error = error ? error : stacks_fulfil(store_stacks(stacks->store), promise->stack, same_as);
    if (error == -ESTALE || error == -ENOENT) {
        give_up(stacks, promise, GIVEN_UP_FORGOTTEN);
        return 0;
    }
    stat_add(&fulfilled, !error);
    forget_promise(stacks, promise);
    return error;
}

/* The same promise goes on with the frames at hand. False: nothing is waited for. */
static bool wait_for_names(struct intake_stacks *stacks, struct promise *promise)
{
    struct promise *whole = promise_of_names(stacks, promise->pid, promise->time_ns);
    if (!whole)
        return false;
    whole->stack = promise->stack;
    frames_want_names(stacks->frames, whole->stack, whole->time_ns); /* of those in files */
    if (map_put(&stacks->promises, whole, NULL)) {
        free(whole);
        return false;
    }
    list_append(&promise->age, &whole->age); /* in its place */
    stacks->bytes += whole->bytes;
    forget_promise(stacks, promise);
    return true;
}

int intake_stacks_answer(struct intake_stacks *stacks, const struct symbolizer_unwound *unwound)
{
    struct promise *promise = map_get(&stacks->promises, &unwound->ticket);
    if (!promise || promise->names_wanted)
        return 0; /* late */
    int error = add_answer(stacks, promise, unwound);
    if (!error && wait_for_names(stacks, promise))
        return 0;
    return fulfil(stacks, promise, error);
}

static int fulfil_by_names(struct intake_stacks *stacks, struct promise *promise)
{
    frames_begin(stacks->frames);
    frames_add(stacks->frames, promise->frames, promise->n);
    frames_name_code(stacks->frames, promise->pid, promise->time_ns, NULL);
    return fulfil(stacks, promise, 0);
}

int intake_stacks_code(struct intake_stacks *stacks, const struct symbolizer_code *code)
{
    struct promise *promise = map_get(&stacks->promises, &code->ticket);
    if (!promise || !promise->names_wanted || promise->pid != code->pid)
        return 0; /* late */
    int error = frames_put_code(stacks->frames, promise->time_ns, code);
    return error ? error : fulfil_by_names(stacks, promise);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are asked for when a stack is new. When the stack is exported, the process may be gone.
 *
 * Invariants: an open question is in `tickets` and in `ages`; bytes = sum of question->bytes of all
 * open questions. The stack of an open question has open frames in the store. If the store closes
 * them (expiry, rollback), the next questions_expire() or questions_forget() ends the question.
 */
#include "receiver/intake/questions.h"
#include "base/hash.h"
#include "agent-bpf/symbolizer_messages.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/map.h"
#include "store/stacks/stacks_unfinished.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ASKED_SLOTS                                                                                \
    65536 /* names asked for recently; a collision asks twice, which is harmless                   \
           */
#define NAMES_BYTES_MAX (1 << 20)

LIMIT(questions, LIMIT_SERVICE, "stacks whose frames are being asked for",
      .bytes = QUESTIONS_BYTES_MAX + NAMES_BYTES_MAX);

struct wanted_name {
    uint64_t tenant; /* of the sample that asks first */
    uint8_t identity[16];
    uint64_t address;
    int64_t executable;
};

struct questions {
    struct store *store;
    struct process_table *table;
    struct map tickets; /* open questions for frames */
    struct code_requests code;
    struct list ages; /* of them, oldest first */
    size_t bytes;
    uint64_t last_ticket;
    struct buf names;            /* struct wanted_name: to be sent */
    uint64_t asked[ASKED_SLOTS]; /* names asked for, or known */
};

int questions_open(struct store *store, struct process_table *table, struct intake_frames *frames,
                   struct questions **out)
{
    struct questions *questions = calloc(1, sizeof(*questions));
    if (!questions)
        return -ENOMEM;
    questions->store = store;
    questions->table = table;
    questions->names = BUF_INIT(NAMES_BYTES_MAX);
    MAP_INIT(&questions->tickets, struct question, ticket);
    code_requests_init(&questions->code, table, frames);
    list_init(&questions->ages);
    *out = questions;
    return 0;
}

void questions_close(struct questions *questions)
{
    if (!questions)
        return;
    questions_forget(questions);
    map_close(&questions->tickets);
    code_requests_close(&questions->code);
    buf_close(&questions->names);
    free(questions);
}

void questions_forget_names(struct questions *questions)
{
    memset(questions->asked, 0, sizeof(questions->asked));
}

size_t questions_forget(struct questions *questions)
{
    size_t n = questions->tickets.count;
    struct list *link;
    while ((link = list_first(&questions->ages)))
        questions_end(questions, container_of(link, struct question, age));
    assert(questions->tickets.count == 0 && questions->bytes == 0);
    questions_forget_names(questions); /* names may have been rolled back, too */
    return n;
}

/* ---- frames ---- */

/* With room for size bytes behind it. */
static struct question *question_new(struct questions *questions, enum question_kind kind,
                                     const struct stack_sample *sample, size_t size,
                                     size_t request_bytes)
{
    size_t bytes = sizeof(struct question) + size + request_bytes;
    if (questions->tickets.count >= QUESTIONS_MAX ||
        questions->bytes + bytes > QUESTIONS_BYTES_MAX) {
        stacks_frames_not_opened(STACK_FULL);
        return NULL;
    }
    struct question *question = calloc(1, sizeof(*question) + size);
    if (!question) {
        stacks_frames_not_opened(STACK_NO_MEMORY);
        return NULL;
    }
    question->ticket = ++questions->last_ticket;
    question->kind = kind;
    question->sample = *sample;
    question->bytes = bytes;
    return question;
}

struct question *questions_new_walk(struct questions *questions, const struct stack_sample *sample,
                                    const struct stack_words *words, size_t request_bytes)
{
    size_t n = words->n_kernel + words->n_user + words->n_list;
    struct question *question =
        question_new(questions, QUESTION_WALK, sample, n * sizeof(*words->user), request_bytes);
    if (!question)
        return NULL;
    uint64_t *kernel = (uint64_t *)(question + 1), *user = kernel + words->n_kernel;
    uint64_t *list = user + words->n_user;
    memcpy(kernel, words->kernel, words->n_kernel * sizeof(*kernel));
    memcpy(user, words->user, words->n_user * sizeof(*user));
    memcpy(list, words->list, words->n_list * sizeof(*list));
    question->words = *words;
    question->words.kernel = kernel;
    question->words.user = user;
    question->words.list = list;
    return question;
}

struct question *questions_new_code(struct questions *questions, const struct stack_sample *sample,
                                    const struct stack_builder *builder, uint32_t n_wanted)
{
    size_t frames_bytes = builder->n * sizeof(*builder->frames);
    size_t codes_bytes = builder->n_codes * sizeof(*builder->codes);
    size_t request_bytes = CODE_REQUEST_BYTES + n_wanted * sizeof(struct record_frame);
    struct question *question =
        question_new(questions, QUESTION_CODE, sample, frames_bytes + codes_bytes, request_bytes);
    if (!question)
        return NULL;
    question->n_wanted = n_wanted;
    question->n = builder->n;
    question->n_codes = builder->n_codes;
    question->frames = (struct frame *)(question + 1);
    question->codes = (struct record_frame *)(question->frames + question->n);
    memcpy(question->frames, builder->frames, frames_bytes);
    memcpy(question->codes, builder->codes, codes_bytes);
    return question;
}

void question_restore(const struct question *question, struct stack_builder *builder)
{
    assert(question->kind == QUESTION_CODE);
    stack_builder_init(builder);
    builder->n = question->n;
    builder->n_codes = (uint32_t)question->n_codes;
    memcpy(builder->frames, question->frames, question->n * sizeof(*question->frames));
    memcpy(builder->codes, question->codes, question->n_codes * sizeof(*question->codes));
    memset(builder->identities, 0, question->n * sizeof(*builder->identities));
}

static void question_free(struct questions *questions, struct question *question)
{
    if (question->kind == QUESTION_CODE)
        code_requests_leave(&questions->code, &question->waiter);
    free(question);
}

static int question_asked(struct question *question, int outcome)
{
    if (!outcome)
        return 0;
    stacks_frames_not_opened(outcome == PROCESS_UNKNOWN ? STACK_PROCESS_UNKNOWN : STACK_NO_MEMORY);
    free(question);
    return outcome;
}

int questions_ask_walk(struct questions *questions, struct question *question,
                       const struct record_stack *stack)
{
    assert(question->kind == QUESTION_WALK);
    const struct process_unwind wanted = {.ticket = question->ticket,
                                          .pid = question->sample.pid,
                                          .time_ns = question->sample.time_ns,
                                          .stack = stack};
    question->pc = stack->pc;
    question->is_return = stack->is_return;
    return question_asked(question, process_table_want_unwind(questions->table, &wanted));
}

int questions_ask_code(struct questions *questions, struct question *question,
                       const struct record_frame *frames)
{
    assert(question->kind == QUESTION_CODE);
    return question_asked(question,
                          code_requests_ask(&questions->code, &question->waiter, &question->sample,
                                            frames, question->n_wanted));
}

/* After -ESTALE (executables were forgotten) the answer to the queued request is ignored. */
int questions_put(struct questions *questions, struct question *question,
                  const struct stack_builder *builder, int64_t *stack)
{
    struct stacks *stacks = store_stacks(questions->store);
    int error = stacks_open_frames(stacks, builder->frames, builder->n, question->sample.time_ns,
                                   &question->stack);
    if (!error && map_put(&questions->tickets, question, NULL)) {
        stacks_close_frames(stacks, question->stack, STACK_NO_MEMORY);
        error = -ENOMEM;
    }
    if (error) {
        question_free(questions, question);
        return error;
    }
    questions_want_names(questions, builder, question->stack, &question->sample);
    list_append(&questions->ages, &question->age);
    questions->bytes += question->bytes;
    *stack = question->stack;
    return 0;
}

bool questions_replace(struct questions *questions, struct question *before,
                       struct question *question)
{
    question->stack = before->stack;
    if (map_put(&questions->tickets, question, NULL)) {
        question_free(questions, question);
        return false;
    }
    list_append(&before->age, &question->age); /* in its place */
    questions->bytes += question->bytes;
    questions_end(questions, before);
    return true;
}

struct question *questions_find_walk(struct questions *questions, uint64_t ticket)
{
    struct question *question = map_get(&questions->tickets, &ticket);
    return question && question->kind == QUESTION_WALK ? question : NULL;
}

bool questions_code_answered(struct questions *questions, const struct symbolizer_code *answer,
                             struct list *waiters, uint64_t *time_ns)
{
    return code_requests_answered(&questions->code, answer, waiters, time_ns);
}

struct question *question_of_waiter(struct list *link)
{
    return container_of(container_of(link, struct code_waiter, link), struct question, waiter);
}

void questions_end(struct questions *questions, struct question *question)
{
    assert(questions->bytes >= question->bytes);
    map_remove(&questions->tickets, &question->ticket);
    list_remove(&question->age);
    questions->bytes -= question->bytes;
    question_free(questions, question);
}

/* ---- names ---- */

static uint64_t name_hash(const uint8_t identity[16], uint64_t address)
{
    uint64_t words[2];
    memcpy(words, identity, sizeof(words));
    uint64_t hash = hash_mix(words[0] ^ address);
    return (hash ^ (hash >> 29) ^ words[1]) | 1; /* 0 marks an empty slot */
}

/* Asks for a name. 0, or the reason why no stack can wait for it. */
static int name_want(struct questions *questions, const uint8_t identity[16],
                     const struct frame *frame, const struct stack_sample *sample)
{
    struct stacks *stacks = store_stacks(questions->store);
    uint64_t hash = name_hash(identity, frame->address);
    uint64_t *slot = &questions->asked[hash % ASKED_SLOTS];
    struct frame_name name;
    if (*slot == hash)
        return 0;
    struct wanted_name wanted = {
        .tenant = sample->tenant, .address = frame->address, .executable = frame->executable};
    memcpy(wanted.identity, identity, sizeof(wanted.identity));
    bool known = stacks_name(stacks, frame, &name) == 0;
    int error = known ? 0 : buf_append(&questions->names, &wanted, sizeof(wanted));
    if (error)
        return error == BUF_FULL ? -ENOSPC : error;
    *slot = hash;
    return known ? 0 : stacks_open_name(stacks, frame, sample->time_ns);
}

void questions_want_names(struct questions *questions, const struct stack_builder *builder,
                          int64_t stack, const struct stack_sample *sample)
{
    int error = 0;
    for (size_t i = 0; i < builder->n; i++) {
        int outcome = builder->identities[i] ? name_want(questions, builder->identities[i],
                                                         &builder->frames[i], sample)
                                             : 0;
        error = error ? error : outcome;
    }
    stacks_open_names(store_stacks(questions->store), stack, builder->frames, builder->n, error);
}

static bool is_one_request(const struct wanted_name *a, const struct wanted_name *b)
{
    return a->tenant == b->tenant && !memcmp(a->identity, b->identity, sizeof(a->identity));
}

/* By tenant, file and address: what lies together is looked up together. */
static int names_compare(const void *a, const void *b)
{
    const struct wanted_name *left = a, *right = b;
    int order = (left->tenant > right->tenant) - (left->tenant < right->tenant);
    order = order ? order : memcmp(left->identity, right->identity, sizeof(left->identity));
    return order ? order : (left->address > right->address) - (left->address < right->address);
}

/* Names of one executable, for one tenant. */
static void names_send(struct questions *questions, const struct wanted_name *wanted, size_t n)
{
    uint64_t addresses[SYMBOLIZER_NAMES_MAX];
    assert(n > 0 && n <= SYMBOLIZER_NAMES_MAX);
    for (size_t i = 0; i < n; i++)
        addresses[i] = wanted[i].address;
    if (!process_table_want_names(questions->table, wanted->tenant, wanted->identity, addresses, n))
        return;
    for (size_t i = 0; i < n; i++) /* no known process maps it: no answer will come */
        stacks_close_name(store_stacks(questions->store), wanted[i].executable, wanted[i].address);
}

static void questions_send_names(struct questions *questions)
{
    struct wanted_name *wanted = (void *)questions->names.data;
    size_t n = questions->names.len / sizeof(*wanted);
    if (n == 0)
        return;
    qsort(wanted, n, sizeof(*wanted), names_compare);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1;
             end < n && end - i < SYMBOLIZER_NAMES_MAX && is_one_request(&wanted[end], &wanted[i]);)
            end++;
        names_send(questions, &wanted[i], end - i);
    }
    buf_clear(&questions->names);
}

void questions_send(struct questions *questions)
{
    questions_send_names(questions);
    code_requests_send(&questions->code);
}

/* ---- expiry ---- */

static uint64_t time_before(uint64_t now_ns, uint64_t ns)
{
    return now_ns > ns ? now_ns - ns : 0;
}

int questions_expire(struct questions *questions, uint64_t now_ns, size_t *n_late)
{
    const struct stacks_deadlines deadlines = {
        .frames_ns = time_before(now_ns, QUESTIONS_FRAMES_NS),
        .names_ns = time_before(now_ns, QUESTIONS_NAMES_NS),
    };
    struct stacks *stacks = store_stacks(questions->store);
    struct list *link;
    size_t n_names;
    *n_late = 0;
    int error = stacks_expire_unfinished(stacks, &deadlines, &n_names);
    while ((link = list_first(&questions->ages))) {
        struct question *question = container_of(link, struct question, age);
        if (stacks_has_open_frames(stacks, question->stack))
            break;
        questions_end(questions, question);
        ++*n_late;
    }
    if (n_names) /* answers may be lost: the next stack with such a name asks again */
        questions_forget_names(questions);
    return error;
}

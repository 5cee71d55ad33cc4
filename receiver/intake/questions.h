/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions to the symbolizer about stacks, from asking to the answer or the deadline: the rest of
 * a stack, names of code outside files, names of functions in files. WRITER thread only, within the
 * store's batch.
 *
 * Names of functions: each is asked for once (questions_want_names(), sent by questions_send()). If
 * no answer comes in time, the next stack with that name asks again. Frames: a question keeps what
 * is known of its stack, so the answer brings only the rest. The store knows what is open for
 * which stack, and since when (stacks_unfinished.h). If a symbolizer dies over a request, the
 * transport repeats it (symbolizer_client.h).
 *
 * Limits: QUESTIONS_MAX open questions for frames, QUESTIONS_BYTES_MAX of frames and copies in
 * flight; beyond, a stack keeps the sampler's frames. Each case is counted.
 */
#include "agent-bpf/process/process.h"
#include "base/list.h"
#include "receiver/intake/code_requests.h"
#include "receiver/intake/stack_builder.h"
#include "store/store.h"

#define QUESTIONS_MAX       4096
#define QUESTIONS_BYTES_MAX ((size_t)4 << 20)

/* How long samples wait for answers; the assertions below tie the values together. */
#define QUESTIONS_EXPIRE_EVERY_NS                                                                  \
    UINT64_C(1000000000) /* how often questions_expire() is called                                 \
                          */
/* For frames, since the sample was taken: the mappings of an ended process are kept that long. */
#define QUESTIONS_FRAMES_NS (4 * UINT64_C(1000000000))
/* For names, since they were asked for: long enough to end a symbolizer that hangs and to get its
 * successor's answer. */
#define QUESTIONS_NAMES_NS (10 * UINT64_C(1000000000))
/* For names when the service stops; the last window is retried every QUESTIONS_LAST_AGAIN_NS. */
#define QUESTIONS_LAST_NAMES_NS UINT64_C(1000000000)
#define QUESTIONS_LAST_AGAIN_NS (20 * UINT64_C(1000000))

_Static_assert(QUESTIONS_FRAMES_NS + QUESTIONS_EXPIRE_EVERY_NS <= PROCESS_GRACE_NS,
               "an answer in time finds the mappings of its process");
_Static_assert(QUESTIONS_FRAMES_NS < QUESTIONS_NAMES_NS, "first the frames, then their names");
_Static_assert(QUESTIONS_LAST_NAMES_NS < QUESTIONS_NAMES_NS, "stopping does not wait longer");
_Static_assert(QUESTIONS_LAST_AGAIN_NS < QUESTIONS_LAST_NAMES_NS, "the last window is tried again");

enum question_kind {
    QUESTION_WALK, /* the rest of the stack */
    QUESTION_CODE, /* names of code outside files; the frames are complete */
};

/* A question for the frames of one stack. */
struct question {
    uint64_t ticket; /* of a walk: repeated in the answer; never reused, unlike rowids */
    struct list age;
    enum question_kind kind;
    int64_t stack; /* row with open frames */
    struct stack_sample sample;
    size_t bytes;        /* including the request, which may wait to be sent */
    union {              /* arrays lie behind the question */
        struct {         /* QUESTION_WALK */
            uint64_t pc; /* where to continue */
            bool is_return;
            struct stack_words words; /* so far */
        };
        struct { /* QUESTION_CODE */
            struct code_waiter waiter;
            size_t n, n_codes;
            uint32_t n_wanted;    /* frames that were asked for */
            uint32_t n_fruitless; /* answers one after the other that named none of them */
            struct frame *frames;
            struct record_frame *codes;
        };
    };
};

struct questions;

int questions_open(struct store *store, struct process_table *table, struct intake_frames *frames,
                   struct questions **questions);
void questions_close(struct questions *questions); /* NULL is fine */
/* The store was rolled back, and its unfinished stacks with it. Returns how many questions for
 * frames were open. */
size_t questions_forget(struct questions *questions);
/* Rowids of executables are void: forgets which names were asked for. */
void questions_forget_names(struct questions *questions);

/* Make a question that is not asked yet; the caller asks it or free()s it. They copy what is known
 * of the stack. The size of the request, which may wait to be sent: request_bytes; or what n_wanted
 * frames take. NULL: no memory, or beyond a limit; counted. */
struct question *questions_new_walk(struct questions *questions, const struct stack_sample *sample,
                                    const struct stack_words *words, size_t request_bytes);
struct question *questions_new_code(struct questions *questions, const struct stack_sample *sample,
                                    const struct stack_builder *builder, uint32_t n_wanted);
/* Queues a request; that for code with questions_send(). 0; else asking failed, is counted, and the
 * question is freed. */
int questions_ask_walk(struct questions *questions, struct question *question,
                       const struct record_stack *stack);
int questions_ask_code(struct questions *questions, struct question *question,
                       const struct record_frame *frames);
/* Opens a row with the builder's frames, and asks for their names. Errors of the store; then the
 * question is freed. */
int questions_put(struct questions *questions, struct question *question,
                  const struct stack_builder *builder, int64_t *stack);
/* Replaces question `before`, for the same row, which stays open. false: no memory; question is
 * freed, `before` stays. */
bool questions_replace(struct questions *questions, struct question *before,
                       struct question *question);
/* Of a QUESTION_CODE: the stack so far. */
void question_restore(const struct question *question, struct stack_builder *builder);
/* A QUESTION_WALK; NULL: no longer open. */
struct question *questions_find_walk(struct questions *questions, uint64_t ticket);
/* True: the links of the questions that waited for it (question_of_waiter()) are in *waiters, an
 * empty list before; each is ended or replaced. False: none is open any more. */
bool questions_code_answered(struct questions *questions, const struct symbolizer_code *answer,
                             struct list *waiters, uint64_t *time_ns);
struct question *question_of_waiter(struct list *link);
/* Ends the question; its stack is not changed. */
void questions_end(struct questions *questions, struct question *question);

/* Asks for the names of the frames; the stack in this row waits for them. */
void questions_want_names(struct questions *questions, const struct stack_builder *builder,
                          int64_t stack, const struct stack_sample *sample);
/* Queues requests for all names that are wanted, of functions and of code. */
void questions_send(struct questions *questions);
/* Gives up late questions and names; *n_late: late questions for frames. now_ns: CLOCK_MONOTONIC,
 * as times of samples. Errors of the store. */
int questions_expire(struct questions *questions, uint64_t now_ns, size_t *n_late);

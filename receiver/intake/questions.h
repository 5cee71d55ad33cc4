/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the symbolizer is asked about stacks, from asking to the answer or its deadline: the rest of
 * a stack, names of code that lies in no file, names of functions in files. WRITER thread only,
 * within the store's batch.
 *
 * Names of functions: each is asked for once (questions_want_names(), sent by questions_send()),
 * and again by the next stack that has it if no answer came in time.
 * Frames: a question keeps what is known of its stack, so that the answer need only bring the rest.
 * What is open for which stack, and since when, is known to the store (stacks_unfinished.h).
 * A request that a symbolizer dies over is repeated by the transport (symbolizer_client.h).
 *
 * Limits: QUESTIONS_MAX open questions for frames, QUESTIONS_BYTES_MAX of frames and copies on
 * their way; beyond, the frames of the tick count. Each is counted.
 */
#include "agent-bpf/process/process.h"
#include "base/list.h"
#include "receiver/intake/stack_builder.h"
#include "store/store.h"

#define QUESTIONS_MAX       4096
#define QUESTIONS_BYTES_MAX ((size_t)8 << 20)

/* How long samples wait for answers, and all that has to fit to it. */
#define QUESTIONS_EXPIRE_EVERY_NS                                                                  \
    UINT64_C(1000000000) /* how often questions_expire() is called                                 \
                          */
/* Frames, since the sample was taken: the mappings of an ended process are still known then. */
#define QUESTIONS_FRAMES_NS (4 * UINT64_C(1000000000))
/* Names, since they were asked for: as long as a symbolizer that hangs needs to be ended and its
 * successor to answer. */
#define QUESTIONS_NAMES_NS (10 * UINT64_C(1000000000))
/* Names, when the service stops; tried again and again. */
#define QUESTIONS_LAST_NAMES_NS UINT64_C(1000000000)
#define QUESTIONS_LAST_AGAIN_NS (20 * UINT64_C(1000000))

_Static_assert(QUESTIONS_FRAMES_NS + QUESTIONS_EXPIRE_EVERY_NS <= PROCESS_GRACE_NS,
               "an answer in time finds the mappings of its process");
_Static_assert(QUESTIONS_FRAMES_NS < QUESTIONS_NAMES_NS, "first the frames, then their names");
_Static_assert(QUESTIONS_LAST_NAMES_NS < QUESTIONS_NAMES_NS, "stopping does not wait longer");
_Static_assert(QUESTIONS_LAST_AGAIN_NS < QUESTIONS_LAST_NAMES_NS, "the last window is tried again");

enum question_kind {
    QUESTION_WALK, /* the rest of the stack */
    QUESTION_CODE, /* names of code that lies in no file; the frames are whole */
};

/* For the frames of one stack. */
struct question {
    uint64_t ticket; /* comes back in the answer; never used again, as rowids are */
    struct list age;
    enum question_kind kind;
    int64_t stack; /* row with open frames */
    uint32_t pid;
    uint64_t time_ns; /* of the sample */
    uint64_t pc;      /* QUESTION_WALK: where to go on */
    bool is_return;
    uint16_t n_user; /* frames */
    size_t bytes;    /* with the request, which may wait to be sent */
    size_t n;
    struct frame frames[]; /* so far */
};

struct questions;

int questions_open(struct store *store, struct process_table *table, struct questions **questions);
void questions_close(struct questions *questions); /* NULL is fine */
/* The store was rolled back, and its unfinished stacks with it. Returns how many questions for
 * frames were open. */
size_t questions_forget(struct questions *questions);
/* Rowids of executables are void: each name may be asked for again. */
void questions_forget_names(struct questions *questions);

/* Not asked yet: the caller's, to ask or to free(). Keeps the frames of the builder; request_bytes
 * may wait to be sent. NULL without memory, or beyond a limit; counted. */
struct question *questions_new(struct questions *questions, enum question_kind kind,
                               const struct record_header *record,
                               const struct stack_builder *builder, size_t request_bytes);
/* The same for the stack of an open question, of which more is known now. */
struct question *questions_next(struct questions *questions, const struct question *before,
                                const struct stack_builder *builder, size_t request_bytes);
/* Puts a request into the queue. 0; else it could not be asked, counted: the question is freed. */
int questions_ask_walk(struct questions *questions, struct question *question,
                       const struct record_stack *stack);
int questions_ask_code(struct questions *questions, struct question *question, uint64_t *addresses,
                       uint32_t n);
/* Opens a row with the frames of the builder, and wants their names. Errors of the store, then the
 * question is freed. */
int questions_put(struct questions *questions, struct question *question,
                  const struct stack_builder *builder, int64_t *stack);
/* In place of the question before, for the same row, which stays open. False without memory: the
 * question is freed, the one before stays. */
bool questions_replace(struct questions *questions, struct question *before,
                       struct question *question);
/* NULL: it is not open any more. */
struct question *questions_find(struct questions *questions, uint64_t ticket,
                                enum question_kind kind);
/* Ends it, whatever its stack has come to. */
void questions_end(struct questions *questions, struct question *question);

/* The names of the frames are wanted; the stack of this row waits for them. */
void questions_want_names(struct questions *questions, const struct stack_builder *builder,
                          int64_t stack, uint64_t time_ns);
/* Puts requests for all wanted names into the queue. */
void questions_send(struct questions *questions);
/* Gives up what is late; *n_late: questions for frames among it. CLOCK_MONOTONIC, as times of
 * samples. Errors of the store. */
int questions_expire(struct questions *questions, uint64_t now_ns, size_t *n_late);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Requests for names of code outside files (SYMBOLIZER_CODE_WANTED). What the stacks of one batch
 * want to know of one program is one request, each frame once; its answer is for all stacks that
 * wait for it. WRITER thread only.
 *
 * Limits: those of the questions, of which each waiter is a part (questions.h). A request is there
 * as long as somebody waits for it.
 */
#include "agent-bpf/process/process.h"
#include "agent-bpf/symbolizer_messages.h"
#include "base/list.h"
#include "base/map.h"
#include "receiver/intake/stack_builder.h"

#define CODE_REQUEST_FRAMES 128  /* of several stacks; that of one stack may be larger */
#define CODE_REQUEST_BYTES  1024 /* at most, without the frames that are asked for */

struct code_request;
struct intake_frames;

struct code_waiter { /* zero: waits for nothing */
    struct list link;
    struct code_request *request;
};

struct code_requests {
    struct process_table *table;  /* borrowed, as frames */
    struct intake_frames *frames; /* whose names are renewed */
    struct map open;              /* by ticket: those that were sent, too */
    struct map gathered;          /* by pid: those that are still to be sent */
    uint64_t last_ticket;
};

void code_requests_init(struct code_requests *requests, struct process_table *table,
                        struct intake_frames *frames);
void code_requests_close(struct code_requests *requests); /* all waiters have left */

/* Adds frames, of which none is there twice, to what is to be sent. 0; PROCESS_UNKNOWN, -ENOMEM:
 * the waiter waits for nothing. */
int code_requests_ask(struct code_requests *requests, struct code_waiter *waiter,
                      const struct stack_sample *sample, const struct record_frame *frames,
                      uint32_t n);
/* Queues what was gathered, together with frames to renew (intake_code_due()). */
void code_requests_send(struct code_requests *requests);
/* True: the request was open. It is freed, and its waiters are moved to *waiters, which is empty
 * before; they wait for nothing any more. *time_ns: time of the latest sample that asked. */
bool code_requests_answered(struct code_requests *requests, const struct symbolizer_code *answer,
                            struct list *waiters, uint64_t *time_ns);
void code_requests_leave(struct code_requests *requests, struct code_waiter *waiter);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Shared by the parts of the intake: entry points (intake.c), drains of ring and process stream
 * (intake_drain.c), profile windows (intake_window.c) and the symbolizer (intake_symbolizer.c).
 * Private to them. Thread: loop, except where said otherwise.
 */
#include "agent-bpf/process/process.h"
#include "agent-bpf/process/symbolizer_queue.h"
#include "receiver/admission/admission.h"
#include "receiver/intake/correlation.h"
#include "proto/otlp/otlp_parts.h"
#include "receiver/intake/intake.h"
#include "receiver/intake/intake_body.h"
#include "receiver/intake/intake_samples.h"
#include "receiver/intake/questions.h"

#define INTAKE_TIDY_NS                                                                             \
    QUESTIONS_EXPIRE_EVERY_NS /* how often what nothing refers to is forgotten                     \
                               */

/* The transitions are a table in intake.c. */
enum intake_state {
    INTAKE_STARTING, /* the first scan of processes runs; ready() was not called */
    INTAKE_READY,    /* ready() was called; the ring is not drained before the first scan is done */
    INTAKE_RUNNING,  /* the ring is drained, if there is one */
    INTAKE_STOPPING, /* new requests are refused; drains go on until the last window is closed */
    INTAKE_ENDING,   /* the same after a stop before the first scan was done: nothing is drained */
};

/* What the writer does with a request of one signal. */
struct intake_signal {
    intake_signal_run *run;
    struct intake_signal_settings settings;
};

struct intake {
    struct intake_settings settings;
    struct intake_signal signals[SIGNAL_COUNT];
    struct symbolizer_client *symbolizer;
    struct symbolizer_queue requests; /* writer's, to the symbolizer */
    struct process_table *table;      /* writer's */
    struct samples *samples;          /* writer's */
    struct correlation *correlation;
    uint64_t generation; /* writer's: store_generation() that rowids belong to */
    struct timer drain_timer;
    struct timer window_timer;
    struct timer scan_timer;  /* until the first scan is done */
    struct timer ready_timer; /* until ready() was called */
    void (*ready)(void *context);
    void (*stopped)(void *context);
    uint64_t n_tidied;
    struct admission admission;
    struct turns turns;       /* requests in `queued` that are not at the writer yet */
    struct sender *anonymous; /* of requests without one */
    const struct intake_request *submitting; /* its done() must not be called now */
    struct worker *large_reader;
    struct list large;            /* requests that wait for large_reader */
    struct intake_request *read;  /* at large_reader, or read by it and at the writer; or NULL */
    struct otlp_parts parts;      /* of `read`; large_reader's while it is there */
    size_t queued;                /* bytes of requests at the writer */
    struct batch_job *next_batch; /* NULL: nothing was drained since drained_ns */
    uint64_t drained_ns;          /* CLOCK_MONOTONIC of the last drain of the ring */
    bool events_lost;             /* a batch with process events had no room at the writer */
    size_t pending_bytes;         /* bytes of drains and answers at the writer */
    enum intake_state state;
    uint64_t stopping_ns; /* since when */
};

#define INTAKE_PENDING_MAX (8u << 20)
/* Room for requests, drains and answers: INTAKE_PENDING_MAX is not reached, and half of the
 * writer's queue stays for exporters and windows. */
bool intake_has_room(const struct intake *intake);
/* Writer: rolled back or renewed: remembered rowids are void. Before samples and answers. */
void intake_follow_store(struct intake *intake);
/* Writer: an error of the store breaks the writer's batch. Returns it. */
int intake_broken(struct intake *intake, int error);

bool intake_is_draining(const struct intake *intake);
void intake_drain(struct intake *intake);       /* nothing before the first scan is done */
void intake_drain_close(struct intake *intake); /* frees what was not submitted */
void intake_drain_fire(struct timer *timer);    /* drain_timer */
void intake_window_fire(struct timer *timer);   /* window_timer */
/* The last one, a moment later if samples still wait for names; then stopped(). */
void intake_window_last(struct intake *intake);

/* intake_requests.c */
int intake_requests_open(struct intake *intake);
void intake_requests_stop(struct intake *intake); /* all go to the writer */
/* Before the writer is closed: what large_reader has goes to the writer. */
void intake_requests_last(struct intake *intake);

int intake_symbolizer_open(struct intake *intake); /* intake->symbolizer */
/* Writer, at the end of each job: what the symbolizer is to be asked goes to the end of the list,
 * to be submitted on the loop. */
void intake_take_requests(struct intake *intake, struct list *requests);
void intake_begin_draining(struct intake *intake); /* and ready(); once */

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one door onto the writer: requests of receivers and samples of the ring go through here.
 * Thread: loop. Limits: the writer's queue, intake_settings.max_queued_bytes, 64 MiB of drains and
 * answers at the writer; beyond: INTAKE_BUSY, and samples stay in the ring. Requests that were
 * admitted (receiver/intake/admission.h) stay within max_admitted_bytes and a quarter of the queue.
 */
#include "agent-bpf/drain/labels.h"
#include "base/buf.h"
#include "base/worker.h"
#include "store/outbox/outbox.h"

#define INTAKE_WINDOW_NS UINT64_C(5000000000) /* of exported profiles */

#define INTAKE_WRITER_QUEUE 4096 /* jobs: the writer's queue_limit */
#define INTAKE_PROBLEM_MAX  128  /* bytes of what a peer is told of its body */

struct intake;

enum intake_encoding {
    ENCODING_IDENTITY,
    ENCODING_GZIP,
    ENCODING_ZSTD,
    ENCODING_DEFLATE,
    ENCODING_UNKNOWN
};

enum intake_outcome {
    INTAKE_ACCEPTED = 0,    /* committed (also: an empty request) */
    INTAKE_BUSY = 1,        /* queue full, store full or failing: UNAVAILABLE with retry */
    INTAKE_MALFORMED = 2,   /* INVALID_ARGUMENT / 400 */
    INTAKE_TOO_BIG = 3,     /* inflated past the limit: RESOURCE_EXHAUSTED / 413, final */
    INTAKE_NO_PIPELINE = 4, /* the signal has no pipeline: UNIMPLEMENTED / 404 */
};

/* Embedded in the receiver's stream. The owner keeps it alive until done() was called, also when
 * its peer has gone meanwhile. */
struct intake_request {
    struct job job; /* the intake's, also: */
    struct post refusal;
    struct intake *intake;
    enum signal signal;
    enum intake_encoding encoding;
    bool json;       /* else protobuf; as the body is when inflated */
    struct buf body; /* taken over by intake_submit(), whatever it returns */
    size_t body_len; /* the intake's */
    size_t max_inflated_bytes;
    enum intake_outcome outcome; /* valid in done() */
    const char *message;         /* for the peer, static or problem; NULL if accepted */
    char problem[INTAKE_PROBLEM_MAX];
    void (*done)(struct intake_request *request);
};

struct admission;
struct symbolizer_client;
struct coverage;
struct procstream;
struct ring;
struct span_cpu;
struct store;

struct intake_settings {
    struct loop *loop;
    struct worker *writer;
    struct store *store;
    struct ring *ring;                   /* NULL: no sampler */
    struct procstream *procstream;       /* NULL: no sampler */
    struct coverage *coverage;           /* NULL: nobody wants to know */
    struct span_cpu *span_cpu;           /* likewise */
    bool join;                           /* spans are annotated */
    uint32_t destinations[SIGNAL_COUNT]; /* outbox masks */
    uint32_t unsent; /* 1 << signal: it has a pipeline all the same, which leads nowhere */
    uint64_t drain_interval_ns;
    struct label_names label_names; /* configured; borrowed */
    size_t max_queued_bytes;        /* of requests at the writer */
    size_t max_admitted_bytes;      /* of those that are let in; one larger than that comes alone */
    size_t max_request_bytes;       /* of bodies in the outbox */
    const char *version;
    void (*committed)(void *context); /* a batch of the writer put something into the outbox */
    void *context;
};

int intake_open(const struct intake_settings *settings, struct intake **intake);
/* After the writer is closed. NULL is fine. */
void intake_close(struct intake *intake);

/* A new symbolizer; the fd is the intake's from now on. */
void intake_symbolizer(struct intake *intake, int fd);
/* Samples are drained once the first scan of /proc is done, or has taken 3 s, or 0.3 s if spans
 * come then. ready() is called when it is done, or has taken 0.3 s; at once without a sampler, but
 * never from within this call. */
void intake_start(struct intake *intake, void (*ready)(void *context));
/* Drains the ring, closes the profile window (after a second at most, if names are asked for), and
 * calls stopped() when both are committed. Samples that wait for their span stay in the store, and
 * what is sampled from here on comes to them. Nothing else is accepted any more. */
void intake_stop(struct intake *intake, void (*stopped)(void *context));
/* The very last samples: right before the writer is closed. */
void intake_drain_last(struct intake *intake);

/* Drains the sample ring before a trace request, so that spans meet their samples. done() follows
 * on the loop, never from within this call. */
void intake_submit(struct intake *intake, struct intake_request *request);
/* Receivers ask it before they take a request in; then none is refused for want of room here. Lives
 * as long as the intake. */
struct admission *intake_admission(struct intake *intake);
/* True if the signal has a pipeline. */
bool intake_has_pipeline(const struct intake *intake, enum signal signal);

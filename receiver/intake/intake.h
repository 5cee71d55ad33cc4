/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The only way to the writer: all requests of receivers and all samples of the ring pass here.
 * Thread: loop. Limits: the writer's queue, intake_settings.max_queued_bytes, the turns of peers
 * (turns.h), 64 MiB of drains and answers at the writer; beyond: INTAKE_BUSY, and samples stay in
 * the ring. Admitted requests (receiver/admission/admission.h) stay within max_admitted_bytes and a
 * quarter of the queue.
 */
#include "agent-bpf/drain/labels.h"
#include "base/buf.h"
#include "base/peer.h"
#include "base/worker.h"
#include "receiver/admission/turns.h"
#include "store/outbox/outbox.h"

#define INTAKE_WINDOW_NS UINT64_C(5000000000) /* of exported profiles */

#define INTAKE_WRITER_QUEUE 4096 /* jobs: the writer's queue_limit */
#define INTAKE_PROBLEM_MAX  128  /* bytes of an error text about a body */

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

enum intake_reading {
    INTAKE_UNREAD,
    INTAKE_LARGE,   /* the writer has left it, see intake_requests.c */
    INTAKE_READING, /* by the thread for large ones */
    INTAKE_READ,    /* inflated, converted and checked: buf_bytes(&request.made) or the body */
};

/* Embedded in the receiver's call. The owner keeps it alive until done() is called, even if the
 * peer has gone. */
struct intake_request {
    /* Private to the intake. */
    struct job job;
    struct post refusal;
    struct intake *intake;
    struct turn turn;
    uint64_t took_ns;     /* of threads other than the loop's */
    size_t body_len;      /* as it was received */
    size_t max_at_writer; /* a body that becomes larger is read elsewhere; 0: none */
    enum intake_reading reading;
    struct list large; /* of intake.large */
    struct buf made;   /* of INTAKE_READ */
    struct buf part;   /* of INTAKE_READ: what the writer has next; empty: all of it */
    size_t left;       /* bytes of the request from that part on, about */
    /* The receiver's. */
    struct sender *sender; /* NULL: one that is not known */
    enum signal signal;
    enum intake_encoding encoding;
    bool json;         /* the inflated body is JSON; else protobuf */
    bool says_version; /* profiles: of development version 1 (otlp_service.h) */
    struct buf body;   /* taken over by intake_submit(), whatever the outcome */
    size_t max_inflated_bytes;
    struct peer peer;            /* that sent it */
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
    struct coverage *coverage;           /* NULL: not counted */
    struct span_cpu *span_cpu;           /* NULL: not counted */
    bool join;                           /* spans are annotated */
    uint32_t destinations[SIGNAL_COUNT]; /* outbox masks */
    uint32_t unsent;                     /* 1 << signal: it has a pipeline, but no destination */
    uint64_t drain_interval_ns;
    struct label_names label_names; /* configured; borrowed */
    size_t max_queued_bytes;        /* of requests at the writer */
    size_t max_admitted_bytes;      /* of admitted requests; a larger request is admitted alone */
    size_t max_request_bytes;       /* of bodies in the outbox */
    const char *version;
    void (*committed)(void *context); /* a writer's batch put requests into the outbox */
    void *context;
};

int intake_open(const struct intake_settings *settings, struct intake **intake);
/* After the writer is closed. NULL is fine. */
void intake_close(struct intake *intake);

/* A new symbolizer was started; takes over fd. */
void intake_symbolizer(struct intake *intake, int fd);
/* Draining begins when the first scan of /proc is done, but after 3 s at most; if spans arrive,
 * after 0.3 s at most. ready() is called when the scan is done, but after 0.3 s at most; without a
 * sampler at once. Never from within this call. */
void intake_start(struct intake *intake, void (*ready)(void *context));
/* Drains the ring, closes the profile window (waiting up to a second for requested names), and
 * calls stopped() when both are committed. Samples that wait for their span stay in the store;
 * intake_drain_last() adds later samples to them. No requests are accepted any more. */
void intake_stop(struct intake *intake, void (*stopped)(void *context));
/* Drains the last samples: call right before the writer is closed. */
void intake_drain_last(struct intake *intake);

/* Requests go to the writer in turns by peer. Drains the sample ring before a trace request, so
 * that spans meet their samples. done() follows on the loop, never from within this call. */
void intake_submit(struct intake *intake, struct intake_request *request);
/* Receivers get admission before they receive a request; then the intake never lacks room for it.
 * Lives as long as the intake. */
struct admission *intake_admission(struct intake *intake);
/* True if the signal has a pipeline. */
bool intake_has_pipeline(const struct intake *intake, enum signal signal);

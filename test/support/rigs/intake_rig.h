/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An intake with all that is real around it: loop, writer, store; a ring of ordinary memory as the
 * sampler and the other end of the symbolizer's socket if wanted. The writer can be held, as by a
 * slow disk. Asserts with cmocka. Thread: the loop's.
 */
#include "base/loop.h"
#include "receiver/intake/intake.h"
#include "test/support/fixtures/record_fixture.h"
#include "test/support/fixtures/store_fixture.h"
#include "test/support/fixtures/trace_request.h"
#include <pthread.h>

struct intake_rig_options {
    bool sampler;   /* ring and process stream (of no CPU) */
    bool no_traces; /* nor metrics and logs */
    const char *vfs;
    uint64_t max_store_bytes;
    size_t max_queued_bytes; /* 0: 1 MiB */
};

struct intake_rig {
    struct fixture fixture;
    struct loop *loop;
    struct worker *writer;
    struct intake *intake;
    struct record_ring memory;
    struct ring *ring;
    struct procstream *procstream;
    pthread_mutex_t gate; /* of the writer's begin */
    bool pending;
    int symbolizer; /* our end; -1 = none */
    bool submitting;
    /* Of requests that are submitted from now on */
    enum signal signal; /* SIGNAL_TRACES after open */
    enum intake_encoding encoding;
    size_t max_inflated_bytes; /* 1 MiB after open */
    unsigned n_committed;
    bool ready, stopped;
};

void intake_rig_open(struct intake_rig *rig, const struct intake_rig_options *options);
void intake_rig_close(struct intake_rig *rig);
void intake_rig_hold(struct intake_rig *rig);
void intake_rig_release(struct intake_rig *rig);
void intake_rig_start(struct intake_rig *rig);
void intake_rig_stop(struct intake_rig *rig);
/* Runs the loop until it is true; fails after some seconds. */
void intake_rig_until(struct intake_rig *rig, const bool *flag);
void intake_rig_turn(struct intake_rig *rig, int ms); /* for so long, or a little longer */

struct rig_request {
    struct intake_rig *rig;
    struct intake_request request;
    unsigned n_done;
    bool done;
};
/* With a copy of the body. Fails if done() comes from within. */
void rig_request_submit(struct intake_rig *rig, struct rig_request *request, struct bytes body);
/* Submits, and waits for the outcome. */
enum intake_outcome rig_request_run(struct intake_rig *rig, struct bytes body);

/* A new symbolizer. The next message that the service sends it, in static memory; of kind 0 if none
 * came within a second. */
void rig_symbolizer_open(struct intake_rig *rig);
struct symbolizer_message rig_symbolizer_hear(struct intake_rig *rig);
void rig_symbolizer_say(struct intake_rig *rig, const struct symbolizer_message *message);

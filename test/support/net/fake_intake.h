/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An intake without a store, for tests of the servers: it answers in the next round of the loop, or
 * when it is told to, with the outcome that the test wants.
 */
#include "receiver/admission/admission.h"
#include "receiver/intake/intake.h"

struct intake {
    struct loop *loop;
    bool hold;                   /* keep requests until fake_intake_release() */
    enum intake_outcome outcome; /* of the next ones */
    const char *message;
    uint32_t pipelines; /* mask of signals */
    size_t n_requests;  /* seen */
    size_t n_waiting;
    uint64_t n_bytes;     /* of bodies */
    struct buf last_body; /* as it came */
    enum intake_encoding last_encoding;
    bool last_json;
    enum signal last_signal;
    struct timer answer;
    struct list waiting;
    struct admission admission; /* 32 MiB, 1000 requests, unless the test has it otherwise */
};

void fake_intake_open(struct intake *intake, struct loop *loop);
void fake_intake_close(struct intake *intake); /* answers what waits */
void fake_intake_release(struct intake *intake);

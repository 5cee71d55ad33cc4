/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One destination: fetches the next request from the outbox (reader thread), sends it (loop), and
 * marks it done (writer). Each signal has its own sender, so a refused or slow signal does not
 * delay another. A sender has up to num_consumers requests in flight. Failed requests are retried
 * as OTLP specifies, with backoff and jitter. Waiting requests stay in the outbox, so nothing is
 * lost while the backend is away. Exception: with max_elapsed_time set, older requests are dropped
 * and counted. Thread: loop.
 */
#include "base/loop.h"
#include "base/worker.h"
#include "config/config.h"
#include "store/outbox/outbox.h"

struct exporter;

struct exporter_settings {
    struct loop *loop;
    struct worker *writer;
    struct worker *reader;
    struct outbox *outbox;               /* writer's */
    struct outbox_reader *outbox_reader; /* reader's */
    size_t destination;                  /* index in the outbox; its name there is config->id */
    const struct config_exporter *config;
    struct tls_context *tls; /* for config; outlives the exporter; NULL: plain text */
    uint32_t signals;    /* mask of 1 << enum signal: signals whose pipelines end here; 0 = all */
    const char *version; /* for user-agent */
};

/* The largest stored request whose message still fits the destination's max_request_size. As JSON,
 * a message is larger than its stored request. UINT64_MAX: no limit. Any thread. */
uint64_t exporter_max_body_bytes(const struct config_exporter *config);
/* Opens the exporter and starts fetching. 0; -EINVAL: the configuration cannot work (logged as a
 * sentence); -ENOMEM. */
int exporter_open(const struct exporter_settings *settings, struct exporter **exporter);
void exporter_wake(struct exporter *exporter); /* the outbox may have new requests: called after a
                                                  writer's batch */
/* Sends whatever can be sent without waiting for a retry. stopped() is called once nothing is left,
 * or only failing requests are left, or deadline_ns (CLOCK_MONOTONIC) has passed; never from within
 * this call. Unsent requests stay in the store. */
void exporter_drain(struct exporter *exporter, uint64_t deadline_ns, void (*stopped)(void *context),
                    void *context);
/* Must be called before the workers are closed. Jobs that a worker still holds outlive the exporter
 * and free themselves. NULL is fine. */
void exporter_close(struct exporter *exporter);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One destination: fetches the next request from the outbox (reader thread), sends it (loop), and
 * marks it done (writer). Each signal is a sender of its own, so that a refused or slow signal does
 * not hold up another, with up to num_consumers requests in flight. Retry as OTLP says, with
 * backoff and jitter; what waits stays in the outbox, so that nothing is lost while the backend is
 * away (but max_elapsed_time, if set, is obeyed: dropped and counted). Thread: loop.
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
    struct tls_context *tls; /* of config; outlives the exporter; NULL: plain text */
    uint32_t signals;        /* mask of 1 << enum signal: the pipelines that lead here; 0 = all */
    const char *version;     /* for user-agent */
};

/* How large a stored request may be for its message to stay within the destination's
 * max_request_size, as which it may be larger; UINT64_MAX: there is no such limit. Any thread. */
uint64_t exporter_max_body_bytes(const struct config_exporter *config);
/* 0; -EINVAL for a configuration that cannot work (logged as a sentence); -ENOMEM. Starts fetching.
 */
int exporter_open(const struct exporter_settings *settings, struct exporter **exporter);
void exporter_wake(
    struct exporter *exporter); /* something was put: called after a writer's batch */
/* Sends what can be sent without waiting to try again; stopped() once nothing is left or what is
 * left fails, or when deadline_ns (CLOCK_MONOTONIC) passes; never from within this call. The rest
 * stays in the store. */
void exporter_drain(struct exporter *exporter, uint64_t deadline_ns, void (*stopped)(void *context),
                    void *context);
/* Before the workers are closed. Jobs still at a worker outlive it and free themselves. NULL is
 * fine. */
void exporter_close(struct exporter *exporter);

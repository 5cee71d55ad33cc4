/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A backend answers UNIMPLEMENTED: it has no service for a signal. This may be temporary (a proxy
 * gives the same answer while the backend behind it is replaced) or permanent. With P =
 * UNIMPLEMENTED_PAUSES * max_interval (retry_on_failure):
 *
 *   t0            first UNIMPLEMENTED: requests wait and are retried, as while a backend is away
 *   other answer  ends this; nothing is lost; the next UNIMPLEMENTED is a new t0
 *   t >= t0 + P   UNIMPLEMENTED at time t gives up its request and all requests that wait
 *   t ...         requests are given up unsent until none is left, for max_interval at most
 *   after that    the next request is sent (if none was left: after a pause of max_interval);
 *                 UNIMPLEMENTED again is a new t
 *
 * A single request is given up P after its own first UNIMPLEMENTED, if it met no other answer
 * since. Without retries P = 0: a request is given up at its first UNIMPLEMENTED.
 *
 * Consequences:
 * UNIMPLEMENTED for less than P loses nothing; after P the store no longer fills up, and the
 * backend is still tried about once per max_interval. Thread: loop; private to exporter/. Embedded.
 */
#include "config/config.h"
#include "exporter/otlp/export_result.h"
#include "proto/otlp/otlp_service.h"

#define UNIMPLEMENTED_PAUSES 4

struct sender_unimplemented {
    uint64_t since_ns;         /* t0; 0: the last answer was another one, or there was none */
    bool is_said;              /* the log says that waiting requests are given up */
    uint64_t discard_until_ns; /* until then fetched requests are given up; 0: they are sent */
};

enum sender_unimplemented_outcome {
    UNIMPLEMENTED_WAITS,     /* retry later */
    UNIMPLEMENTED_GIVEN_UP,  /* give up this request */
    UNIMPLEMENTED_DISCARDED, /* give up this request and all that wait */
};

/* Logs what happens to requests from now on. */
void sender_unimplemented_log(const struct config_retry *config, const char *exporter,
                              enum signal signal, const struct export_result *result);
/* A request was answered UNIMPLEMENTED. *since_ns belongs to the request: the time of its first
 * UNIMPLEMENTED without another answer since; 0 before. */
enum sender_unimplemented_outcome
sender_unimplemented_answer(struct sender_unimplemented *unimplemented,
                            const struct config_retry *config, uint64_t now_ns, uint64_t *since_ns);
/* Another answer came: starts over. */
void sender_unimplemented_end(struct sender_unimplemented *unimplemented);
/* Whether fetched requests are given up without being sent. */
bool sender_unimplemented_discards(struct sender_unimplemented *unimplemented, uint64_t now_ns);

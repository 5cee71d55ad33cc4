/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A backend that says it has no service for a signal: it may not have it yet, or again (a proxy
 * says the same while what is behind it is replaced), or it will never have it. So requests wait at
 * first, as for a backend that is away. Once all that was asked for UNIMPLEMENTED_PAUSES times
 * retry_on_failure::max_interval has met that answer, a further one is that of all that waits: it
 * is given up, and the backend asked again after max_interval, with what came since.
 * So an answer that passes within that time costs nothing, a later one what came before the last
 * time it was given; the store holds no more than came in that time, and a request is sent each
 * max_interval. Thread: loop; private to exporter/. Embedded.
 */
#include "config/config.h"
#include "exporter/otlp/export_result.h"
#include "proto/otlp/otlp_service.h"

#define UNIMPLEMENTED_PAUSES 4

struct sender_unimplemented {
    uint64_t since_ns;         /* no other answer came since; 0: it serves, as far as known */
    bool is_said;              /* that what waits is given up */
    uint64_t discard_until_ns; /* what is fetched is given up; 0: it is not */
};

enum sender_unimplemented_outcome {
    UNIMPLEMENTED_WAITS,     /* as if the backend were away */
    UNIMPLEMENTED_GIVEN_UP,  /* this request */
    UNIMPLEMENTED_DISCARDED, /* and all that waits */
};

/* In the log, what becomes of requests now. */
void sender_unimplemented_log(const struct config_retry *config, const char *exporter,
                              enum signal signal, const struct export_result *result);
/* That is the answer to a request. since_ns: when it met that answer first and no other since, 0
 * before; the request's own. */
enum sender_unimplemented_outcome
sender_unimplemented_answer(struct sender_unimplemented *unimplemented,
                            const struct config_retry *config, uint64_t now_ns, uint64_t *since_ns);
/* Another answer came. */
void sender_unimplemented_end(struct sender_unimplemented *unimplemented);
/* What is fetched is given up, without asking. */
bool sender_unimplemented_discards(struct sender_unimplemented *unimplemented, uint64_t now_ns);

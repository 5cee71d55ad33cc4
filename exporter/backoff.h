/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * When to try again: the Collector's retry_on_failure. The n-th pause is
 * min(max_interval, initial_interval * multiplier^n), drawn evenly within +-randomization_factor of
 * it, or what the server asked for (an hour at most), if that is longer. Pure but for its random
 * state. Thread: any one.
 */
#include "config/config.h"

enum { BACKOFF_GIVE_UP = 1 };

struct backoff {
    const struct config_retry *config;
    uint64_t interval_ns;      /* of the next pause, before jitter */
    uint64_t first_failure_ns; /* 0 = none since the last success */
    uint64_t random;           /* xorshift state, not 0 */
};

void backoff_init(struct backoff *backoff, const struct config_retry *config, uint64_t seed);
void backoff_success(struct backoff *backoff); /* the next failure begins anew */
/* After a failure at now_ns (CLOCK_MONOTONIC): 0 and the pause; BACKOFF_GIVE_UP when retries are
 * off or the next try would come later than max_elapsed_time after the first failure. */
int backoff_failure(struct backoff *backoff, uint64_t now_ns, uint64_t server_delay_ns,
                    uint64_t *pause_ns);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * When to try again: the Collector's retry_on_failure.
 *   pause(n) = max(min(max_interval, initial_interval * multiplier^n) * jitter, server's delay)
 * jitter is uniform within 1 +- randomization_factor; the server's delay counts up to one hour.
 * Pure but for its random state. Thread: one at a time.
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
void backoff_success(struct backoff *backoff); /* the next failure starts at n = 0 */
/* Records a failure at now_ns (CLOCK_MONOTONIC). 0 and the pause; BACKOFF_GIVE_UP if retries are
 * off, or if the next attempt would come later than max_elapsed_time after the first failure. */
int backoff_failure(struct backoff *backoff, uint64_t now_ns, uint64_t server_delay_ns,
                    uint64_t *pause_ns);

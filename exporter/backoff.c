/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/backoff.h"
#include "base/clock.h"

#define SERVER_DELAY_MAX_NS (3600 * NS_PER_SEC)

void backoff_init(struct backoff *backoff, const struct config_retry *config, uint64_t seed)
{
    *backoff = (struct backoff){.config = config, .random = seed | 1};
    backoff_success(backoff);
}

void backoff_success(struct backoff *backoff)
{
    backoff->interval_ns = backoff->config->initial_interval_ns;
    backoff->first_failure_ns = 0;
}

/* Uniform in [0, 1). */
static double backoff_draw(struct backoff *backoff)
{
    uint64_t x = backoff->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    backoff->random = x;
    return (double)(x >> 11) / (double)(UINT64_C(1) << 53);
}

static uint64_t backoff_jittered(struct backoff *backoff)
{
    double interval = (double)backoff->interval_ns;
    double spread = backoff->config->randomization_factor * (2 * backoff_draw(backoff) - 1);
    return (uint64_t)(interval * (1 + spread));
}

static void backoff_grow(struct backoff *backoff)
{
    double next = (double)backoff->interval_ns * backoff->config->multiplier;
    double most = (double)backoff->config->max_interval_ns;
    backoff->interval_ns = (uint64_t)(next < most ? next : most);
}

int backoff_failure(struct backoff *backoff, uint64_t now_ns, uint64_t server_delay_ns,
                    uint64_t *pause_ns)
{
    const struct config_retry *config = backoff->config;
    if (!config->enabled)
        return BACKOFF_GIVE_UP;
    if (backoff->first_failure_ns == 0)
        backoff->first_failure_ns = now_ns;
    uint64_t own = backoff_jittered(backoff);
    if (server_delay_ns > SERVER_DELAY_MAX_NS)
        server_delay_ns = SERVER_DELAY_MAX_NS;
    *pause_ns = own > server_delay_ns ? own : server_delay_ns;
    backoff_grow(backoff);
    bool late = config->max_elapsed_time_ns &&
                now_ns - backoff->first_failure_ns + *pause_ns > config->max_elapsed_time_ns;
    return late ? BACKOFF_GIVE_UP : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several backends may share one name, and only some may have the service. Then other answers come
 * in between and reset since_ns of the sender. A request's own since_ns still bounds how long that
 * request is retried.
 */
#include "exporter/sender_unimplemented.h"
#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>

/* How long requests wait at first; 0: no wait. */
static uint64_t patience_of(const struct config_retry *config)
{
    return config->enabled ? UNIMPLEMENTED_PAUSES * config->max_interval_ns : 0;
}

enum sender_unimplemented_outcome
sender_unimplemented_answer(struct sender_unimplemented *unimplemented,
                            const struct config_retry *config, uint64_t now_ns, uint64_t *since_ns)
{
    uint64_t patience_ns = patience_of(config);
    if (!unimplemented->since_ns)
        unimplemented->since_ns = now_ns;
    if (!*since_ns)
        *since_ns = now_ns;
    if (!patience_ns)
        return UNIMPLEMENTED_GIVEN_UP;
    if (now_ns - unimplemented->since_ns >= patience_ns) {
        unimplemented->discard_until_ns = now_ns + config->max_interval_ns;
        return UNIMPLEMENTED_DISCARDED;
    }
    return now_ns - *since_ns >= patience_ns ? UNIMPLEMENTED_GIVEN_UP : UNIMPLEMENTED_WAITS;
}

void sender_unimplemented_end(struct sender_unimplemented *unimplemented)
{
    *unimplemented = (struct sender_unimplemented){0};
}

/* The time limit matters when requests arrive faster than they are given up: then the backlog never
 * ends, and the backend is tried in between. */
bool sender_unimplemented_discards(struct sender_unimplemented *unimplemented, uint64_t now_ns)
{
    if (now_ns >= unimplemented->discard_until_ns)
        unimplemented->discard_until_ns = 0;
    return unimplemented->discard_until_ns != 0;
}

void sender_unimplemented_log(const struct config_retry *config, const char *exporter,
                              enum signal signal, const struct export_result *result)
{
    uint64_t patience_ns = patience_of(config);
    char what[64] = "are dropped";
    if (patience_ns)
        snprintf(what, sizeof(what), "wait for %llu s, and are dropped if that stays so",
                 (unsigned long long)(patience_ns / NS_PER_SEC));
    log_warn("exporter", "%s: the backend does not take %s, they %s (%s: %s)%s", exporter,
             signal_names[signal], what, result->code, result->message,
             signal == SIGNAL_PROFILES
                 ? "; a Collector takes them with --feature-gates=service.profilesSupport and a "
                   "profiles pipeline"
                 : "");
}

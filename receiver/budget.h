/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bounds the bytes of requests that are still being received, over all connections and protocols.
 * Complete requests are bounded by the intake. Bytes of requests that are not admitted
 * (receiver/admission/admission.h) are bounded by connection and by peer, too. Thread: loop.
 * Limits: limit_bytes; a sixteenth of it for the beginnings of a connection, a quarter for those of
 * a peer (at least BUDGET_SHARE_MIN). Beyond, requests are refused as retryable.
 */
#include "receiver/admission/sender.h"
#include <stdbool.h>
#include <stddef.h>

#define BUDGET_SHARE_MIN (256 * 1024)

struct budget {
    size_t limit_bytes;
    size_t used_bytes;
};

/* What a request has taken. Embedded in it, with its sender set. */
struct budget_hold {
    struct sender *sender; /* borrowed */
    size_t bytes;
    size_t beginning_bytes; /* of them: before the request was admitted */
};

/* False: refused and counted, nothing taken. */
bool budget_take(struct budget *budget, struct budget_hold *hold, size_t size, bool admitted);
void budget_admitted(struct budget_hold *hold);                    /* the request is admitted */
void budget_give(struct budget *budget, struct budget_hold *hold); /* all of it; again: no harm */

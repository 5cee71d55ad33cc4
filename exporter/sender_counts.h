/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Counts the outcome of requests and of their items, for the metrics page. Private to exporter/.
 * Thread: any.
 */
#include "proto/otlp/otlp_service.h"

enum sender_outcome { SENDER_OK, SENDER_RETRY, SENDER_REFUSED, SENDER_OUTCOMES };
enum sender_loss {
    SENDER_LOST_REFUSED,
    SENDER_LOST_EXPIRED,
    SENDER_LOST_NOT_RETRIED,
    SENDER_LOST_PARTIAL,
    SENDER_LOST_TOO_BIG,
    SENDER_LOST_UNIMPLEMENTED,
    SENDER_LOSSES
};

void sender_count_request(enum sender_outcome outcome);
/* Counts an accepted request minus the items that its partial success rejected. For profiles,
 * `rejected` counts profiles while `items` counts samples: all samples count as sent. Returns how
 * many rejections to report: rejected, within 0..items. */
uint64_t sender_count_taken(enum signal signal, uint64_t items, int64_t rejected);
void sender_count_sent(enum signal signal, uint64_t items);
void sender_count_lost(enum signal signal, enum sender_loss loss, uint64_t items);

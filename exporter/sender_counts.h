/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What became of requests and their items, for the metrics page. Private to exporter/. Thread: any.
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
/* A request was taken, but for so many as a partial success says (profiles themselves where items
 * are samples); what it may say of them is returned. */
uint64_t sender_count_taken(enum signal signal, uint64_t items, int64_t rejected);
void sender_count_sent(enum signal signal, uint64_t items);
void sender_count_lost(enum signal signal, enum sender_loss loss, uint64_t items);

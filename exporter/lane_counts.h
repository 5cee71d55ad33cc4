/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What became of requests and their items, for the metrics page. Private to exporter/. Thread: any.
 */
#include "proto/otlp/otlp_service.h"

enum lane_outcome { LANE_OK, LANE_RETRY, LANE_REFUSED, LANE_OUTCOMES };
enum lane_loss {
    LANE_LOST_REFUSED,
    LANE_LOST_EXPIRED,
    LANE_LOST_NOT_RETRIED,
    LANE_LOST_PARTIAL,
    LANE_LOST_UNSERVED,
    LANE_LOST_TOO_BIG,
    LANE_LOSSES
};

void lane_count_request(enum lane_outcome outcome);
/* A request was taken, but for so many as a partial success says (profiles themselves where items
 * are samples); what it may say of them is returned. */
uint64_t lane_count_taken(enum signal signal, uint64_t items, int64_t rejected);
void lane_count_sent(enum signal signal, uint64_t items);
void lane_count_lost(enum signal signal, enum lane_loss loss, uint64_t items);

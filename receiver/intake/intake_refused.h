/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Counts each refused request once, by signal and reason, whether a receiver or the intake refuses
 * it. Thread: any. */
#include "proto/otlp/otlp_service.h"

enum intake_refusal {
    REFUSED_BUSY,
    REFUSED_STORE,
    REFUSED_MALFORMED,
    REFUSED_TOO_BIG,
    INTAKE_REFUSALS
};

/* spanprof_requests_refused_total */
void intake_refused(enum signal signal, enum intake_refusal reason);

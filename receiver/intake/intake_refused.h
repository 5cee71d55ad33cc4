/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Each request of a signal that is refused is counted once, by its reason, wherever that is found
 * out: at a receiver's door, or by the intake. Thread: any. */
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

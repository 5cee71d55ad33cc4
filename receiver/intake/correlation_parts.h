/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the parts of correlation share. Private to correlation*.c. */
#include "base/stats.h"

#define CORRELATION_LOST(variable, reason)                                                         \
    STAT_LOSS(variable, "spanprof_elastic_samples_lost_total", "reason=\"" reason "\"",            \
              "Samples of which their process's Elastic agent was not told, by reason.")

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The symbolizer process: its loop, the line to the supervisor, and the symbolizer itself. Thread:
 * main of its process. */
#include "service/generation.h"

/* Returns the exit code. */
int symbolizer_process_run(const struct generation *generation,
                           const struct symbolizer_handles *handles);

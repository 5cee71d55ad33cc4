/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the supervisor can do, with all that it starts. Thread: main of its process, before there
 * are others. */
#include "sandbox/sandbox.h"

/* Those of the processes that it starts: a filter is inherited, so the supervisor may make them
 * too. */
extern const struct sandbox_table service_calls, symbolizer_calls, reader_calls, broker_calls,
    config_calls, names_calls;

/* From here on: the calls of its table. 0 or negative errno. */
int supervisor_sandbox_enter(void);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Offsets of PHP's structures by the number that its extensions must have been built for
 * (ZEND_MODULE_API_NO), which changes with each minor version: 7.4 to 8.5, builds that are not
 * thread-safe, without debugging. Others are refused. Symbolizer only; pure.
 */
#include "agent-bpf/runtimes/php_process.h"
#include <stdbool.h>
#include <stdint.h>

struct php_layout {
    uint32_t api;
    uint32_t stack_page_size;   /* in executor_globals; current_execute_data is behind it */
    struct php_process process; /* its offsets; addresses and ranges are zero */
};

/* False: refused. */
bool php_layout(uint32_t api, struct php_layout *layout);

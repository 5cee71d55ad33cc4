/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What readelf says of a file's unwind information, as the rules that ours should be. x86-64. */
#include "agent-bpf/unwind_rows.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct readelf_row {
    uint64_t start;
    uint64_t end;
    struct unwind_rule rule;
    bool any_cfa; /* one of several expressions: which one it is cannot be told from the text */
    bool any_fp;
    bool any_third;
    bool any_ra;
};

struct readelf_frames {
    struct readelf_row *rows; /* in order; none overlap */
    size_t n;
    size_t n_printed; /* lines */
};

/* False: readelf could not be started. */
bool readelf_frames(const char *path, struct readelf_frames *frames);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbolizer's process: what the supervisor gives it, and its main function: its loop, the line
 * to the supervisor, and the symbolizer itself. Thread: main of its process.
 */
#include "agent-bpf/supervisor/role.h"

struct symbolizer_process_settings {
    int ledger_fd;    /* inherited; -1: none */
    unsigned sources; /* these and the following: symbolizer_settings */
    bool lines;
    bool elastic_correlation;
    bool runtime_frames;
    size_t runtime_cache_bytes;
};

/* Returns the exit code. */
int symbolizer_process_run(const struct role_start *start);

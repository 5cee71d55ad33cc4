/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A plain reader of the process context (OTEP 4719), for tests: of any process that may be traced.
 */
#include "context/context_layout.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct context_read {
    struct otel_process_header header;
    uint8_t payload[OTEL_PROCESS_PAYLOAD_MAX];
};

/* How many mappings of that name the process has; the address of the last one. */
size_t context_mappings(pid_t pid, uint64_t *address);
/* As a reader has to do it: with the timestamp before and after. 0, -EAGAIN (being changed) or
 * another errno. */
int context_read(pid_t pid, uint64_t address, struct context_read *read);
/* A string attribute of the Resource; false if there is none. */
bool context_resource(const struct context_read *read, const char *key, char out[4097]);
size_t context_resource_count(const struct context_read *read);
/* A string attribute besides the Resource. */
bool context_attribute(const struct context_read *read, const char *key, char out[4097]);
/* Item i of the key map; false behind its end. */
bool context_key_name(const struct context_read *read, unsigned i, char out[4097]);

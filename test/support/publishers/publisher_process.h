/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The OTel process context (OTEP 4719) written by hand, so that tests can choose what a good
 * library would not: its mapping's name, its schema, keys that come later. One a process. Thread:
 * one at a time.
 */
#include "context/context_layout.h"

enum publisher_mapping {
    PUBLISHER_MAPPING_NAMED, /* memfd, and named by prctl where the kernel can */
    PUBLISHER_MAPPING_MEMFD, /* memfd alone */
    PUBLISHER_MAPPING_ANON,  /* anonymous, named by prctl */
};

struct publisher_process {
    const char *service;     /* service.name; NULL: none */
    const char *schema;      /* OTEL_THREAD_SCHEMA_DEV */
    const char *const *keys; /* of thread attributes, by index */
    unsigned n_keys;
};

/* The header. NULL: the kernel cannot name anonymous memory, nothing is published. */
volatile struct otel_process_header *
publisher_process_publish(const struct publisher_process *process, enum publisher_mapping mapping);
/* Another payload, as the ABI says. */
void publisher_process_update(const struct publisher_process *process);

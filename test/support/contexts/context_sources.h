/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A library that publishes in the ways of Elastic's agent, of custom labels and of Node.js: its
 * symbols, and where they are, for the test that loads it (symbol "context_sources").
 */
#include <stdint.h>

struct context_sources {
    void **elastic_storage; /* the pointer that is published */
    uint32_t *labels_version;
    uint64_t (*elastic_variable)(void); /* addresses in the calling thread */
    uint64_t (*labels_variable)(void);
    uint64_t (*nodejs_variable)(void);
};

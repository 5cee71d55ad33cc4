/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process context's mapping: the header, and two slots for messages, so that the one being read
 * is left alone while the next is written. Internal; the caller holds the process lock.
 */
#include "context/payload.h"

enum { MAPPING_BYTES = 65536, MAPPING_SLOTS_AT = 64 };
#define MAPPING_SLOT_BYTES ((size_t)(MAPPING_BYTES - MAPPING_SLOTS_AT) / 2)

/* Makes it and names it. -EEXIST: this process has one that is not ours. */
int spanprof_context_mapping_open(struct otel_process_header **mapping);
void spanprof_context_mapping_close(struct otel_process_header *mapping);
uint8_t *spanprof_context_mapping_slot(struct otel_process_header *mapping, uint32_t slot);
/* Points the header to the message in that slot, now published at another time than last_ns;
 * returns that time. */
uint64_t spanprof_context_mapping_publish(struct otel_process_header *mapping, uint32_t slot,
                                          size_t size, uint64_t last_ns);

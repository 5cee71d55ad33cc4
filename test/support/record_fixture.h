/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Records as the sampler makes them, and a ring of ordinary memory to put them into. Asserts with
 * cmocka. Thread: one.
 */
#include "agent-bpf/drain/ring.h"
#include "base/bytes.h"

#define RECORD_T0 UINT64_C(2000000000) /* CLOCK_MONOTONIC of these records, ns: in the past */

struct record_parts {          /* addresses are plain; the fixture tags them */
    struct record_header head; /* counts and size are filled in; kind 0: RECORD_CPU */
    struct bytes attributes;
    size_t n_kernel, n_user;
    uint64_t kernel[RECORD_MAX_KERNEL_FRAMES], user[RECORD_MAX_USER_FRAMES];
    size_t interrupted; /* a user frame that a signal came to; the first one was interrupted too */
    struct bytes stack; /* record_stack and its copy; empty: none */
};

struct record_made {
    _Alignas(8) uint8_t bytes[RECORD_MAX_SIZE];
};

/* Valid until `made` is. */
const struct record_header *record_make(struct record_made *made, const struct record_parts *parts);

/* A ring as the kernel lays it out, in a memory file: ring_open(fd, RECORD_RING_SIZE, ...). */
#define RECORD_RING_SIZE ((size_t)64 * 1024)

struct record_ring {
    int fd;
    uint8_t *memory;
    uint64_t produced;
};

void record_ring_open(struct record_ring *ring);
void record_ring_close(struct record_ring *ring);
void record_ring_put(struct record_ring *ring, const struct record_header *record);
uint64_t record_ring_consumed(const struct record_ring *ring);

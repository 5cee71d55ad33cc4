/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record of the process stream, and as a sample of the ring. */
#include "agent-bpf/drain/perf_record.h"
#include "agent-bpf/drain/ring.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_process_record(const void *record, size_t size)
{
    struct process_event event;
    if (size < PERF_RECORD_SIZE_MIN || size > UINT16_MAX)
        return;
    uint16_t header_size = (uint16_t)size; /* the caller's part of the contract */
    uint8_t *copy = malloc(size);
    memcpy(copy, record, size);
    memcpy(copy + 6, &header_size, sizeof(header_size));
    if (perf_record_parse(copy, size, &event) == PERF_RECORD_EVENT &&
        event.kind == PROCESS_MAPPED) {
        if (event.mapping.length == 0 || strlen(event.mapping.path) >= size)
            abort();
    }
    free(copy);
}

static void try_sample(const void *record, size_t size)
{
    uint64_t *copy = malloc(size + 8);
    memcpy(copy, record, size);
    if (ring_record_valid(copy, size)) {
        const struct record_header *header = (const void *)copy;
        const uint64_t *frames = record_frames(header);
        size_t words = (size_t)header->kernel_words + header->user_words;
        if ((const uint8_t *)(frames + words) != (const uint8_t *)copy + size)
            abort();
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_process_record(data, size);
    try_sample(data, size);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_fetch.h"
#include <assert.h>

int hotspot_fetch_run(struct hotspot_fetch *fetch)
{
    if (!fetch->error)
        fetch->error = hotspot_memory_read(fetch->memory, fetch->ranges, fetch->n);
    for (size_t i = 0; !fetch->error && i < fetch->n; i++)
        *fetch->done[i] = !fetch->ranges[i].error;
    fetch->n = fetch->bytes = 0;
    return fetch->error;
}

void hotspot_fetch_add(struct hotspot_fetch *fetch, uint64_t address, void *out, size_t size,
                       bool *done)
{
    assert(size <= READER_BYTES_MAX);
    *done = false;
    if (fetch->n == READER_RANGES_MAX || fetch->bytes + size > READER_BYTES_MAX)
        hotspot_fetch_run(fetch);
    fetch->ranges[fetch->n] = (struct reader_range){address, out, (uint32_t)size, 0};
    fetch->done[fetch->n++] = done;
    fetch->bytes += size;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_reader.h"
#include "agent-bpf/runtimes/hotspot/hotspot_attach.h"
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include <errno.h>
#include <stdlib.h>

struct runtime_constants {
    struct hotspot_constants hotspot;
};

int hotspot_reader_open(const struct elf *elf, struct runtime_constants **constants,
                        enum runtime_refusal *why)
{
    struct hotspot_constants found;
    int error = hotspot_open(elf, &found);
    *why = RUNTIME_REFUSAL_NONE;
    if (error)
        return error;
    *constants = malloc(sizeof(**constants));
    if (!*constants)
        return -ENOMEM;
    (*constants)->hotspot = found;
    return 0;
}

void hotspot_reader_close(struct runtime_constants *constants)
{
    free(constants);
}

int hotspot_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                          struct runtime_memory *memory, struct runtime_process *entry,
                          enum runtime_refusal *why)
{
    return hotspot_attach(&constants->hotspot, load_bias, memory, &entry->hotspot, why);
}

int hotspot_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                         struct runtime_cache *cache, struct runtime_memory *memory,
                         const struct record_frame *frames, size_t n, struct runtime_names *out)
{
    (void)constants;
    return hotspot_names(&entry->hotspot, cache, memory, frames, n, out);
}

struct runtime_version hotspot_reader_version(const struct runtime_constants *constants,
                                              const struct runtime_process *entry)
{
    (void)constants;
    return (struct runtime_version){entry->hotspot.names.major, 0, 1};
}

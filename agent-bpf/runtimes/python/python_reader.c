/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/python/python_reader.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include <errno.h>
#include <stdlib.h>

struct runtime_constants {
    struct python_constants python;
};

int python_reader_open(const struct elf *elf, struct runtime_constants **constants,
                       enum runtime_refusal *why)
{
    struct python_constants found;
    int error = python_file_open(elf, &found, why);
    if (error)
        return error;
    *constants = malloc(sizeof(**constants));
    if (!*constants)
        return -ENOMEM;
    (*constants)->python = found;
    return 0;
}

void python_reader_close(struct runtime_constants *constants)
{
    free(constants);
}

int python_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                         struct runtime_memory *memory, struct runtime_process *entry,
                         enum runtime_refusal *why)
{
    return python_attach(&constants->python, load_bias, memory, &entry->python, why);
}

int python_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                        struct runtime_cache *cache, struct runtime_memory *memory,
                        const struct record_frame *frames, size_t n, struct runtime_names *out)
{
    (void)cache;
    return python_names(&constants->python, &entry->python, memory, frames, n, out);
}

struct runtime_version python_reader_version(const struct runtime_constants *constants,
                                             const struct runtime_process *entry)
{
    uint32_t version = constants->python.layout.version;
    (void)entry;
    return (struct runtime_version){(uint8_t)(version >> 24), PYTHON_MINOR(version), 2};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/python/python_reader.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include "agent-bpf/runtimes/python/python_tasks.h"
#include <errno.h>
#include <stdlib.h>

struct runtime_constants {
    struct python_constants python;
};

static int constants_keep(const struct python_constants *found,
                          struct runtime_constants **constants)
{
    *constants = malloc(sizeof(**constants));
    if (!*constants)
        return -ENOMEM;
    (*constants)->python = *found;
    return 0;
}

int python_reader_open(const struct elf *elf, struct runtime_constants **constants,
                       enum runtime_refusal *why)
{
    struct python_constants found;
    int error = python_file_open(elf, &found, why);
    return error ? error : constants_keep(&found, constants);
}

int python_reader_open_tasks(const struct elf *elf, struct runtime_constants **constants,
                             enum runtime_refusal *why)
{
    struct python_constants found = {0};
    int error = python_tasks_open(elf, &found.tasks);
    *why = error == -ENOTSUP ? RUNTIME_REFUSAL_UNKNOWN_LAYOUT : RUNTIME_REFUSAL_NONE;
    return error ? error : constants_keep(&found, constants);
}

void python_reader_close(struct runtime_constants *constants)
{
    free(constants);
}

int python_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                         struct runtime_memory *memory, struct runtime_process *entry,
                         enum runtime_refusal *why)
{
    if (constants->python.tasks.thread_task)
        entry->python_tasks = constants->python.tasks;
    return python_attach(&constants->python, load_bias, memory, &entry->python, why);
}

int python_reader_attach_tasks(struct runtime_constants *constants, uint64_t load_bias,
                               struct runtime_memory *memory, struct runtime_process *entry,
                               enum runtime_refusal *why)
{
    (void)load_bias, (void)memory;
    entry->python_tasks = constants->python.tasks;
    *why = RUNTIME_REFUSAL_NONE;
    return 0;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/ruby/ruby_reader.h"
#include "agent-bpf/runtimes/ruby/ruby_attach.h"
#include "agent-bpf/runtimes/ruby/ruby_names.h"
#include <errno.h>
#include <stdlib.h>

struct runtime_constants {
    struct ruby_constants ruby;
};

int ruby_reader_open(const struct elf *elf, struct runtime_constants **constants,
                     enum runtime_refusal *why)
{
    struct ruby_constants found;
    int error = ruby_file_open(elf, &found, why);
    if (error)
        return error;
    *constants = malloc(sizeof(**constants));
    if (!*constants)
        return -ENOMEM;
    (*constants)->ruby = found;
    return 0;
}

void ruby_reader_close(struct runtime_constants *constants)
{
    free(constants);
}

int ruby_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                       struct runtime_memory *memory, struct runtime_process *entry,
                       enum runtime_refusal *why)
{
    return ruby_attach(&constants->ruby, load_bias, memory, &entry->ruby, why);
}

int ruby_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                      struct runtime_cache *cache, struct runtime_memory *memory,
                      const struct record_frame *frames, size_t n, struct runtime_names *out)
{
    (void)cache;
    return ruby_names(&constants->ruby.layout, &entry->ruby, memory, frames, n, out);
}

struct runtime_version ruby_reader_version(const struct runtime_constants *constants,
                                           const struct runtime_process *entry)
{
    uint32_t version = constants->ruby.layout.version;
    (void)entry;
    return (struct runtime_version){(uint8_t)(version >> 8), (uint8_t)version, 2};
}

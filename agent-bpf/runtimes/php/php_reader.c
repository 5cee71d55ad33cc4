/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/php/php_reader.h"
#include "agent-bpf/runtimes/php/php_attach.h"
#include "agent-bpf/runtimes/php/php_names.h"
#include <errno.h>
#include <stdlib.h>

struct runtime_constants {
    struct php_constants php;
};

int php_reader_open(const struct elf *elf, struct runtime_constants **constants,
                    enum runtime_refusal *why)
{
    struct php_constants found;
    int error = php_file_open(elf, &found, why);
    if (error)
        return error;
    *constants = malloc(sizeof(**constants));
    if (!*constants)
        return -ENOMEM;
    (*constants)->php = found;
    return 0;
}

void php_reader_close(struct runtime_constants *constants)
{
    free(constants);
}

int php_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                      struct runtime_memory *memory, struct runtime_process *entry,
                      enum runtime_refusal *why)
{
    return php_attach(&constants->php, load_bias, memory, &entry->php, why);
}

int php_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                     struct runtime_cache *cache, struct runtime_memory *memory,
                     const struct record_frame *frames, size_t n, struct runtime_names *out)
{
    (void)constants;
    (void)entry;
    (void)cache;
    return php_names(memory, frames, n, out);
}

struct runtime_version php_reader_version(const struct runtime_constants *constants,
                                          const struct runtime_process *entry)
{
    (void)constants;
    return (struct runtime_version){entry->php.major, entry->php.minor, 2};
}

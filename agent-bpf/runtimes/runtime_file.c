/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/runtime_reader.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static struct runtime_file *file_new(const struct runtime_reader *reader,
                                     struct runtime_constants *constants, enum runtime_refusal why)
{
    struct runtime_file *file = calloc(1, sizeof(*file));
    if (file)
        *file = (struct runtime_file){1, reader, constants, why};
    else if (constants)
        reader->close(constants);
    return file;
}

struct runtime_file *runtime_file_open(const struct elf *elf)
{
    for (const struct runtime_reader *reader = runtime_readers; reader->open; reader++) {
        struct runtime_constants *constants = NULL;
        enum runtime_refusal why = RUNTIME_REFUSAL_NONE;
        int error = reader->open(elf, &constants, &why);
        if (!error || error == -ENOTSUP)
            return file_new(reader, constants, why);
    }
    return NULL;
}

struct runtime_file *runtime_file_use(struct runtime_file *file)
{
    if (file)
        file->refs++;
    return file;
}

void runtime_file_release(struct runtime_file *file)
{
    if (!file)
        return;
    assert(file->refs);
    if (--file->refs)
        return;
    if (file->constants)
        file->reader->close(file->constants);
    free(file);
}

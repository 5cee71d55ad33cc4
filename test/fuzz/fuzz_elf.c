/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the symbolizer does with a file. */
#include "agent-bpf/contexts/publishers.h"
#include "agent-bpf/runtimes/runtime_find.h"
#include "agent-bpf/runtimes/runtime_reader.h"
#include "agent-bpf/symbols/function_names.h"
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void names(const struct elf *elf)
{
    struct function_names *names;
    if (function_names_open(elf, 0, &names))
        return;
    struct function_name name;
    const uint64_t addresses[] = {0, 0x1000, 0x1139, 0x401000, UINT64_MAX};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
        if (!function_names_find(names, addresses[i], &name))
            assert(bytes_utf8_valid(BYTES_STR(name.function)) && *name.function);
    function_names_close(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (ftruncate(fd, (off_t)size) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    struct elf elf;
    struct elf_build_ids ids;
    struct thread_local_symbol symbol;
    uint8_t hash[16];
    elf_htlhash(fd, size, hash);
    if (elf_open(fd, &elf))
        return 0;
    elf_build_ids(&elf, &ids);
    if (!thread_local_find(&elf, "otel_thread_ctx_v1", &symbol))
        assert(symbol.n_slots <= THREAD_LOCAL_SLOTS_MAX);
    struct publishers *publishers;
    if (!publishers_find(&elf, &publishers))
        free(publishers);
    assert(runtime_find(&elf) < RUNTIME_NATIVE);
    runtime_file_release(runtime_file_open(&elf));
    names(&elf);
    uint64_t other;
    for (uint64_t at = 0; at < size + 4096; at += 1021)
        if (elf_address_of_offset(&elf, at, &other))
            elf_offset_of_address(&elf, other, &other);
    return 0;
}

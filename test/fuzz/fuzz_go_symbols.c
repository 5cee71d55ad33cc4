/* SPDX-License-Identifier: Apache-2.0 */
/* A table that says it is Go's; its last byte chooses the file around it. */
#include "agent-bpf/go/go_symbols.h"
#include "test/support/fixtures/go_table.h"
#include <assert.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check_stack(void *context, const struct go_stack *stack)
{
    (void)context;
    assert(GO_TABLE_TEXT <= stack->start && stack->start < stack->end);
    assert(stack->end <= GO_TABLE_TEXT + 0x140);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf elf;
    struct go_symbols *symbols;
    struct function_name name;
    uint8_t choice = size ? data[size - 1] : 0;
    int fd = go_table_file(BYTES(data, size), (enum go_table_module)(choice % 3), choice < 128);
    if (!elf_open(fd, &elf) && !go_symbols_open(&elf, &symbols)) {
        for (uint64_t at = 0; at < 0x140; at += 0x11) {
            if (go_symbols_find(symbols, GO_TABLE_TEXT + at, &name))
                continue;
            assert(*name.function && bytes_utf8_valid(BYTES_STR(name.function)));
            assert(bytes_utf8_valid(BYTES_STR(name.file)));
        }
        go_symbols_stacks(symbols, GO_TABLE_TEXT, GO_TABLE_TEXT + 0x140, check_stack, NULL);
        go_symbols_close(symbols);
    }
    close(fd);
    return 0;
}

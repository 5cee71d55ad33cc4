/* SPDX-License-Identifier: Apache-2.0 */
/* A perf map gives the same names however it comes in pieces; each name is clean, and the memory
 * within its limit. */
#include "agent-bpf/function_name.h"
#include "agent-bpf/symbols/perf_map.h"
#include <assert.h>
#include <stdlib.h>

#define BYTES_MAX ((size_t)8192)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_in_pieces(struct perf_map *map, struct bytes text, size_t piece)
{
    size_t at = 0, end = 0;
    while (end < text.len) {
        end = text.len - end < piece ? text.len : end + piece;
        at += perf_map_add(map, BYTES(text.data + at, end - at));
    }
}

static void check_name(const struct perf_map *whole, const struct perf_map *pieces,
                       uint64_t address)
{
    struct perf_map_range range = perf_map_find(whole, address);
    struct perf_map_range same = perf_map_find(pieces, address);
    const char *name = range.name;
    assert(range.start <= address && range.last >= address);
    assert(range.start == same.start && range.last == same.last && !name == !same.name);
    if (!name)
        return;
    assert(!strcmp(name, same.name));
    assert(*name && strlen(name) < FUNCTION_NAME_MAX && bytes_utf8_valid(BYTES_STR(name)));
}

/* Wherever a line may begin its number is an address. */
static void check_names(const struct perf_map *whole, const struct perf_map *pieces,
                        struct bytes text)
{
    char number[20];
    for (size_t at = 0; at < text.len; at++) {
        if (at && text.data[at - 1] != '\n')
            continue;
        size_t len = text.len - at < sizeof(number) ? text.len - at : sizeof(number) - 1;
        memcpy(number, text.data + at, len);
        number[len] = 0;
        uint64_t address = strtoull(number, NULL, 16);
        check_name(whole, pieces, address);
        check_name(whole, pieces, address + 1);
        check_name(whole, pieces, address - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = BYTES(data, size);
    struct perf_map whole, pieces;
    perf_map_init(&whole, BYTES_MAX);
    perf_map_init(&pieces, BYTES_MAX);
    size_t taken = perf_map_add(&whole, text);
    assert(taken <= size && (!taken || data[taken - 1] == '\n'));
    assert(!memchr(data + taken, '\n', size - taken));
    add_in_pieces(&pieces, text, size ? 1 + data[0] % 13u : 1);
    assert(whole.n == pieces.n && whole.bytes == pieces.bytes && whole.bytes <= BYTES_MAX);
    check_names(&whole, &pieces, text);
    perf_map_close(&whole);
    perf_map_close(&pieces);
    return 0;
}

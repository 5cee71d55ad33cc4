/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers have 7 bits a byte, the lowest first; bit 7: it goes on. An entry is what is to be added
 * to the offset in the code, with a flag, then to the position. Up to V8 13 the first number is
 * signed, and a negative one stands for an expression; from 14 on two flags are its lowest bits.
 */
#include "agent-bpf/runtimes/v8/v8_positions.h"

#define FLAGS_SINCE V8_VERSION(14, 0)

/* Prefixes of bytecodes: of operands of 2 and 4 bytes, and the same for debuggers. */
enum { WIDE = 0, EXTRA_WIDE = 1, DEBUG_WIDE = 2, DEBUG_EXTRA_WIDE = 3 };

static bool take_number(struct bytes *rest, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (!rest->len)
            return false;
        uint8_t byte = *rest->data;
        *rest = bytes_skip(*rest, 1);
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static int64_t to_signed(uint64_t number)
{
    return (int64_t)(number >> 1 ^ -(number & 1));
}

static int64_t code_delta(const struct v8_file *file, uint64_t number)
{
    if (file->version >= FLAGS_SINCE)
        return (int64_t)(number >> 2);
    int64_t delta = to_signed(number);
    return delta >= 0 ? delta : -(delta + 1);
}

bool v8_positions_find(const struct v8_file *file, struct bytes table, uint64_t offset,
                       int64_t *position)
{
    uint64_t code = UINT64_MAX, at = 0, first,
             second; /* -1: what comes before the first bytecode */
    bool found = false;
    while (table.len) {
        if (!take_number(&table, &first) || !take_number(&table, &second))
            return false;
        code += (uint64_t)code_delta(file, first);
        at += (uint64_t)to_signed(second);
        if ((int64_t)code > (int64_t)offset)
            break;
        *position = (int64_t)at;
        found = true;
    }
    return found;
}

/* Bytes of the bytecode at an offset, with its prefix; 0: it is none. */
static uint32_t bytecode_size(const struct v8_file *file, struct bytes bytecodes, uint32_t at)
{
    unsigned scale = 0;
    uint32_t prefix = 0;
    uint8_t code = bytecodes.data[at];
    if (code == WIDE || code == DEBUG_WIDE)
        scale = 1;
    if (code == EXTRA_WIDE || code == DEBUG_EXTRA_WIDE)
        scale = 2;
    if (scale) {
        if (++at >= bytecodes.len)
            return 0;
        code = bytecodes.data[at];
        prefix = 1;
    }
    return code < file->n_bytecodes ? prefix + file->bytecode_sizes[scale][code] : 0;
}

bool v8_positions_baseline(const struct v8_file *file, struct bytes table, struct bytes bytecodes,
                           uint64_t offset, int32_t *bytecode)
{
    uint64_t code = 0, size;
    uint32_t at = 0;
    if (!take_number(&table, &size))
        return false;
    *bytecode = -1;
    while (code + size <= offset) {
        code += size;
        if (*bytecode >= 0) {
            uint32_t step = bytecode_size(file, bytecodes, at);
            if (!step)
                return false;
            at += step;
        }
        if (at >= bytecodes.len || at > INT32_MAX || size > UINT32_MAX ||
            !take_number(&table, &size))
            return false;
        *bytecode = (int32_t)at;
    }
    return true;
}

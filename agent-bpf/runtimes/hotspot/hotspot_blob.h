/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Reading of stack, CodeBlobs and code for a step. One source for kernel and user space: the
 * includer defines beforehand
 *     HOTSPOT_READ(walk, out, size, address)   0: all of it was read
 * In user space a range that lies partly in the copy of a stack must fail: the rest of it is not
 * from the same moment. Everything that is read may be forged, so no value leads outside of the
 * arrays of the walk, and each loop has its limit.
 * Functions marked HOTSPOT_FUNCTION are global in BPF: each is verified once, for any arguments,
 * instead of for each way to a call. So they look at their pointers again.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_walk.h"

#if defined(__bpf__)
#define HOTSPOT_FUNCTION __noinline
#else
#define HOTSPOT_FUNCTION static inline
#endif

/* The compiler forgets what it knows of the value: else it leaves out the limit that it finds
 * needless, by which the kernel's verifier sees that an index is within its array. */
#define HOTSPOT_OPAQUE(value) __asm__ volatile("" : "+r"(value))

static __always_inline void hotspot_begin(struct hotspot_walk *walk)
{
    walk->window_start = HOTSPOT_WINDOW_NOWHERE;
    walk->effort = 0;
}

/* Reading a page that is not mapped costs ten times as much, and forged frames may lead to any
 * number of them. 0: all of it was read. */
static __always_inline int hotspot_read(struct hotspot_walk *walk, void *out, __u32 size,
                                        __u64 address)
{
    if (!HOTSPOT_READ(walk, out, size, address))
        return 0;
    walk->effort += HOTSPOT_EFFORT_FAILED;
    return 1;
}

/* False: the walk has taken more than frames of a JVM take. */
static __always_inline bool hotspot_may_go_on(struct hotspot_walk *walk)
{
    return walk->effort++ < HOTSPOT_EFFORT_MAX;
}

static __always_inline bool hotspot_holds(const struct hotspot_process *process, __u64 address)
{
    for (int i = 0; i < HOTSPOT_HEAPS; i++)
        if (address >= process->heaps[i].low && address < process->heaps[i].high)
            return true;
    return false;
}

static __always_inline bool hotspot_in_interpreter(const struct hotspot_process *process,
                                                   __u64 address)
{
    return address >= process->interpreter && address < process->interpreter_end;
}

/* Lets the window begin at this address. Where a whole one cannot be read, a word of it may be:
 * that is then at its start, and the next word asked for is read again. False: not even that. */
HOTSPOT_FUNCTION int hotspot_move_window(struct hotspot_walk *walk, __u64 address)
{
    if (!walk || address % 8)
        return false;
    walk->window_start = address;
    if (!hotspot_read(walk, walk->window, sizeof(walk->window), address))
        return true;
    walk->window_start = HOTSPOT_WINDOW_NOWHERE;
    return !hotspot_read(walk, walk->window, sizeof(walk->window[0]), address);
}

/* A word of the stack. Those behind it are read with it, so ask for the lowest first. */
static __always_inline bool hotspot_word(struct hotspot_walk *walk, __u64 address, __u64 *value)
{
    __u64 at = address - walk->window_start;
    if (at % 8 || at >= sizeof(walk->window)) {
        if (!hotspot_move_window(walk, address))
            return false;
        at = 0;
    }
    HOTSPOT_OPAQUE(at);
    *value = walk->window[at / 8 % HOTSPOT_WINDOW_WORDS];
    return true;
}

/* ---- fields of the CodeBlob ---- */

static __always_inline __u64 hotspot_u64(const struct hotspot_walk *walk, __u32 offset)
{
    return *(const __u64 *)(walk->bytes + ((walk->blob_at + offset) & HOTSPOT_BLOB_MASK & ~7u));
}

static __always_inline __u32 hotspot_u32(const struct hotspot_walk *walk, __u32 offset)
{
    return *(const __u32 *)(walk->bytes + ((walk->blob_at + offset) & HOTSPOT_BLOB_MASK & ~3u));
}

static __always_inline __u32 hotspot_u16(const struct hotspot_walk *walk, __u32 offset)
{
    return *(const __u16 *)(walk->bytes + ((walk->blob_at + offset) & HOTSPOT_BLOB_MASK & ~1u));
}

static __always_inline __u32 hotspot_u8(const struct hotspot_walk *walk, __u32 offset)
{
    return walk->bytes[(walk->blob_at + offset) & HOTSPOT_BLOB_MASK];
}

static __always_inline __u64 hotspot_blob_address(const struct hotspot_walk *walk, __u32 offset,
                                                  bool is_offset)
{
    return is_offset ? walk->blob + hotspot_u32(walk, offset) : hotspot_u64(walk, offset);
}

static __always_inline bool hotspot_is_nmethod(const struct hotspot_walk *walk,
                                               const struct hotspot_blob_layout *layout)
{
    __u32 bytes = layout->header_size_bytes == 2 ? hotspot_u16(walk, layout->header_size)
                                                 : hotspot_u32(walk, layout->header_size);
    return bytes == layout->nmethod_bytes;
}

/* True: what was read is the header of a block in use, and a CodeBlob whose code has pc. Bytes from
 * the middle of a large block do not look like that. */
HOTSPOT_FUNCTION int hotspot_blob_holds(struct hotspot_walk *walk,
                                        const struct hotspot_process *process, __u64 pc)
{
    if (!walk || !process)
        return false;
    const struct hotspot_blob_layout *layout = &process->blob;
    walk->blob_at = 0;
    __u64 length = layout->length_bytes == 8 ? hotspot_u64(walk, layout->block_length)
                                             : hotspot_u32(walk, layout->block_length);
    bool used = hotspot_u8(walk, layout->block_used) == 1;
    walk->blob_at = layout->block_bytes;
    __u32 size = hotspot_u32(walk, layout->size);
    __u64 offset = pc - walk->blob;
    if (!used || offset >= size ||
        (__u64)size + layout->block_bytes > length << (process->segment_shift & 31))
        return false;
    walk->code_begin = hotspot_blob_address(walk, layout->code_begin, layout->has_offsets);
    walk->code_end = hotspot_blob_address(walk, layout->code_end, layout->has_offsets);
    return walk->code_begin > walk->blob && walk->code_begin <= pc && pc < walk->code_end &&
           walk->code_end <= walk->blob + size;
}

/* The CodeBlob that pc lies in. One hop leads to its header in nearly all cases: a larger hop than
 * 254 segments takes several. */
HOTSPOT_FUNCTION int hotspot_find_blob(struct hotspot_walk *walk,
                                       const struct hotspot_process *process, __u64 pc)
{
    __u64 low = 0, segmap = 0;
    if (!walk || !process)
        return UNWIND_END_UNKNOWN;
    for (int i = 0; i < HOTSPOT_HEAPS; i++) {
        if (pc < process->heaps[i].low || pc >= process->heaps[i].high)
            continue;
        low = process->heaps[i].low;
        segmap = process->heaps[i].segmap;
    }
    __u64 segment = (pc - low) >> (process->segment_shift & 31);
    for (int i = 0; i < HOTSPOT_HOPS_MAX; i++) {
        __u8 tag = HOTSPOT_SEGMENT_FREE;
        if (i && !hotspot_may_go_on(walk))
            return UNWIND_END_TRUNCATED;
        if (hotspot_read(walk, &tag, sizeof(tag), segmap + segment))
            return UNWIND_END_NO_MEMORY;
        if (tag == HOTSPOT_SEGMENT_FREE || tag > segment)
            return UNWIND_END_BAD_ADDRESS;
        segment -= tag;
        __u64 block = low + (segment << (process->segment_shift & 31));
        walk->blob = block + process->blob.block_bytes;
        if (hotspot_read(walk, walk->bytes, HOTSPOT_BLOB_BYTES, block)) {
            if (hotspot_read(walk, walk->bytes, HOTSPOT_BLOB_LEAST, block))
                return UNWIND_END_NO_MEMORY;
        }
        if (hotspot_blob_holds(walk, process, pc))
            return HOTSPOT_UNWINDS;
        if (!tag)
            break;
    }
    return UNWIND_END_BAD_ADDRESS;
}

/* ---- code ---- */

/* The code around pc: bytes that cannot be read are 0, which is none of what is looked for. */
static __always_inline void hotspot_read_code(struct hotspot_walk *walk)
{
    if (!hotspot_read(walk, walk->code, HOTSPOT_CODE_BYTES, walk->pc - HOTSPOT_CODE_BEFORE))
        return;
    __builtin_memset(walk->code, 0, sizeof(walk->code));
    hotspot_read(walk, walk->code + HOTSPOT_CODE_BEFORE, 16, walk->pc);
}

/* A byte of code, `at` from pc on: -HOTSPOT_CODE_BEFORE to HOTSPOT_CODE_BYTES -
 * HOTSPOT_CODE_BEFORE - 1. */
static __always_inline __u32 hotspot_code(const struct hotspot_walk *walk, int at)
{
    __u32 index = (__u32)(HOTSPOT_CODE_BEFORE + at);
    if (!__builtin_constant_p(index))
        HOTSPOT_OPAQUE(index);
    return walk->code[index % HOTSPOT_CODE_BYTES];
}

/* Eight bytes, the first one lowest. */
static __always_inline __u64 hotspot_code8(const struct hotspot_walk *walk, int at)
{
    __u32 index = (__u32)(HOTSPOT_CODE_BEFORE + at);
    __u64 word;
    if (!__builtin_constant_p(index))
        HOTSPOT_OPAQUE(index);
    __builtin_memcpy(&word, walk->code + index % HOTSPOT_CODE_BYTES, sizeof(word));
    return word;
}

/* Three bytes of code in the order of memory: 0x4883ec. */
static __always_inline __u32 hotspot_code3(const struct hotspot_walk *walk, int at)
{
    return hotspot_code(walk, at) << 16 | hotspot_code(walk, at + 1) << 8 |
           hotspot_code(walk, at + 2);
}

static __always_inline __u32 hotspot_code_int(const struct hotspot_walk *walk, int at)
{
    return hotspot_code(walk, at) | hotspot_code(walk, at + 1) << 8 |
           hotspot_code(walk, at + 2) << 16 | hotspot_code(walk, at + 3) << 24;
}

enum hotspot_return {
    HOTSPOT_RETURN_NONE,
    HOTSPOT_RETURN_POSSIBLE, /* a call may return to this address */
    HOTSPOT_RETURN_SURE, /* the call is to the CodeBlob of this frame, not behind pc: walk->target
                          */
};

#define HOTSPOT_CALL_BYTES 16 /* read in front of a return address */

/* call r/m: ff /2, with nothing, 8 or 32 bits of displacement, and SIB */
static __always_inline bool hotspot_calls_indirectly(const __u8 code[HOTSPOT_CALL_BYTES])
{
    return (code[14] == 0xff && (code[15] & 0x38) == 0x10) ||
           (code[13] == 0xff && (code[14] & 0x38) == 0x10) ||
           (code[12] == 0xff && (code[13] & 0x38) == 0x10) ||
           (code[10] == 0xff && (code[11] & 0x38) == 0x10) ||
           (code[9] == 0xff && (code[10] & 0x38) == 0x10);
}

/* Where a call of a constant address goes: call rel32, or mov r10, imm64; call r10. 0: it is none.
 */
static __always_inline __u64 hotspot_call_target(const __u8 code[HOTSPOT_CALL_BYTES], __u64 behind)
{
    __s32 distance = 0;
    __u64 target = 0;
    __builtin_memcpy(&distance, code + 12, sizeof(distance));
    if (code[11] == 0xe8)
        return behind + (__u64)(__s64)distance;
    if (code[3] == 0x49 && code[4] == 0xba && code[13] == 0x41 && code[14] == 0xff &&
        code[15] == 0xd2)
        __builtin_memcpy(&target, code + 5, sizeof(target));
    return target;
}

/* Whether a call returns to the address: values that were left on the stack look like that too. The
 * interpreter puts other addresses of its code on the stack than those behind calls. */
HOTSPOT_FUNCTION int hotspot_is_return(struct hotspot_walk *walk,
                                       const struct hotspot_process *process, __u64 address)
{
    __u8 code[HOTSPOT_CALL_BYTES] = {0};
    if (!walk || !process || !hotspot_holds(process, address))
        return HOTSPOT_RETURN_NONE;
    if (address == process->return_barrier)
        return HOTSPOT_RETURN_POSSIBLE;
    if (hotspot_read(walk, code, sizeof(code), address - sizeof(code)))
        return HOTSPOT_RETURN_NONE;
    __u64 target = hotspot_call_target(code, address);
    if (target >= walk->code_begin && target <= walk->pc) {
        walk->target = target;
        return HOTSPOT_RETURN_SURE;
    }
    return target || hotspot_calls_indirectly(code) || hotspot_in_interpreter(process, address)
               ? HOTSPOT_RETURN_POSSIBLE
               : HOTSPOT_RETURN_NONE;
}

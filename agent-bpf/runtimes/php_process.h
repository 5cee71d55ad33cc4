/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What the tick must know to read the list of PHP frames of a process, and the words of such a
 * frame: shared by the BPF program and user space. Source of the layouts: Zend/zend_compile.h,
 * zend_globals.h, zend_types.h and zend_generators.h of 7.4 to 8.5.
 *
 * A closure's function is a part of the closure's object, which may be gone before the frame is
 * named. So a frame does not carry its function but the strings that it is named by (zend_string),
 * its line, and an identity of their contents. These take all bits that three words have: addresses
 * are multiples of 8 below 1 << 47.
 */
#include "agent-bpf/runtimes/runtime_list.h"

#define PHP_FUNCTION_BYTES 184 /* read of a zend_function; of all versions the most */

struct php_process {
    struct runtime_range evaluation[RUNTIME_EVALUATION_MAX]; /* execute_ex() */
    __u64 current;   /* address of executor_globals.current_execute_data */
    __u64 generator; /* the class of generators; 0: not known */
    /* zend_op_array */
    __u16 function_bytes; /* to be read, PHP_FUNCTION_BYTES at most */
    __u16 function_last;  /* number of its opcodes */
    __u16 function_opcodes;
    __u16 function_filename;
    /* zend_generator */
    __u16 generator_frame;
    __u16 generator_parent;
    __u8 major; /* version */
    __u8 minor;
    __u16 reserved;
};

_Static_assert(sizeof(struct php_process) == 96, "php_process is in a BPF map value");

/* Code that has no function: in place of the address of the name. */
enum php_code { PHP_NO_CODE = 0, PHP_CODE_MAIN = 8, PHP_CODE_INCLUDE = 16, PHP_CODE_EVAL = 24 };

struct php_frame {
    __u64 name;  /* zend_string; enum php_code */
    __u64 class; /* its name, a zend_string; 0: none */
    __u64 file;  /* zend_string; 0: an internal function */
    __u32 line;  /* 0: not known */
    __u32 identity;
};

#define PHP_ADDRESS_BITS 44 /* without the lowest three */
#define PHP_ADDRESS_MASK ((1ULL << PHP_ADDRESS_BITS) - 1)
#define PHP_LINE_MAX     0xfffffu
#define PHP_IDENTITY_LOW 20 /* bits of it in the third word */

#define PHP_INLINE static inline __attribute__((always_inline))

PHP_INLINE __u64 php_frame_word(__u64 address, __u64 above)
{
    return (address >> 3 & PHP_ADDRESS_MASK) | above << PHP_ADDRESS_BITS;
}

/* First word: name, upper part of the identity; second: file, line; third: class, the rest. */
PHP_INLINE void php_frame_pack(const struct php_frame *frame, __u64 *words)
{
    __u32 line = frame->line <= PHP_LINE_MAX ? frame->line : 0;
    words[0] = php_frame_word(frame->name, frame->identity >> PHP_IDENTITY_LOW) |
               (__u64)FRAME_PHP << RECORD_FRAME_SHIFT;
    words[1] = php_frame_word(frame->file, line);
    words[2] = php_frame_word(frame->class, frame->identity & ((1u << PHP_IDENTITY_LOW) - 1));
}

PHP_INLINE void php_frame_unpack(const __u64 *words, struct php_frame *frame)
{
    __u64 payload = words[0] & RECORD_FRAME_MASK;
    frame->name = (payload & PHP_ADDRESS_MASK) << 3;
    frame->file = (words[1] & PHP_ADDRESS_MASK) << 3;
    frame->class = (words[2] & PHP_ADDRESS_MASK) << 3;
    frame->line = (__u32)(words[1] >> PHP_ADDRESS_BITS);
    frame->identity = (__u32)(payload >> PHP_ADDRESS_BITS) << PHP_IDENTITY_LOW |
                      (__u32)(words[2] >> PHP_ADDRESS_BITS);
}

/* Of a string's hash, which PHP has computed of its characters when it was made, and its length. */
PHP_INLINE __u64 php_identity_add(__u64 hash, __u64 text_hash, __u64 length)
{
    hash = (hash ^ text_hash) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
    return (hash ^ length) * 0xbf58476d1ce4e5b9ULL;
}

PHP_INLINE __u32 php_identity(__u64 hash)
{
    return (__u32)(hash >> 32);
}

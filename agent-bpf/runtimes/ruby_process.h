/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What the tick must know to read the control frames of a process's Ruby threads: shared by the BPF
 * program and user space. Source of the layouts: vm_core.h, method.h and internal/imemo.h of Ruby
 * 2.7 to 3.4.
 */
#include "agent-bpf/runtimes/runtime_list.h"

#define RUBY_READ_MAX 128 /* bytes read of one structure */

/* Flags of an environment (the last word of it). */
#define RUBY_ENV_LOCAL    0x2ULL /* it has no outer one */
#define RUBY_ENV_FINISH   0x20ULL
#define RUBY_FRAME_MASK   0x7fff0001ULL
#define RUBY_FRAME_CFUNC  0x55550001ULL
#define RUBY_FRAME_IFUNC  0x66660001ULL
#define RUBY_FRAME_DUMMY  0x79990001ULL
#define RUBY_FRAME_METHOD 0x11110001ULL
#define RUBY_ENVS_MAX     4 /* from a block outwards to its method */

/* Words of FRAME_RUBY: the instruction sequence, 0 of a method in C; identity in the upper half,
 * position in the lower one; method entry (or what leads to it, or what is none). */
#define RUBY_POSITION_NONE 0xffffffffULL

struct ruby_process {
    struct runtime_range evaluation[RUNTIME_EVALUATION_MAX]; /* vm_exec(); unused ones are empty */
    struct runtime_range inner[RUNTIME_EVALUATION_MAX];      /* what it calls: vm_exec_core() */
    struct context_variable current; /* ruby_current_ec; THREAD_LOCAL_NONE: it is at `holder` */
    __u64 holder;     /* address of the execution context of the thread that holds the lock */
    __u64 symbols;    /* of the Array of identifiers' names; 0: not known */
    __u32 class_path; /* identifier of the variable that has a class's path; 0: none */
    __u32 attached;   /* the same for the object of a singleton class */
    __u8 frame_bytes; /* of a control frame */
    __u8 line_bytes;  /* of location.first_lineno */
    __u8 text_start;  /* in a String that is embedded */
    __u8 reserved;
    __u16 ec_thread;     /* of `holder`: rb_thread_t */
    __u16 thread_native; /* its pthread_self() */
};

_Static_assert(sizeof(struct ruby_process) == 192, "ruby_process is in a BPF map value");

#define RUBY_BODY_BYTES    96 /* of rb_iseq_constant_body: to the end of first_lineno */
#define RUBY_BODY_SIZE     4  /* instructions and operands, in words */
#define RUBY_BODY_CODE     8
#define RUBY_BODY_PATH     64
#define RUBY_BODY_BASE     72
#define RUBY_BODY_LABEL    80
#define RUBY_BODY_LINE     88
#define RUBY_LABEL_BYTES   40 /* of a String: its beginning */
#define RUBY_ISEQ_BODY     16
#define RUBY_ISEQ_BYTES    24
#define RUBY_METHOD_BYTES  40
#define RUBY_CODE_SIZE_MAX (1u << 24)

static inline __attribute__((always_inline)) __u64 ruby_hash(__u64 hash, __u64 word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 29;
}

/* Of an instruction sequence, which is not that of another one made in its memory: where its parts
 * are, and the beginning of its label. of_body, of_label: words, RUBY_BODY_BYTES and
 * RUBY_LABEL_BYTES of them. */
static inline __attribute__((always_inline)) __u32 ruby_identity(__u64 at, const void *of_body,
                                                                 const void *of_label)
{
    const __u64 *body = of_body, *label = of_label;
    __u64 hash = ruby_hash(0, at);
    hash = ruby_hash(ruby_hash(hash, body[0]), body[RUBY_BODY_CODE / 8]);
    hash = ruby_hash(ruby_hash(hash, body[RUBY_BODY_PATH / 8]), body[RUBY_BODY_BASE / 8]);
    hash = ruby_hash(ruby_hash(hash, body[RUBY_BODY_LABEL / 8]), body[RUBY_BODY_LINE / 8]);
    for (int i = 2; i < RUBY_LABEL_BYTES / 8; i++) /* behind flags and class */
        hash = ruby_hash(hash, label[i]);
    return (__u32)(hash >> 32) | 1;
}

/* Of a method entry: RUBY_METHOD_BYTES. */
static inline __attribute__((always_inline)) __u32 ruby_method_identity(const void *of_method)
{
    const __u64 *method = of_method;
    __u64 hash = 0;
    for (int i = 1; i < RUBY_METHOD_BYTES / 8; i++) /* flags may change */
        hash = ruby_hash(hash, method[i]);
    return (__u32)(hash >> 32) | 1;
}

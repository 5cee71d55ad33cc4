/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Data shared by kernel and user space: included by the BPF programs (after vmlinux.h) and by
 * user space (after <stdint.h>). Sizes are asserted on both sides.
 *
 * A sample in the ring: struct record_header, then attributes_size bytes of context attributes,
 * padded to 8, then frame words. The attributes' form is that of header.attributes_source
 * (context/context_source.h). Keys and values of labels are cut at CONTEXT_LABEL_MAX. Which labels
 * are ids is decided in user space (labels.h): the header's ids are then those of a source of lower
 * precedence, or zero. The last entry may be incomplete: leave it out.
 * Frames: leaf first, kernel frames in front of user frames. Each frame begins with one tagged
 * word: kind in bits 56..63, payload in bits 0..55; further words follow, record_frame_words(kind)
 * in all. A kernel address is sign-extended from bit 55.
 * Behind the user frames, list_words: the frames of an interpreter that has a stack of its own,
 * leaf first, whole as it was at the tick (agent-bpf/list_interleave.h). Behind them, task_size
 * bytes of a struct record_task. With RECORD_FLAG_STACK: then struct record_stack and its copy of
 * the stack.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#include <stdint.h>
#endif
#include "agent-bpf/unwind_rows.h"
#include "context/context_source.h"

enum record_kind { RECORD_CPU = 1, RECORD_OFF_CPU = 2, RECORD_EVENT = 3 };

/* The words of a frame, with what is in the payload of the first. Frames of runtimes carry what
 * identifies their object, so that the symbolizer notices when another is in its place. */
enum record_frame_kind {
    FRAME_NONE = 0,
    FRAME_KERNEL = 1,          /* address */
    FRAME_NATIVE = 2,          /* address; RECORD_FRAME_EXACT */
    FRAME_NATIVE_EVAL = 3,     /* the same; its CFA, tagged with the kind of frames of the list
                                  that its code works off */
    FRAME_PYTHON = 4,          /* code object; index of the instruction (low half); identity */
    FRAME_LIST_ENTRY = 5,      /* ends the frames of one activation of the evaluation function:
                                  address of what is within the activation; 0: not told */
    FRAME_JVM_COMPILED = 6,    /* pc; CodeBlob; compile id (low half) and level */
    FRAME_JVM_INTERPRETED = 7, /* Method; ConstMethod (48 bits) and bci (16; 0xffff: not known) */
    FRAME_JVM_STUB = 8,        /* pc; CodeBlob */
    FRAME_JVM_GAP = 9,         /* frames are missing here: enum hotspot_gap */
    FRAME_V8 = 10,             /* as agent-bpf/runtimes/v8_process.h says */
    FRAME_RUBY = 11,           /* as agent-bpf/runtimes/ruby_process.h says */
    FRAME_PHP = 12,            /* as agent-bpf/runtimes/php_process.h says */
    FRAME_KINDS
};

#define RECORD_FRAME_SHIFT 56
#define RECORD_FRAME_MASK  ((1ULL << RECORD_FRAME_SHIFT) - 1)
#define RECORD_FRAME_EXACT (1ULL << 55) /* FRAME_NATIVE: what ran, not a return address */
#define RECORD_EVAL_INNER                                                                          \
    (1ULL << 55) /* FRAME_NATIVE_EVAL, with the CFA: not an activation,                            \
                    but what it calls to work off its list */
#define RECORD_LIST_OUTSIDE      RECORD_FRAME_MASK /* FRAME_LIST_ENTRY: no activation has them */
#define RECORD_MAX_KERNEL_FRAMES 127
#define RECORD_MAX_USER_FRAMES   512
#define RECORD_FRAME_WORDS_MAX   3
#define RECORD_MAX_USER_WORDS    (RECORD_FRAME_WORDS_MAX * RECORD_MAX_USER_FRAMES) /* and the list */
#define RECORD_MAX_FRAMES        (RECORD_MAX_KERNEL_FRAMES + RECORD_MAX_USER_FRAMES) /* but the list */
#define RECORD_MAX_FRAME_WORDS   (RECORD_MAX_KERNEL_FRAMES + RECORD_MAX_USER_WORDS)
#define RECORD_MAX_ATTRIBUTES    1024
#define RECORD_COMM              16
#define RECORD_RED_ZONE                                                                            \
    128 /* bytes below the stack pointer: epilogues have popped what rules name */
#define RECORD_STACK_MAX 32768 /* bytes of a copy of the stack */
#define RECORD_MAX_SIZE                                                                            \
    (144 + RECORD_MAX_ATTRIBUTES + 8 * RECORD_MAX_FRAME_WORDS + 128 + 312 + RECORD_STACK_MAX)

struct record_frame {
    __u64 words[RECORD_FRAME_WORDS_MAX]; /* those that its kind does not have are 0 */
};

/* 0: there is no such kind. */
static inline __u32 record_frame_words(__u32 kind)
{
    switch (kind) {
    case FRAME_KERNEL:
    case FRAME_NATIVE:
    case FRAME_LIST_ENTRY:
    case FRAME_JVM_GAP:
        return 1;
    case FRAME_NATIVE_EVAL:
    case FRAME_JVM_INTERPRETED:
    case FRAME_JVM_STUB:
        return 2;
    case FRAME_PYTHON:
    case FRAME_JVM_COMPILED:
    case FRAME_V8:
    case FRAME_RUBY:
    case FRAME_PHP:
        return 3;
    default:
        return 0;
    }
}

enum record_flag {
    RECORD_FLAG_USER_MODE = 1 << 0,     /* the tick interrupted user code */
    RECORD_FLAG_CONTEXT_KNOWN = 1 << 1, /* the process has a reader attached */
    RECORD_FLAG_CONTEXT_TORN = 1 << 2,  /* a record was there, but not readable or not valid */
    RECORD_FLAG_KERNEL_THREAD = 1 << 3,
    RECORD_FLAG_TRUNCATED = 1 << 4, /* the user stack goes on: header.end says why */
    RECORD_FLAG_CONTEXT_CHANGED =
        1 << 5, /* the process has published another context since its entry was made */
    RECORD_FLAG_LABELS_CUT = 1 << 6, /* it has labels that are not in the attributes */
    RECORD_FLAG_STACK = 1 << 7,      /* a record_stack follows the frames */
};

struct record_header {
    __u32 size;          /* of the whole record in bytes, a multiple of 8 */
    __u8 kind;           /* enum record_kind */
    __u8 flags;          /* enum record_flag */
    __u8 context_source; /* enum context_source */
    __u8 trace_flags;    /* W3C; only with a context */
    __u64 time_ns;       /* CLOCK_MONOTONIC */
    __u64 value_ns;      /* CPU or blocked time that this sample stands for */
    __u64 period_ns;     /* distance of samples when it was taken */
    __u64 cgroup_id;
    __u64 process_start_ns; /* task->group_leader->start_boottime: tells a reused pid apart */
    __u32 cpu;
    __u32 state; /* task state at switch-out (off-CPU); 0 for CPU samples */
    __u32 pid;   /* thread group id in the PID namespace that spanprof runs in; 0 = not in it */
    __u32 tid;
    __u32 own_pid; /* the same in the process's own (innermost) PID namespace */
    __u32 own_tid;
    __u32 root_pid; /* the same in the root namespace */
    __u32 root_tid;
    __u32 uid; /* that its files and sockets belong to, in the root user namespace */
    __u16 list_words;
    __u16 task_size; /* a multiple of 8; 0: the thread runs no task that is known */
    char comm[RECORD_COMM];
    __u8 trace_id[16];      /* zero = the source gives none */
    __u8 span_id[8];        /* zero = the source gives none */
    __u8 local_root_id[8];  /* zero = the source gives none */
    __u16 attributes_size;  /* bytes behind the header, before padding */
    __u16 kernel_words;     /* frame words of kernel frames */
    __u16 user_words;       /* frame words of user frames, behind the kernel's; then list_words */
    __u8 attributes_source; /* enum context_source: the form of the attributes */
    __u8 end;               /* enum unwind_end: why there are no further user frames */
};

_Static_assert(sizeof(struct record_header) == 144, "record_header crosses from BPF to user space");

/* What the name of a task is: its text, by the bytes of a character; or its number. */
enum record_task_form {
    RECORD_TASK_UNREADABLE = 0,
    RECORD_TASK_LATIN1 = 1,
    RECORD_TASK_UCS2 = 2,
    RECORD_TASK_UCS4 = 4,
    RECORD_TASK_NUMBER = 8,
};

#define RECORD_TASK_HEAD     8 /* bytes in front of the text */
#define RECORD_TASK_TEXT_MAX 120
/* They change no size, but show the verifier that there are bounds. */
#define RECORD_TASK_TEXT_MASK 127
#define RECORD_TASK_MASK      0xf8 /* of the whole: multiples of 8 */

/* The name of the task that the thread runs (Python's asyncio), as it was at the tick. */
struct record_task {
    __u8 form; /* enum record_task_form */
    __u8 size; /* bytes of `text` that count: longer names are cut */
    __u8 reserved[6];
    union {
        __u8 text[RECORD_TASK_TEXT_MAX];
        __u64 words[RECORD_TASK_TEXT_MAX / 8];
    };
};

_Static_assert(sizeof(struct record_task) == 128, "record_task crosses from BPF to user space");

/*
 * Where user space continues to unwind a stack: the rows of the code at pc were not loaded at the
 * time of the tick. The frame of pc itself is not among the record's frames. (In the mode for
 * comparing unwinders complete records have it too: where unwinding began.)
 */
struct record_stack {
    __u64 pc;
    __u64 start;    /* address that the copy begins at: RECORD_RED_ZONE below the stack pointer */
    __u32 size;     /* bytes of the copy, which follows; a multiple of 8. Ones: not readable */
    __u32 known;    /* a bit for each register that is */
    __u8 is_return; /* pc lies behind a call; else it is the instruction itself */
    __u8 reserved[7];
    struct unwind_file file;               /* that pc lies in; zero: unknown */
    __u64 registers[UNWIND_REGISTERS_MAX]; /* by DWARF number */
};

_Static_assert(sizeof(struct record_stack) == 312, "record_stack crosses from BPF to user space");

/*
 * Value of the `contexts` map, key: __u32 pid as in record_header.pid. Written by the symbolizer in
 * the order of precedence; the programs on exec and exit delete it. Variables are tried in order:
 * the first that gives ids counts; labels are added if it has no attributes.
 */
enum thread_local_model {
    THREAD_LOCAL_NONE = 0,
    THREAD_LOCAL_STATIC = 1,
    THREAD_LOCAL_DYNAMIC = 2
};

#define CONTEXT_MAX_VARIABLES 8
#define CONTEXT_START_TICK_NS 10000000ULL /* 1 s / USER_HZ */

enum go_labels_form { GO_LABELS_MAP = 1, GO_LABELS_SLICE = 2 };

/* Where the object of a Node.js context has the address of its record. */
enum nodejs_form {
    NODEJS_SLOT_IN_VARIABLE = 1, /* at an offset that the thread's variable names */
    NODEJS_SLOT = 2,             /* at nodejs_slot */
    NODEJS_SLOT_OF_OWNER = 3,    /* nodejs_slot has the address of what has it at nodejs_owner */
};

struct context_variable {
    __u8 source;             /* enum context_source */
    __u8 thread_local_model; /* enum thread_local_model */
    __u8 dtv_entry_size;
    union {
        __u8 go_form;     /* enum go_labels_form */
        __u8 nodejs_form; /* enum nodejs_form */
    };
    union {
        struct { /* CONTEXT_GO_LABELS: `offset` leads to the g; offsets in bytes from there on */
            __u16 go_g_m;
            __u16 go_m_curg;
        };
        struct { /* CONTEXT_OTEL_NODEJS: offsets in bytes */
            __u16 nodejs_slot;
            __u16 nodejs_owner;
        };
    };
    __s64 offset __attribute__((
        aligned(8))); /* static: from the thread pointer; dynamic: within the module's block */
    union {
        __u64 module; /* dynamic: index into the DTV */
        __u64 go_g_labels;
    };
    __s64 dtv_offset; /* dynamic: of the DTV pointer from the thread pointer */
};

#define CONTEXT_PROCESSES_MAX 16384 /* of which a tenant has its share: base/fair_share.h */

struct context_process {
    /* start of the process since boot, as field 22 of /proc/PID/stat in clock ticks times
     * CONTEXT_START_TICK_NS; compared with the task's in whole ticks; other: stale; 0: not checked
     */
    __u64 process_start_ns;
    __u64 published_address; /* of the publication time in the OTEL_CTX header; 0 = none */
    __u64 published_ns;      /* as the symbolizer read it; another: RECORD_FLAG_CONTEXT_CHANGED */
    /* Written by the sampler, without a lock; the symbolizer checks by them that the entry works:
     */
    __u32 n_found; /* reads that gave ids or labels */
    __u32 n_torn;  /* reads that failed or gave invalid data */
    __u32 count;
    __u32 reserved;
    struct context_variable variables[CONTEXT_MAX_VARIABLES];
};

/* Index into the `counters` map (per CPU), exported by sampler_count(). */
enum sampler_counter {
    SAMPLER_SAMPLES, /* into the ring */
    SAMPLER_LOST_RING_FULL,
    SAMPLER_CONTEXTS, /* samples with ids */
    SAMPLER_LABELS,   /* samples with labels and no ids beside them */
    SAMPLER_LABELS_CUT,
    SAMPLER_CONTEXTS_TORN,
    SAMPLER_CONTEXTS_STALE,        /* entry of another process with the same pid */
    SAMPLER_FOREIGN_PIDS,          /* samples of processes outside our PID namespace */
    SAMPLER_CONTEXTS_DELETED,      /* entries removed on exec and exit */
    SAMPLER_FILTERED_NOT_INCLUDED, /* ticks of tasks that are not to be sampled, by the rule */
    SAMPLER_FILTERED_PID,
    SAMPLER_FILTERED_COMM,
    SAMPLER_FILTERED_EXECUTABLE,
    SAMPLER_FILTERED_CGROUP,
    SAMPLER_FILTERED_CONTAINER,
    SAMPLER_TICK_NS,           /* that ticks took, filtered ones too */
    SAMPLER_STACKS_COPIED,     /* samples with RECORD_FLAG_STACK */
    SAMPLER_STACKS_NOT_COPIED, /* it was due, but the ring was half full or nothing was readable */
    SAMPLER_COUNTERS,
};

_Static_assert(sizeof(struct context_variable) == 32, "context_variable is a BPF map value");
_Static_assert(sizeof(struct context_process) == 40 + 32 * CONTEXT_MAX_VARIABLES, "map value");

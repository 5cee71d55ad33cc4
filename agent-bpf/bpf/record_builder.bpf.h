/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/* A record that is being built: one per CPU, too large for the stack. */
#define step_read(out, size, address) bpf_probe_read_user((out), (size), (void *)(address))
#include "agent-bpf/runtimes/hotspot/hotspot_walk.h"
#include "agent-bpf/runtimes/php/php_list.h"
#include "agent-bpf/runtimes/python/python_list.h"
#include "agent-bpf/runtimes/python/python_task.h"
#include "agent-bpf/runtimes/ruby/ruby_list.h"
#include "agent-bpf/runtimes/v8/v8_step_state.h"

#define BUILD_AT_MASK   0x3ff8 /* offsets of frames: multiples of 8 */
#define BUILD_STACK_MAX (sizeof(struct record_stack) + RECORD_STACK_MAX)
#define BUILD_CHUNK     4096 /* of the stack, copied at once */

#define LABELS_MAX      32                          /* read of one set */
#define LABEL_BYTES_MAX (2 + 2 * CONTEXT_LABEL_MAX) /* in the attributes */

struct label_text { /* in the process: Go's string */
    __u64 address;
    __u64 size;
};

struct custom_label { /* custom labels */
    __u64 key_size;
    __u64 key;
    __u64 value_size;
    __u64 value;
};

#define GO_BUCKET_SLOTS 8

struct go_bucket { /* Go <= 1.23: of a map[string]string */
    __u8 tophash[GO_BUCKET_SLOTS];
    struct label_text keys[GO_BUCKET_SLOTS];
    struct label_text values[GO_BUCKET_SLOTS];
};

_Static_assert(sizeof(struct go_bucket) == 264, "without the overflow pointer");

#define WALK_MAPPINGS 8 /* remembered in a walk: most stacks lie in fewer files */

struct walk_mapping {
    __u64 start;
    __u64 end;
    __u64 bias; /* ELF address minus address */
    struct unwind_file file;
    __u32 executable;
    __u32 how; /* enum unwind_how; 0 = not loaded yet */
};

struct walk { /* from frame to frame */
    __u64 pc;
    __u64 registers[UNWIND_REGISTERS_MAX]; /* by DWARF number */
    __u32 known;                           /* a bit for each */
    __u32 is_return;                       /* what pc is */
    __u32 is_guess; /* its caller was looked for by the frame pointer alone */
    __u64 cfa;
    struct unwind_rule rule; /* of the frame at pc */
    __u64 mm;
    __u64 maple_root;
    __u64 vma;
    __u64 node[32]; /* of the maple tree, a copy */
    struct walk_mapping mappings[WALK_MAPPINGS];
    __u32 n_mappings; /* remembered so far: the oldest is replaced */
    __u32 mapping;    /* index of the one that pc lies in */
    __u32 frames_at;  /* in rest, of the first user frame */
    __u32 n_frames;
    __u32 n_words; /* of them */
    __u32 n_evaluations;
    __u64 evaluations[2]; /* CFAs of the innermost that work off a list; 0: there is none */
    __u32 n_list;         /* words behind them */
    __u32 list_of;        /* enum runtime_section: whose they are */
    __u32 n_task;         /* words behind them: of a record_task */
    __u32 now_s;
    __u32 end;                 /* enum unwind_end */
    struct record_stack stack; /* where user space continues to unwind */
    union {
        struct runtime_list_next next; /* each begins with it */
        struct python_list python;
        struct ruby_list ruby;
        struct php_list php;
    } list;
    struct v8_step v8;
    struct hotspot_walk hotspot;
};

/* `rest` is larger than what follows a record's header, so that a masked offset plus the largest
 * stack is within: the mask alone then satisfies the verifier. Until the frames are written, their
 * room holds labels in the form of their process. */
struct build {
    struct record_header header;
    union {
        __u8 rest[BUILD_AT_MASK + 8 + BUILD_STACK_MAX + BUILD_CHUNK];
        struct {
            __u8
                attributes[RECORD_MAX_ATTRIBUTES + LABEL_BYTES_MAX]; /* the last may reach beyond */
            union {
                struct label_text labels[2 * LABELS_MAX]; /* key, value, key, ... */
                struct custom_label custom_labels[LABELS_MAX];
                struct go_bucket bucket;
            };
        };
    };
    struct walk walk; /* no part of the record */
};

enum { WALK_GOES_ON = -1 }; /* of a step; else enum unwind_end */

/* What a process can forge costs no tick more than 200 us: behind its first WALK_FREE_FRAMES frames
 * of runtimes a walk goes on as long as the tick is not late. */
#define WALK_FREE_FRAMES 128
#define WALK_NS_MAX      130000

static __always_inline bool walk_is_late(const struct build *build)
{
    return bpf_ktime_get_ns() - build->header.time_ns > WALK_NS_MAX;
}

static __always_inline void walk_add_word(struct build *build, __u64 word)
{
    struct walk *walk = &build->walk;
    *(__u64 *)(build->rest + ((walk->frames_at + walk->n_words * 8) & BUILD_AT_MASK)) = word;
    walk->n_words++;
}

static __always_inline __u64 walk_tagged(__u64 payload, enum record_frame_kind kind)
{
    return (payload & RECORD_FRAME_MASK) | (__u64)kind << RECORD_FRAME_SHIFT;
}

/* kind: FRAME_NATIVE, FRAME_NATIVE_EVAL; the CFA of the latter follows when it is known. */
static __always_inline void walk_add_frame(struct build *build, enum record_frame_kind kind,
                                           bool exact)
{
    __u64 word = build->walk.pc & (RECORD_FRAME_EXACT - 1);
    walk_add_word(build, walk_tagged(exact ? word | RECORD_FRAME_EXACT : word, kind));
    build->walk.n_frames++;
}

_Static_assert(BUILD_AT_MASK >=
                   RECORD_MAX_ATTRIBUTES + 8 * RECORD_MAX_FRAME_WORDS + sizeof(struct record_task),
               "record.h");
_Static_assert(sizeof(struct build) - sizeof(struct walk) >= RECORD_MAX_SIZE, "record.h");

/* Of a map value and of a task: user space knows the start in clock ticks. 0: it is not checked. */
static __always_inline bool starts_equal(__u64 expected_ns, __u64 start_ns)
{
    return !expected_ns || expected_ns / CONTEXT_START_TICK_NS == start_ns / CONTEXT_START_TICK_NS;
}

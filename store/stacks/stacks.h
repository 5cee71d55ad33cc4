/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dictionary: executables, stacks and the names of their frames. Writer thread only.
 *
 * A stack is interned once by a keyed hash over (executable, address) of its frames. Its public id
 * is FNV-128a over htlhash and decimal address, leaf first (what Elastic agents get); the address
 * is the ELF address where segments are known; of a named frame the FNV-128a of its name stands
 * for the htlhash, with address 0. It is computed when first asked for and then fixed,
 * so that span and sample say the same. Limits: STACKS_CACHE stacks and STACKS_EXECUTABLE_CACHE
 * executables in memory; on disk what was used in this generation or the one before, or is referred
 * to (a generation: ten minutes or STACKS_GENERATION_MAX new stacks). Errors: negative errno of
 * db.h.
 *
 * Stacks of which something is still to be found out: stacks_unfinished.h.
 */
#include "base/bytes.h"

struct db;
struct stacks;
struct id_set;

#define STACKS_CACHE            8192
#define STACKS_EXECUTABLE_CACHE 1024
#define STACKS_GENERATION_NS    (600 * UINT64_C(1000000000))
#define STACKS_GENERATION_MAX   200000
#define STACKS_FRAMES_MAX       1024
#define STACKS_NAME_MAX         4096 /* longer function and file names are cut */
#define STACKS_INLINED_MAX      31   /* functions inlined at one address, beside the compiled one */

enum frame_kind { STACK_FRAME_KERNEL = 1, STACK_FRAME_NATIVE = 2, STACK_FRAME_SPECIAL = 3 };

/* What a special frame has in place of an executable. */
enum frame_special {
    /* The last frame: the stack goes on, but could not be followed; address: enum unwind_end of
     * agent-bpf/unwind_rows.h. Makes another stack, but not another public id. */
    FRAME_TRUNCATION = 0,
    /* Code that lies in no file, but was given a name, by which alone it is known: it moves, and
     * what runs at its address is another code in another process. address: of stacks_named(). */
    FRAME_NAMED = 1,
};

struct frame {
    uint8_t kind;
    int64_t executable; /* rowid; 0 = no known mapping: address is the one in the process */
    uint64_t
        address; /* offset in the file; kernel: offset from _text, or absolute if executable is 0 */
};

static inline bool frame_is_named(const struct frame *frame)
{
    return frame->kind == STACK_FRAME_SPECIAL && frame->executable == FRAME_NAMED;
}

static inline bool frame_is_truncation(const struct frame *frame)
{
    return frame->kind == STACK_FRAME_SPECIAL && frame->executable == FRAME_TRUNCATION;
}

struct executable_segment { /* of PT_LOAD: turns offsets in the file into ELF addresses */
    uint64_t file_offset;
    uint64_t size;
    uint64_t vaddr;
};

#define EXECUTABLE_SEGMENTS_MAX 8

struct executable_facts {
    struct bytes path;     /* sanitized */
    struct bytes build_id; /* GNU, raw; may be empty */
    struct bytes go_build_id;
    uint8_t htlhash[16];
    bool htlhash_known;
    uint32_t n_segments;
    struct executable_segment segments[EXECUTABLE_SEGMENTS_MAX];
};

/* The segment that holds this offset in the file; NULL if none is known. */
const struct executable_segment *executable_segment_of(const struct executable_facts *facts,
                                                       uint64_t file_offset);

struct frame_name {
    uint64_t address; /* as in struct frame */
    struct bytes function;
    struct bytes file;
    int64_t line;             /* 0 = unknown */
    struct bytes system_name; /* as the linker has it (mangled), where that is another */
    struct bytes inlined;     /* functions inlined there: of stacks_name() for stacks_inlined() */
};

/* Why the stack was not followed: address of a truncation frame; NULL: it was. Thread: any. */
const char *stacks_truncation(uint64_t end);
/* The column "frames". 0 or -EUCLEAN. Thread: any. */
int stacks_decode(struct bytes blob, struct frame frames[STACKS_FRAMES_MAX], size_t *n);

int stacks_open(struct db *db, struct stacks **stacks);
void stacks_close(struct stacks *stacks); /* NULL is fine */
int stacks_reload(struct stacks *stacks); /* after a rolled-back transaction */

/* The rowid of the executable with this 16-byte identity, made if new. Ids are never used again;
 * one that was not asked for or used for two generations may be forgotten. */
int stacks_executable(struct stacks *stacks, const uint8_t identity[16], int64_t *id);
int stacks_executable_facts(struct stacks *stacks, int64_t id,
                            const struct executable_facts *facts);
/* Borrowed until the next call that changes the dictionary. -ENOENT if there is none such, or
 * nothing is known of it yet. */
int stacks_executable_get(struct stacks *stacks, int64_t id, const struct executable_facts **facts);

/* The rowid of the name of code that lies in no file, made if new; cut to STACKS_NAME_MAX. As of
 * executables. */
int stacks_named(struct stacks *stacks, struct bytes function, int64_t *id);

/* Interns; *names_wanted: it is new, or nobody looked yet whether all of its names are known: not
 * in this generation, or not since opening or reloading. -ESTALE: an executable or name is no
 * longer known: intern them again. -EINVAL: more than STACKS_FRAMES_MAX. */
int stacks_intern(struct stacks *stacks, const struct frame *frames, size_t n, int64_t *id,
                  bool *names_wanted);
/* The stack that this one is the same as; most are their own. -ENOENT. */
int stacks_canonical(struct stacks *stacks, int64_t id, int64_t *canonical);

/* Frames of a stack, leaf first; borrowed until the next call that is about a stack. -ENOENT. */
int stacks_frames(struct stacks *stacks, int64_t id, const struct frame **frames, size_t *n);
int stacks_public_id(struct stacks *stacks, int64_t id, uint8_t out[16]);
/* Whether it is fixed, or all is known that it is made of: who can wait asks later. Never while its
 * frames are open. */
int stacks_public_id_ready(struct stacks *stacks, int64_t id, bool *ready);

/* Of one address one after the other: what was inlined there innermost first, then the function
 * that was compiled; no longer waited for. */
int stacks_set_names(struct stacks *stacks, int64_t executable, const struct frame_name *names,
                     size_t n);
/* 0 and the name of the function that was compiled; -ENOENT while unknown. Borrowed until the next
 * call. */
int stacks_name(struct stacks *stacks, const struct frame *frame, struct frame_name *name);
/* What was inlined there, innermost first; borrowed as the name. Returns how many. */
size_t stacks_inlined(const struct frame_name *name, struct frame_name inlined[STACKS_INLINED_MAX]);

/* True when a generation is over, and swept: collect with what is referred to. */
bool stacks_collect_due(const struct stacks *stacks, uint64_t now_unix_ns);
/* Begins a new generation and a sweep. referred: sealed; taken over. */
int stacks_collect_begin(struct stacks *stacks, uint64_t now_unix_ns, struct id_set *referred);
/* Removes stacks, names and executables that nothing refers to any more; a bounded step each call.
 */
int stacks_collect(struct stacks *stacks);

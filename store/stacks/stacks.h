/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dictionary: executables, stacks and the names of their frames. Writer thread only.
 *
 * A stack is interned once by a keyed hash over (executable, address) of its frames. Its public id
 * is FNV-128a over htlhash and decimal address, leaf first (what Elastic agents get); the address
 * is the ELF address where segments are known; for a named frame, the FNV-128a of its function,
 * file and inlined functions replaces the htlhash, and its line the address. The public id is
 * computed on first use and then fixed, so that a span and its samples have equal ids. Limits:
 * STACKS_CACHE stacks and STACKS_EXECUTABLE_CACHE executables in memory; on disk the rows used in
 * this generation or the previous one, or referred to (a generation: ten minutes or
 * STACKS_GENERATION_MAX new stacks). Errors: negative errno of db.h.
 *
 * Stacks with open frames or names: stacks_unfinished.h.
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
#define STACKS_PAGE_BYTES       4096 /* frames without an executable: see struct frame */
#define STACKS_NAME_MAX         4096 /* longer function and file names are cut */
#define STACKS_INLINED_MAX      31   /* inlined functions at one address */
#define STACKS_TYPE_MAX         31
#define STACKS_UNNAMED_BITS     8

enum frame_kind { STACK_FRAME_KERNEL = 1, STACK_FRAME_NATIVE = 2, STACK_FRAME_SPECIAL = 3 };

/* Value of frame.executable in a special frame. */
enum frame_special {
    /* The last frame of a stack that goes on, but could not be followed. address: enum unwind_end
     * of agent-bpf/unwind_rows.h. Stacks that differ in this frame alone are different stacks with
     * the same public id. */
    FRAME_TRUNCATION = 0,
    /* Code that lies in no file, identified by its names alone: the code may move, and the same
     * address may hold other code in another process. address: rowid from stacks_named(). */
    FRAME_NAMED = 1,
    /* Code of a runtime that is not named yet, or will never be. address: enum record_frame_kind of
     * agent-bpf/record.h. Bits from STACKS_UNNAMED_BITS on are the owner's, and are not kept. */
    FRAME_UNNAMED = 2,
};

struct frame {
    uint8_t kind;
    int64_t executable; /* rowid; 0 = no known mapping */
    /* Offset in the file; kernel: offset from _text. If executable is 0 the offset in the page: of
     * an address of the process or the kernel no more than that is kept. */
    uint64_t address;
};

static inline bool frame_is_named(const struct frame *frame)
{
    return frame->kind == STACK_FRAME_SPECIAL && frame->executable == FRAME_NAMED;
}

static inline bool frame_is_unnamed(const struct frame *frame)
{
    return frame->kind == STACK_FRAME_SPECIAL && frame->executable == FRAME_UNNAMED;
}

/* In no file: its type is that of its name, and it has no address. */
static inline bool frame_is_code(const struct frame *frame)
{
    return frame_is_named(frame) || frame_is_unnamed(frame);
}

static inline bool frame_is_truncation(const struct frame *frame)
{
    return frame->kind == STACK_FRAME_SPECIAL && frame->executable == FRAME_TRUNCATION;
}

struct executable_segment { /* a PT_LOAD segment; translates file offsets to ELF addresses */
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
    int64_t column;           /* 0 = unknown */
    int64_t start_line;       /* of the function; 0 = unknown */
    struct bytes system_name; /* linker name (mangled), if it differs from function */
    struct bytes inlined;     /* encoded inlined functions, for stacks_inlined() */
    struct bytes type;        /* of a named frame: as in stacks_named(); else empty */
};

/* Decodes the column "body" of code_name; borrowed from it. 0 or -EUCLEAN. Thread: any. */
int stacks_decode_code_name(struct bytes body, struct frame_name *name);
/* The name of a frame that has none (yet); -ENOENT: it is another frame. Thread: any. */
int stacks_unnamed(const struct frame *frame, struct frame_name *name);
/* The reason of a truncation. end: address of the truncation frame. NULL: the stack was followed to
 * its end. Thread: any. */
const char *stacks_truncation(uint64_t end);
/* Decodes the column "frames". 0 or -EUCLEAN. Thread: any. */
int stacks_decode(struct bytes blob, struct frame frames[STACKS_FRAMES_MAX], size_t *n);

int stacks_open(struct db *db, struct stacks **stacks);
void stacks_close(struct stacks *stacks); /* NULL is fine */
int stacks_reload(struct stacks *stacks); /* after a rolled-back transaction */

/* The rowid of the executable with this 16-byte identity; creates the row if new. Ids are never
 * reused. A row that was unused for two generations may be removed. */
int stacks_executable(struct stacks *stacks, const uint8_t identity[16], int64_t *id);
int stacks_executable_facts(struct stacks *stacks, int64_t id,
                            const struct executable_facts *facts);
/* Borrowed until the next call that changes the dictionary. -ENOENT: no such executable, or its
 * facts are not known yet. */
int stacks_executable_get(struct stacks *stacks, int64_t id, const struct executable_facts **facts);

/* The rowid of the names of code that lies in no file; creates the row if new. names: inlined
 * functions innermost first, then the compiled function; n >= 1, STACKS_INLINED_MAX + 1 of them
 * count. Names are cut to STACKS_NAME_MAX. type: profile.frame.type of OpenTelemetry's semantic
 * conventions; cut to STACKS_TYPE_MAX. Ids and removal as for executables. */
int stacks_named(struct stacks *stacks, struct bytes type, const struct frame_name *names, size_t n,
                 int64_t *id);

/* Interns a stack. *names_wanted: the caller should check whether all names of the frames are
 * known; true if the stack is new, or on its first use in this generation or since opening or
 * reloading. -ESTALE: the row of an executable or a name was removed; intern it again. -EINVAL: n >
 * STACKS_FRAMES_MAX. */
int stacks_intern(struct stacks *stacks, const struct frame *frames, size_t n, int64_t *id,
                  bool *names_wanted);
/* The stack that stack `id` turned out to equal; id itself for most stacks. -ENOENT. */
int stacks_canonical(struct stacks *stacks, int64_t id, int64_t *canonical);

/* Frames of a stack, leaf first; borrowed until the next call that takes or returns a stack.
 * -ENOENT. */
int stacks_frames(struct stacks *stacks, int64_t id, const struct frame **frames, size_t *n);
int stacks_public_id(struct stacks *stacks, int64_t id, uint8_t out[16]);
/* *ready: the public id is fixed, or everything it is computed from is known. A caller that can
 * wait asks again later. False while the stack's frames are open. */
int stacks_public_id_ready(struct stacks *stacks, int64_t id, bool *ready);

/* Stores names. The names of one address are adjacent: inlined functions innermost first, then the
 * compiled function. Their names are no longer open. */
int stacks_set_names(struct stacks *stacks, int64_t executable, const struct frame_name *names,
                     size_t n);
/* 0 and the name of the compiled function; -ENOENT while unknown. Borrowed until the next call. */
int stacks_name(struct stacks *stacks, const struct frame *frame, struct frame_name *name);
/* The functions inlined at the address, innermost first; borrowed as long as `name`. Returns their
 * number. */
size_t stacks_inlined(const struct frame_name *name, struct frame_name inlined[STACKS_INLINED_MAX]);

/* True when the generation is over and its sweep has finished: call stacks_collect_begin(). */
bool stacks_collect_due(const struct stacks *stacks, uint64_t now_unix_ns);
/* Begins a new generation and a sweep. referred: sealed; ownership passes to stacks. */
int stacks_collect_begin(struct stacks *stacks, uint64_t now_unix_ns, struct id_set *referred);
/* Removes stacks, names and executables that nothing refers to; each call is a bounded step. */
int stacks_collect(struct stacks *stacks);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a runtime's room does for the symbolizer: one row each in runtime_readers[]. All that is
 * read is a stranger's: each call ends, whatever the file or the memory holds, within its limits.
 * Thread: the symbolizer's loop.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/record_frame.h"
#include "agent-bpf/runtimes/runtime_cache.h"
#include "agent-bpf/runtimes/runtime_memory.h"
#include "agent-bpf/runtimes/runtime_process.h"
#include "base/arena.h"
#include "context/runtime_frames.h"

enum runtime_outcome {
    RUNTIME_FRAME_NAMED,
    RUNTIME_FRAME_STALE,      /* another object is in its place now */
    RUNTIME_FRAME_UNREADABLE, /* memory that cannot be read, or is no such object */
    RUNTIME_FRAME_UNKNOWN,    /* not looked at: a limit */
    RUNTIME_FRAME_OUTCOMES
};

#define RUNTIME_LINES_MAX 32
#define RUNTIME_NAME_MAX  512 /* bytes of a text */

struct runtime_line { /* texts: valid UTF-8 without control characters; empty: not known */
    struct bytes function;
    struct bytes system_name;
    struct bytes file;
    uint32_t line; /* 0: not known; the same below */
    uint32_t column;
    uint32_t start_line;
};

struct runtime_name {
    enum runtime_outcome outcome;
    uint32_t n_lines; /* at most RUNTIME_LINES_MAX, innermost first; 0 unless named */
    struct runtime_line *lines;
};

struct runtime_names {
    struct arena *arena;        /* the caller's: texts and lines */
    struct runtime_name *names; /* of each frame; the caller's */
};

struct runtime_constants; /* of a file; each runtime has its own */

struct runtime_reader {
    enum runtime runtime;
    enum runtime_section section;
    uint32_t kinds; /* bits of enum record_frame_kind: its frames. 0: a part of the runtime, which
                       has a file of its own and no frames */
    /* Constants of a file, found in its ELF image and kept with it. 0 and *constants; -ENOENT: it
     * is not this runtime; -ENOTSUP and *why; -ENOMEM. */
    int (*open)(const struct elf *elf, struct runtime_constants **constants,
                enum runtime_refusal *why);
    void (*close)(struct runtime_constants *constants);
    /* Fills its section of the process's entry; may learn constants from the first process of the
     * file. load_bias of the file. 0; -EAGAIN: not ready (yet); -ENOTSUP and *why; another negative
     * errno. */
    int (*attach)(struct runtime_constants *constants, uint64_t load_bias,
                  struct runtime_memory *memory, struct runtime_process *entry,
                  enum runtime_refusal *why);
    /* Names of n frames into out->names. 0; -EAGAIN, -ENOMEM, another negative errno. */
    int (*names)(struct runtime_constants *constants, const struct runtime_process *entry,
                 struct runtime_cache *cache, struct runtime_memory *memory,
                 const struct record_frame *frames, size_t n, struct runtime_names *out);
    /* Of a file that was attached in a process with this entry. */
    struct runtime_version (*version)(const struct runtime_constants *constants,
                                      const struct runtime_process *entry);
};

/* All of them, until a row without functions. */
extern const struct runtime_reader runtime_readers[];

/* A file that is a runtime, shared by the binary and the processes that map it. */
struct runtime_file {
    size_t refs;
    const struct runtime_reader *reader;
    struct runtime_constants *constants; /* NULL: refused */
    enum runtime_refusal why;
};

/* NULL: the file is none, or no memory. One reference is the caller's. */
struct runtime_file *runtime_file_open(const struct elf *elf);
struct runtime_file *runtime_file_use(struct runtime_file *file); /* NULL is fine */
void runtime_file_release(struct runtime_file *file);             /* NULL is fine */

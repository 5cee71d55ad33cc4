/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runtimes of a tracked process whose frames are read: its entry in the sampler's map
 * `runtimes`, and the names of its frames. Private to this folder. Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer/symbolizer_state.h"
#include "agent-bpf/runtimes/runtime_reader.h"

#define PROCESS_RUNTIMES_MAX 4 /* files of a process that are a runtime; more do not count */
/* What is read of a process by one look, and to name the frames of one request; and how long that
 * may take, whatever the process makes of it. */
#define RUNTIME_ATTACH_BYTES  (2u << 20)
#define RUNTIME_ATTACH_NS     (200 * NS_PER_MS)
#define RUNTIME_REQUEST_BYTES (1u << 20)
#define RUNTIME_REQUEST_NS    (50 * NS_PER_MS)

struct process_runtime {
    struct runtime_file *file;
    uint64_t start, inode; /* of the mapping of code that it was found by */
    uint64_t bias;         /* address less ELF address */
    uint32_t n_mappings;   /* of its code, at the look; V8 makes a second one when it starts */
    enum runtime_frames_state state;
    enum runtime_refusal why; /* if they are refused */
};

struct process_runtimes {
    struct runtime_process entry;
    uint64_t program; /* as in runtime_memory */
    uint64_t tenant;  /* runtime_shares.h */
    bool is_entered;  /* in the map */
    bool waits;       /* one of them is not ready yet, or could not be read in time */
    size_t n;
    struct process_runtime of[PROCESS_RUNTIMES_MAX];
};

/* A file of the process that is a runtime, found by this mapping; used until it is released. */
void process_runtimes_add(struct process_runtimes *found, struct runtime_file *file,
                          const struct proc_map *map, uint64_t bias);
void process_runtimes_release(struct process_runtimes *found);
/* Looks at what was found, and enters in the map what can be read. *kept: of the process, NULL at
 * first; replaced. The caller has read symbolizer->maps. */
void process_runtimes_attach(struct symbolizer *symbolizer, uint32_t pid, uint64_t start_ns,
                             const struct process_runtimes *found, struct process_runtimes **kept);
/* False: the process is to be looked at again, as one of its runtimes was not ready. */
bool process_runtimes_hold(const struct process_runtimes *runtimes);
/* What became of its frames; runtime: the process's. runtimes: NULL if none of its files is read.
 */
struct runtime_frames process_runtimes_frames(const struct process_runtimes *runtimes,
                                              enum runtime runtime);
/* The process is another program now, or gone. */
void process_runtimes_forget(struct symbolizer *symbolizer, uint32_t pid,
                             struct process_runtimes **kept);
/* Names of frames of runtimes: names[i] of frames[i]; texts and lines lie in the arena. runtimes:
 * NULL if nothing is known of the process. True: the time or the bytes of a request were not
 * enough, so frames without a name may have one. */
bool process_runtimes_name(struct symbolizer *symbolizer, uint32_t pid,
                           const struct process_runtimes *runtimes,
                           const struct record_frame *frames, size_t n, struct arena *arena,
                           struct runtime_name *names);

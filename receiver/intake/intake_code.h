/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Caches names of code outside files (JIT code), as its process publishes them and the symbolizer
 * answers. Such code moves: a name is valid only for samples taken within CODE_KEEP_NS of the
 * sample that asked for it. WRITER thread only.
 *
 * Names of runtime frames are cached by the frame's words. If the words are unique
 * (record_frame_is_unique()), the entry does not expire. Otherwise another object may get the same
 * words: the entry expires after CODE_KEEP_NS at first, and the longer its name has stayed the
 * same, the later, up to CODE_KEEP_NS << CODE_KEPT_DOUBLED. Each request for a process also asks
 * for names past half of their lifetime, so that they do not expire one by one.
 *
 * Limits: CODE_PROCESSES_MAX processes, CODE_ALL_RANGES_MAX ranges, CODE_ALL_FRAMES_MAX frames (of
 * the cgroup that has most, the least recently used process is dropped); CODE_RANGES_MAX ranges and
 * CODE_FRAMES_MAX frames per process (all are dropped, and asked for again). Drops are counted.
 */
#include "agent-bpf/symbolizer_messages.h"

#define CODE_KEEP_NS      (UINT64_C(1000000000))
#define CODE_KEPT_DOUBLED 5 /* at most, so often */
/* How long a process that names nothing is not asked again; doubles each time. */
#define CODE_NONE_NS        (2 * UINT64_C(1000000000))
#define CODE_NONE_DOUBLED   3
#define CODE_PROCESSES_MAX  512
#define CODE_RANGES_MAX     1024
#define CODE_FRAMES_MAX     4096
#define CODE_ALL_FRAMES_MAX 16384
#define CODE_ALL_RANGES_MAX 32768

struct stacks;
struct code;

enum code_state {
    CODE_NAMED,
    CODE_NAMELESS, /* the last answer had no name */
    CODE_UNKNOWN,  /* ask for it */
};

/* A program that a process runs, or ran. */
struct code_program {
    uint32_t pid;
    uint64_t since_ns; /* CLOCK_MONOTONIC: distinguishes the programs of a pid */
    uint64_t cgroup_id;
};

int intake_code_open(struct code **code);
void intake_code_close(struct code *code); /* NULL is fine */
/* Rowids are void: drops all names. */
void intake_code_forget(struct code *code);

/* *name: of stacks_named(). */
enum code_state intake_code_find(struct code *code, const struct code_program *program,
                                 uint64_t time_ns, uint64_t address, int64_t *name);
/* Of a frame of a runtime: CODE_NAMED or CODE_UNKNOWN. */
enum code_state intake_code_find_frame(struct code *code, const struct code_program *program,
                                       uint64_t time_ns, const struct record_frame *frame,
                                       int64_t *name);
/* Frames to renew with the next request: their names are still valid, are past half of their
 * lifetime, and were used since the last answer. Writes at most max to due and returns how many. A
 * frame is not returned again before its name is used again. */
uint32_t intake_code_due(struct code *code, const struct code_program *program, uint64_t time_ns,
                         struct record_frame *due, uint32_t max);
/* time_ns: of the sample that asked. Errors of the store; -ENOMEM. */
int intake_code_answer(struct code *code, const struct code_program *program, uint64_t time_ns,
                       const struct symbolizer_code *told, struct stacks *stacks);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names of code that lies in no file, as its process gave them and the symbolizer told lately. Such
 * code moves: what was told counts for samples taken within CODE_KEEP_NS of the one that it was
 * asked for. WRITER thread only.
 *
 * Limits: CODE_PROCESSES_MAX processes, of which the longest unused goes, and CODE_RANGES_MAX
 * ranges of each, which all go and are asked for again; counted.
 */
#include "agent-bpf/symbolizer_messages.h"

#define CODE_KEEP_NS (UINT64_C(1000000000))
/* After a process was found to name nothing it is not asked for so long, doubled each time. */
#define CODE_NONE_NS       (2 * UINT64_C(1000000000))
#define CODE_NONE_DOUBLED  3
#define CODE_PROCESSES_MAX 512
#define CODE_RANGES_MAX    1024

struct stacks;
struct code;

enum code_state {
    CODE_NAMED,
    CODE_NAMELESS, /* as far as is known it has no name */
    CODE_UNKNOWN,  /* to be asked for */
};

/* A program that a process runs, or ran. */
struct code_program {
    uint32_t pid;
    uint64_t since_ns; /* CLOCK_MONOTONIC: tells a pid's programs apart */
};

int intake_code_open(struct code **code);
void intake_code_close(struct code *code); /* NULL is fine */
/* Rowids are void. */
void intake_code_forget(struct code *code);

/* *name: of stacks_named(). */
enum code_state intake_code_find(struct code *code, const struct code_program *program,
                                 uint64_t time_ns, uint64_t address, int64_t *name);
/* time_ns: of the sample that was asked for. Errors of the store; -ENOMEM. */
int intake_code_answer(struct code *code, const struct code_program *program, uint64_t time_ns,
                       const struct symbolizer_code *told, struct stacks *stacks);

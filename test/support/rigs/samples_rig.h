/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The writer's half of the intake without its threads: a store, a process table, samples; and what
 * became of records, as it leaves the join. Process 100 runs /usr/bin/app at APP, with a library at
 * LIB. For cmocka: samples_rig_setup() and samples_rig_teardown(). Thread: one.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "receiver/intake/intake_samples.h"
#include "test/support/fixtures/record_fixture.h"
#include "test/support/fixtures/store_fixture.h"

#define APP            UINT64_C(0x400000)
#define APP_OFFSET     UINT64_C(0x1000)
#define LIB            UINT64_C(0x7f0000000000)
#define APP_PATH       "/usr/bin/app"
#define LIB_PATH       "/usr/lib/lib.so"
#define RIG_PID        100
#define RIG_SPAN_LABEL "my span" /* a configured name of span ids */

struct samples_rig {
    struct fixture fixture;
    struct symbolizer_queue requests;
    struct process_table *table;
    struct samples *samples;
    size_t datagram_size; /* of the request that was looked at last */
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    struct arena arena;
};

int samples_rig_setup(void **state);
int samples_rig_teardown(void **state);

struct process_event samples_rig_mapping(uint32_t pid, uint64_t start, uint64_t offset,
                                         const char *path);
void samples_rig_map(struct samples_rig *rig, uint32_t pid, uint64_t start, uint64_t offset,
                     const char *path);
/* A drain of these records, committed. */
void samples_rig_add(struct samples_rig *rig, const struct record_parts *parts, size_t n);
void samples_rig_answer(struct samples_rig *rig, const struct symbolizer_message *message);
/* How many requests of this kind the symbolizer would have got since the last call; the last of
 * them in *last (may be NULL), valid until the next call. All others are thrown away. */
size_t samples_rig_requests(struct samples_rig *rig, enum symbolizer_kind kind,
                            struct symbolizer_message *last);

/* A record of this process without frames and context. */
struct record_parts samples_rig_record(uint32_t pid);
/* Of RIG_PID, with these frames. */
struct record_parts samples_rig_user(size_t n, const uint64_t *user);
/* The symbolizer's word on process RIG_PID. */
void samples_rig_details(struct samples_rig *rig, const char *exe);

/* What one sample is in the store, with copies of what it refers to. */
struct samples_rig_left {
    struct sample sample;
    uint8_t attributes[SAMPLE_ATTRIBUTES_MAX];
    size_t n_frames;
    struct frame frames[STACKS_FRAMES_MAX];
    struct process_facts facts; /* texts: below */
    char executable_name[64], executable_path[256];
    uint8_t resource[256];
    bool matched;
    uint8_t joined_span[8];
};
/* Executables that nothing refers to are forgotten. */
void samples_rig_forget_executables(struct samples_rig *rig);
/* A batch that failed. */
void samples_rig_roll_back(struct samples_rig *rig);
/* All samples leave; returns how many, the last in *last. */
size_t samples_rig_leave(struct samples_rig *rig, struct samples_rig_left *last);
/* Those that a profile window takes at that time, whether their names have come or not; last may be
 * NULL. */
size_t samples_rig_leave_settled(struct samples_rig *rig, struct samples_rig_left *last);
/* Those that have their names, or had waited long enough for them at now_ns. */
size_t samples_rig_leave_named(struct samples_rig *rig, uint64_t now_ns);
/* The facts of an executable; its path must be this one. */
const struct executable_facts *samples_rig_executable(struct samples_rig *rig, int64_t id,
                                                      const char *path);

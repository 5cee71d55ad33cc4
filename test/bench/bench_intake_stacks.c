/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample on the writer, from its record to the committed batch: of a known stack, and of one that
 * is unfinished, with the request to the symbolizer, and with its answer. 30 frames; of
 * unfinished ones 10 come with the record. Prints `name value unit`.
 */
#include "base/clock.h"
#include "base/stats.h"
#include "test/support/rigs/samples_rig.h"
#include <stdio.h>
#include <stdlib.h>

#define FRAMES  30
#define TICKED  10 /* frames that the tick found of a promised stack */
#define DRAINS  100
#define SAMPLES 20 /* a drain */

struct copied {
    struct record_stack stack;
    uint64_t words[RECORD_STACK_MAX / 8];
};

/* As on a stack: here and there a return address, else small numbers and addresses of data. */
static void fill(struct copied *copied, uint32_t size)
{
    *copied = (struct copied){.stack = {.pc = APP + 0x301, .size = size, .is_return = 1}};
    for (uint32_t i = 0; i < size / 8; i++)
        copied->words[i] = i % 16 == 0  ? APP + 0x100 + i
                           : i % 4 == 0 ? UINT64_C(0x7ffd00000000) + i
                           : i % 4 == 1 ? UINT64_C(0x560000000000) + i
                                        : i;
}

static struct record_parts *parts_of(size_t n_user, const struct copied *copied)
{
    struct record_parts *parts = malloc(sizeof(*parts));
    if (!parts)
        exit(1);
    *parts = samples_rig_record(RIG_PID);
    parts->n_user = n_user;
    for (size_t i = 0; i < n_user; i++)
        parts->user[i] = APP + 16 * i + 1;
    if (copied) {
        parts->head.end = UNWIND_END_WANTED;
        parts->stack = BYTES((const void *)copied, sizeof(copied->stack) + copied->stack.size);
    }
    return parts;
}

static void drain(struct samples_rig *rig, const struct record_header *record)
{
    struct join *join = store_join(rig->fixture.store);
    fixture_begin(&rig->fixture);
    int error = join_batch_begin(join);
    for (int i = 0; i < SAMPLES && !error; i++)
        error = intake_samples_add(rig->samples, record, (int64_t)(FIXTURE_T0 - RECORD_T0));
    error = error ? error : join_batch_commit(join);
    if (error)
        exit(1);
    intake_samples_want_names(rig->samples);
    fixture_commit(&rig->fixture);
}

static void answer(struct samples_rig *rig, uint64_t ticket)
{
    struct record_frame frames[FRAMES - TICKED];
    for (size_t i = 0; i < FRAMES - TICKED; i++)
        frames[i] = record_frame_native(APP + 0x301 + 16 * i, 1);
    intake_samples_answer(
        rig->samples, &(struct symbolizer_message){
                          .kind = SYMBOLIZER_UNWOUND,
                          .unwound = {.ticket = ticket, .n = FRAMES - TICKED, .frames = frames}});
}

/* copy_bytes 0: the stack is known. */
static void measure(const char *name, uint32_t copy_bytes)
{
    static struct copied copied;
    static struct record_made made;
    struct samples_rig *rig;
    uint64_t asking_ns = 0, answering_ns = 0, ticket = 0;
    fill(&copied, copy_bytes);
    struct record_parts *parts =
        parts_of(copy_bytes ? TICKED : FRAMES, copy_bytes ? &copied : NULL);
    const struct record_header *record = record_make(&made, parts);
    samples_rig_setup((void **)&rig);
    for (int i = 0; i < DRAINS; i++) {
        uint64_t began_ns = clock_monotonic_ns();
        drain(rig, record);
        asking_ns += clock_monotonic_ns() - began_ns;
        samples_rig_requests(rig, SYMBOLIZER_SCAN_WANTED, NULL);
        began_ns = clock_monotonic_ns();
        fixture_begin(&rig->fixture);
        for (int j = 0; j < SAMPLES && copy_bytes; j++)
            answer(rig, ++ticket);
        fixture_commit(&rig->fixture);
        answering_ns += clock_monotonic_ns() - began_ns;
    }
    printf("intake_sample_%s_ns %.0f ns/sample\n", name, (double)asking_ns / (DRAINS * SAMPLES));
    if (copy_bytes)
        printf("intake_sample_%s_answered_ns %.0f ns/sample\n", name,
               (double)answering_ns / (DRAINS * SAMPLES));
    if (copy_bytes && stats_find("spanprof_stacks_unfinished", "what=\"frames\""))
        exit(1); /* what was answered was not what was asked */
    free(parts);
    samples_rig_teardown((void **)&rig);
}

int main(void)
{
    measure("known", 0);
    measure("promised_4k", 4096);
    measure("promised_32k", RECORD_STACK_MAX);
    return 0;
}

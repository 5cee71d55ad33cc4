/* SPDX-License-Identifier: Apache-2.0 */
#include "store/query/history_reader_state.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>

#define STACKS_APART_MAX ((size_t)1 << 20) /* stacks while summing up */

struct profiling {
    struct reader_sums stacks;
    struct reader_periods periods;
    struct history_profile *profile;
};

static int profile_add(void *context, const struct reader_weight *weight)
{
    struct profiling *profiling = context;
    const struct reader_sum sum = {
        .id = weight->stack, .samples = weight->samples, .value_ns = weight->value_ns};
    profiling->profile->samples += weight->samples;
    profiling->profile->cpu_ns += weight->value_ns;
    reader_periods_add(&profiling->periods, weight->period_ns, weight->samples);
    return reader_sums_add(&profiling->stacks, &sum);
}

static struct history_stack stack_of(const struct reader_sum *sum)
{
    return (struct history_stack){sum->id, sum->samples, sum->value_ns};
}

static int profiling_finish(struct profiling *profiling, struct arena *arena)
{
    struct history_profile *profile = profiling->profile;
    struct reader_sums *stacks = &profiling->stacks;
    reader_sums_sort(stacks, HISTORY_STACKS_MAX);
    profile->period_ns = reader_periods_most(&profiling->periods);
    profile->stacks = arena_alloc(arena, stacks->n * sizeof(*profile->stacks));
    if (!profile->stacks)
        return -ENOMEM;
    for (profile->n = 0; profile->n < stacks->n; profile->n++)
        profile->stacks[profile->n] = stack_of(&stacks->sums[profile->n]);
    profile->others = stack_of(&stacks->others);
    return 0;
}

static int compare_ids(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* A query for stacks is followed by queries for their frames: looks up all of them in one read, in
 * row order. */
static int look_up_frames(struct reader_scan *scan, const struct history_profile *profile)
{
    struct history_reader *reader = scan->reader;
    int64_t *ids = arena_alloc(&reader->scratch, profile->n * sizeof(*ids));
    const struct history_frame *const *frames;
    int error = ids ? 0 : -ENOMEM;
    size_t n;
    for (size_t i = 0; i < profile->n && !error; i++)
        ids[i] = profile->stacks[i].id;
    if (profile->n && !error)
        qsort(ids, profile->n, sizeof(*ids), compare_ids);
    for (size_t i = 0; i < profile->n && !error; i++) {
        if (i % 256 == 0 && clock_monotonic_ns() > scan->deadline_ns)
            return 0; /* each is looked up on request instead */
        error = history_frames_get(&reader->frames, ids[i], &frames, &n);
    }
    return error;
}

static int reader_scan_answer(struct reader_scan *scan, struct arena *arena,
                              struct history_profile *profile)
{
    struct profiling profiling = {.profile = profile, .stacks.max_count = STACKS_APART_MAX};
    int error = reader_scan_samples(scan, false, profile_add, &profiling);
    error = error ? error : profiling_finish(&profiling, arena);
    error = error ? error : look_up_frames(scan, profile);
    reader_sums_close(&profiling.stacks);
    profile->from_unix_ns = scan->answer.from;
    profile->to_unix_ns = scan->answer.to;
    profile->complete = scan->complete;
    return error;
}

int history_profile(struct history_reader *reader, const struct history_filter *filter,
                    struct arena *arena, struct history_profile *profile)
{
    DB_THREAD(reader->db);
    struct reader_scan scan;
    *profile = (struct history_profile){0};
    int error = reader_begin(reader);
    if (!error) {
        error = reader_scan_open(&scan, reader, filter);
        error = error ? error : reader_scan_answer(&scan, arena, profile);
        reader_scan_close(&scan);
    }
    reader_end(reader);
    return error;
}

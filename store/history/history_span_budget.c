/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hundreds of thousands of spans may arrive per second, and nearly all are dropped here. So a span
 * costs one multiplication, one lookup in a table that fits the CPU cache, and one increment.
 *
 * A trace is chosen if a keyed hash of its id is not above a threshold. The threshold follows the
 * rate of spans: it rises slowly and falls at once. The duration from which a span counts as slow
 * comes from a histogram of durations over about the last two seconds, with four classes per
 * octave.
 */
#include "store/history/history_span_budget.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define TRACES     16384 /* places; a power of two */
#define DURATIONS  256   /* classes: 4 for each bit of a duration */
#define PART_SLOW  4     /* slow spans get 1 / PART_SLOW of the budget */
#define PART_TRACE 4

struct history_span_budget {
    uint64_t key[2];
    uint64_t threshold; /* a trace is chosen iff hash <= threshold */
    uint64_t slow_ns;
    uint32_t max_chosen, max_slow, max_trace;
    uint32_t seen, chosen, slow, of_traces; /* since the last tick */
    uint32_t usually_seen;
    uint32_t durations[DURATIONS];
    uint16_t traces[TRACES]; /* bits of the hash that are not in the index; 0 = none */
};

int history_span_budget_open(uint32_t max_spans_per_second, struct history_span_budget **result)
{
    struct history_span_budget *keep = calloc(1, sizeof(*keep));
    if (!keep)
        return -ENOMEM;
    if (getrandom(keep->key, sizeof(keep->key), 0) != sizeof(keep->key)) {
        free(keep);
        return -errno;
    }
    keep->key[0] |= 1;
    keep->key[1] |= 1;
    keep->threshold = UINT64_MAX;
    keep->slow_ns = UINT64_MAX;
    keep->max_slow = max_spans_per_second / PART_SLOW;
    keep->max_trace = max_spans_per_second / PART_TRACE;
    keep->max_chosen = max_spans_per_second - keep->max_slow - keep->max_trace;
    *result = keep;
    return 0;
}

void history_span_budget_close(struct history_span_budget *keep)
{
    free(keep);
}

/* Keyed, so that a sender cannot make trace ids that are always chosen. No other property is
 * needed. */
static uint64_t hash_of(const struct history_span_budget *keep, const uint8_t trace_id[16])
{
    uint64_t halves[2];
    memcpy(halves, trace_id, sizeof(halves));
    unsigned __int128 product = (unsigned __int128)(halves[0] ^ keep->key[0]) *
                                (halves[1] ^ keep->key[1] ^ (halves[0] << 32 | halves[0] >> 32));
    uint64_t hash = (uint64_t)product ^ (uint64_t)(product >> 64);
    return (hash ^ hash >> 29) * keep->key[0];
}

static uint16_t *place_of(struct history_span_budget *keep, uint64_t hash, uint16_t *mark)
{
    *mark = (uint16_t)hash | 1;
    return &keep->traces[(hash >> 32) % TRACES];
}

static unsigned duration_class(uint64_t duration_ns)
{
    unsigned bit = 63 - (unsigned)__builtin_clzll(duration_ns | 4);
    return bit * 4 + (unsigned)(duration_ns >> (bit - 2) & 3);
}

static uint64_t class_begin(unsigned class)
{
    return (uint64_t)(4 + class % 4) << (class / 4 - 2);
}

static enum history_span_budget_why keep_within(uint32_t *count, uint32_t max,
                                                enum history_span_budget_why why)
{
    if (*count >= max)
        return HISTORY_KEEP_NOT;
    ++*count;
    return why;
}

enum history_span_budget_why history_span_budget_span(struct history_span_budget *keep,
                                                      const uint8_t trace_id[16],
                                                      uint64_t duration_ns)
{
    uint64_t hash = hash_of(keep, trace_id);
    uint16_t mark;
    const uint16_t *place = place_of(keep, hash, &mark);
    enum history_span_budget_why why = HISTORY_KEEP_NOT;
    keep->seen++;
    keep->durations[duration_class(duration_ns)]++;
    if (*place == mark)
        why = keep_within(&keep->of_traces, keep->max_trace, HISTORY_KEEP_TRACE);
    if (!why && duration_ns >= keep->slow_ns)
        why = keep_within(&keep->slow, keep->max_slow, HISTORY_KEEP_SLOW);
    if (!why && hash <= keep->threshold)
        why = keep_within(&keep->chosen, keep->max_chosen, HISTORY_KEEP_CHOSEN);
    return why;
}

void history_span_budget_trace(struct history_span_budget *keep, const uint8_t trace_id[16])
{
    uint16_t mark, *place = place_of(keep, hash_of(keep, trace_id), &mark);
    *place = mark;
}

/* The histogram holds about two seconds of spans: the last second's, and half of its earlier
 * contents. */
static uint64_t slow_from(const struct history_span_budget *keep)
{
    uint64_t n = 0;
    unsigned class = DURATIONS;
    while (class > 8 && n + keep->durations[class - 1] <= (uint64_t)keep->max_slow * 2)
        n += keep->durations[--class];
    return class == DURATIONS ? UINT64_MAX : class_begin(class);
}

void history_span_budget_tick(struct history_span_budget *keep)
{
    uint32_t usual = keep->usually_seen - keep->usually_seen / 4 + keep->seen / 4;
    keep->usually_seen = keep->seen > usual ? keep->seen : usual;
    keep->threshold = keep->usually_seen > keep->max_chosen
                          ? UINT64_MAX / keep->usually_seen * keep->max_chosen
                          : UINT64_MAX;
    keep->slow_ns = slow_from(keep);
    for (size_t i = 0; i < DURATIONS; i++)
        keep->durations[i] /= 2;
    keep->seen = keep->chosen = keep->slow = keep->of_traces = 0;
}

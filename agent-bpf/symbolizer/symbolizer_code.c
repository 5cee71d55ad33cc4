/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that is in no file (JIT), from the perf map of its process. Each request gets one
 * answer. It gives the address range of each function, so the service need not ask for other
 * addresses in it.
 */
#include "agent-bpf/symbolizer/symbolizer_state.h"
#include <assert.h>

#define ANSWER_BYTES 32 /* upper bound of an answer without ranges */
#define RANGE_BYTES  20 /* of a range in the message, without its name */

struct code_answer {
    struct symbolizer_code code;
    struct symbolizer_code_range ranges[RECORD_MAX_USER_FRAMES];
    size_t bytes;
};

static bool code_answer_has(const struct code_answer *answer, uint64_t address)
{
    for (uint32_t i = answer->code.n; i > 0; i--)
        if (address >= answer->ranges[i - 1].start && address <= answer->ranges[i - 1].last)
            return true;
    return false;
}

static void code_answer_add(struct code_answer *answer, const struct perf_map_range *range)
{
    struct bytes name = range->name ? BYTES_STR(range->name) : BYTES(NULL, 0);
    size_t bytes = RANGE_BYTES + name.len;
    if (answer->code.n == RECORD_MAX_USER_FRAMES || bytes > SYMBOLIZER_MESSAGE_MAX - answer->bytes)
        return;
    answer->bytes += bytes;
    assert(answer->bytes <= SYMBOLIZER_MESSAGE_MAX);
    answer->ranges[answer->code.n++] =
        (struct symbolizer_code_range){range->start, range->last, name};
}

/* A search may read more of the map and so move its ranges. The first loop searches all addresses;
 * after it the ranges stay in place while the answer borrows their names. */
static void code_answer_find_ranges(struct symbolizer *symbolizer,
                                    const struct symbolizer_code_wanted *wanted,
                                    struct code_answer *answer)
{
    uint64_t now_ns = clock_monotonic_ns();
    struct perf_map_range range;
    for (uint32_t i = 0; i < wanted->n; i++)
        perf_maps_find(&symbolizer->perf_maps, wanted->pid, now_ns, wanted->addresses[i], &range);
    const struct perf_map *map = perf_maps_get(&symbolizer->perf_maps, wanted->pid, now_ns);
    answer->code.named = map != NULL;
    for (uint32_t i = 0; map && i < wanted->n; i++) {
        if (code_answer_has(answer, wanted->addresses[i]))
            continue;
        range = perf_map_find(map, wanted->addresses[i]);
        code_answer_add(answer, &range);
    }
}

void symbolizer_answer_code(struct symbolizer *symbolizer,
                            const struct symbolizer_code_wanted *wanted)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct code_answer answer = {.code = {.ticket = wanted->ticket, .pid = wanted->pid},
                                 .bytes = ANSWER_BYTES};
    answer.code.ranges = answer.ranges;
    if (!symbolizer_skips(symbolizer, wanted->pid)) {
        symbolizer_enter(symbolizer, wanted->pid);
        code_answer_find_ranges(symbolizer, wanted, &answer);
        symbolizer_leave(symbolizer);
    }
    if (!symbolizer_repeats(symbolizer))
        symbolizer_send(&symbolizer->out,
                        &(struct symbolizer_message){.kind = SYMBOLIZER_CODE, .code = answer.code});
}

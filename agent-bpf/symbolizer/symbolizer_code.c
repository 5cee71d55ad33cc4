/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that lies in no file, as far as its process tells of it. Each request gets one
 * answer. Told is the extent of what was found, so that the next address in it need not be asked
 * for.
 */
#include "agent-bpf/symbolizer/symbolizer_parts.h"

#define ANSWER_BYTES 32 /* of one without ranges, and more */
#define RANGE_BYTES  20 /* of one in the message, without its name */

struct answer {
    struct symbolizer_code code;
    struct symbolizer_code_range ranges[RECORD_MAX_USER_FRAMES];
    size_t bytes;
};

static bool is_told(const struct answer *answer, uint64_t address)
{
    for (uint32_t i = answer->code.n; i > 0; i--)
        if (address >= answer->ranges[i - 1].start && address <= answer->ranges[i - 1].last)
            return true;
    return false;
}

static void tell(struct answer *answer, const struct perf_map_range *range)
{
    struct bytes name = range->name ? BYTES_STR(range->name) : BYTES(NULL, 0);
    size_t bytes = RANGE_BYTES + name.len;
    if (answer->code.n == RECORD_MAX_USER_FRAMES || bytes > SYMBOLIZER_MESSAGE_MAX - answer->bytes)
        return;
    answer->bytes += bytes;
    answer->ranges[answer->code.n++] =
        (struct symbolizer_code_range){range->start, range->last, name};
}

/* All are looked for first, which may read on; then what was read stays as it is. */
static void find_ranges(struct symbolizer *symbolizer, const struct symbolizer_code_wanted *wanted,
                        struct answer *answer)
{
    uint64_t now_ns = clock_monotonic_ns();
    struct perf_map_range range;
    for (uint32_t i = 0; i < wanted->n; i++)
        perf_maps_find(&symbolizer->perf_maps, wanted->pid, now_ns, wanted->addresses[i], &range);
    const struct perf_map *map = perf_maps_get(&symbolizer->perf_maps, wanted->pid, now_ns);
    answer->code.named = map != NULL;
    for (uint32_t i = 0; map && i < wanted->n; i++) {
        if (is_told(answer, wanted->addresses[i]))
            continue;
        range = perf_map_find(map, wanted->addresses[i]);
        tell(answer, &range);
    }
}

void symbolizer_answer_code(struct symbolizer *symbolizer,
                            const struct symbolizer_code_wanted *wanted)
{
    struct answer answer = {.code = {.ticket = wanted->ticket, .pid = wanted->pid},
                            .bytes = ANSWER_BYTES};
    answer.code.ranges = answer.ranges;
    if (!symbolizer_skips(symbolizer, wanted->pid)) {
        symbolizer_ledger_enter(symbolizer->settings.ledger, wanted->pid);
        find_ranges(symbolizer, wanted, &answer);
        symbolizer_ledger_leave(symbolizer->settings.ledger);
    }
    symbolizer_say(symbolizer,
                   &(struct symbolizer_message){.kind = SYMBOLIZER_CODE, .code = answer.code});
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that is in no file: of addresses, from the perf map of its process; of frames of
 * runtimes, from its memory. Each request gets one answer. For an address it gives the range of the
 * function, so the service need not ask for other addresses in it.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/symbolizer/tracked_process.h"
#include <assert.h>

#define ANSWER_BYTES 32 /* upper bound of an answer without ranges */
#define RANGE_BYTES  20 /* of a range in the message, without its name */
#define LINE_BYTES   24 /* of a line in the message, without its texts */
#define ARENA_BYTES  (2u << 20)

struct code_answer {
    struct symbolizer_code code;
    struct symbolizer_code_range ranges[RECORD_MAX_USER_FRAMES];
    struct symbolizer_code_frame frames[RECORD_MAX_USER_FRAMES];
    struct arena *arena; /* lines of frames */
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
    const struct perf_user user = {wanted->pid, symbolizer_tenant(symbolizer, wanted->pid)};
    uint64_t now_ns = clock_monotonic_ns();
    struct perf_map_range range;
    bool any = false;
    for (uint32_t i = 0; i < wanted->n; i++) {
        if (!record_frame_is_native(wanted->frames[i].words[0]))
            continue;
        any = true;
        perf_maps_find(&symbolizer->perf_maps, user, now_ns,
                       record_frame_address(wanted->frames[i].words[0]), &range);
    }
    answer->code.map = CODE_MAP_NOT_ASKED;
    if (!any)
        return;
    const struct perf_map *map = perf_maps_get(&symbolizer->perf_maps, user, now_ns);
    answer->code.map = map ? CODE_MAP_READ : CODE_MAP_NONE;
    const struct tracked_process *process = map_get(&symbolizer->processes, &wanted->pid);
    answer->code.runtime = process ? process->map_runtime : RUNTIME_UNKNOWN;
    for (uint32_t i = 0; map && i < wanted->n; i++) {
        uint64_t address = record_frame_address(wanted->frames[i].words[0]);
        if (!record_frame_is_native(wanted->frames[i].words[0]) || code_answer_has(answer, address))
            continue;
        range = perf_map_find(map, address);
        code_answer_add(answer, &range);
    }
}

/* ---- frames of runtimes ---- */

static struct symbolizer_line line_of(const struct runtime_line *line)
{
    return (struct symbolizer_line){.function = line->function,
                                    .system_name = line->system_name,
                                    .file = line->file,
                                    .line = line->line,
                                    .column = line->column,
                                    .start_line = line->start_line};
}

/* The frame with its lines; one that could not be named says so. NULL: no memory. */
static struct symbolizer_line *lines_of(struct arena *arena, const struct runtime_name *name,
                                        uint32_t *n)
{
    static const struct runtime_line unreadable = {.function = BYTES_LIT(RECORD_FRAME_UNREADABLE)};
    bool named = name->outcome == RUNTIME_FRAME_NAMED && name->n_lines;
    const struct runtime_line *from = named ? name->lines : &unreadable;
    *n = named ? name->n_lines : 1;
    *n = *n < SYMBOLIZER_LINES_MAX ? *n : SYMBOLIZER_LINES_MAX;
    struct symbolizer_line *lines = arena_alloc(arena, *n * sizeof(*lines));
    for (uint32_t i = 0; lines && i < *n; i++)
        lines[i] = line_of(&from[i]);
    return lines;
}

static size_t frame_bytes(const struct symbolizer_code_frame *frame)
{
    size_t bytes = sizeof(frame->frame) + sizeof(frame->n);
    for (uint32_t i = 0; i < frame->n; i++)
        bytes += LINE_BYTES + frame->lines[i].function.len + frame->lines[i].system_name.len +
                 frame->lines[i].file.len;
    return bytes;
}

static void code_answer_add_frame(struct code_answer *answer, const struct record_frame *frame,
                                  const struct runtime_name *name)
{
    struct symbolizer_code_frame told = {.frame = *frame};
    told.lines = lines_of(answer->arena, name, &told.n);
    if (!told.lines || frame_bytes(&told) > SYMBOLIZER_MESSAGE_MAX - answer->bytes)
        return;
    answer->bytes += frame_bytes(&told);
    answer->frames[answer->code.n_frames++] = told;
}

/* Another request would find the same. */
static bool is_final(const struct runtime_name *name)
{
    return name->outcome == RUNTIME_FRAME_NAMED || name->outcome == RUNTIME_FRAME_STALE;
}

static void code_answer_name_frames(struct symbolizer *symbolizer,
                                    const struct symbolizer_code_wanted *wanted,
                                    struct code_answer *answer)
{
    struct record_frame frames[RECORD_MAX_USER_FRAMES];
    struct runtime_name names[RECORD_MAX_USER_FRAMES];
    const struct tracked_process *process = map_get(&symbolizer->processes, &wanted->pid);
    size_t n = 0;
    for (uint32_t i = 0; i < wanted->n; i++)
        if (!record_frame_is_native(wanted->frames[i].words[0]))
            frames[n++] = wanted->frames[i];
    answer->code.cut =
        process_runtimes_name(symbolizer, wanted->pid, process ? process->runtimes : NULL, frames,
                              n, answer->arena, names);
    for (size_t i = 0; i < n; i++)
        if (!answer->code.cut || is_final(&names[i]))
            code_answer_add_frame(answer, &frames[i], &names[i]);
}

void symbolizer_answer_code(struct symbolizer *symbolizer,
                            const struct symbolizer_code_wanted *wanted)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct arena arena;
    struct code_answer answer = {.code = {.ticket = wanted->ticket, .pid = wanted->pid},
                                 .arena = &arena,
                                 .bytes = ANSWER_BYTES};
    answer.code.ranges = answer.ranges;
    answer.code.frames = answer.frames;
    arena_init(&arena, ARENA_BYTES);
    if (!symbolizer_skips(symbolizer, wanted->pid)) {
        symbolizer_enter(symbolizer, wanted->pid);
        code_answer_find_ranges(symbolizer, wanted, &answer);
        code_answer_name_frames(symbolizer, wanted, &answer);
        symbolizer_leave(symbolizer);
    }
    if (!symbolizer_repeats(symbolizer))
        symbolizer_send(&symbolizer->out,
                        &(struct symbolizer_message){.kind = SYMBOLIZER_CODE, .code = answer.code});
    arena_close(&arena);
}

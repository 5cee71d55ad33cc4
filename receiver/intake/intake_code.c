/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/intake_code.h"
#include "agent-bpf/record_frame.h"
#include "base/fair_share.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "base/stats.h"
#include "store/stacks/stacks.h"
#include <errno.h>
#include <stdlib.h>

enum code_limit { CODE_LIMIT_RANGES, CODE_LIMIT_PROCESSES, CODE_LIMIT_FRAMES, CODE_LIMITS };

static const char *const limit_names[] = {[CODE_LIMIT_RANGES] = "ranges",
                                          [CODE_LIMIT_PROCESSES] = "processes",
                                          [CODE_LIMIT_FRAMES] = "frames"};
STAT_COUNTERS(forgotten, "spanprof_code_forgotten_total",
              "Processes whose names of code without a file were all forgotten, by the limit that "
              "was reached.",
              STAT_LABEL("limit", limit_names, CODE_LIMITS));

struct range {
    uint64_t start;
    uint64_t last;
    uint64_t time_ns; /* of the sample that asked */
    int64_t name;     /* 0 = none */
};

#define NAME_BITS      56 /* of a rowid */
#define NAME_MASK      ((UINT64_C(1) << NAME_BITS) - 1)
#define CONFIRMED_BITS 7
#define FOR_GOOD       ((1u << CONFIRMED_BITS) - 1)
#define DOUBLES        4 /* confirmations until a name is kept twice as long */
#define CONFIRMED_MAX  (DOUBLES * CODE_KEPT_DOUBLED)

_Static_assert(NAME_BITS + 1 + CONFIRMED_BITS == 64 && CONFIRMED_MAX < FOR_GOOD,
               "fields of a named_frame");

struct named_frame {
    struct record_frame frame;
    uint64_t time_ns;          /* of the sample that asked */
    uint64_t name : NAME_BITS; /* 0 = none */
    uint64_t used : 1;         /* since it was asked for */
    /* How often it had the same name when half of its time was over, twice if all of it was;
     * FOR_GOOD: it has no end. */
    uint64_t confirmed : CONFIRMED_BITS;
};

#define NAMED_FRAME_BYTES                                                                          \
    (sizeof(struct named_frame) + 16 + 4 * sizeof(void *)) /* heap and map                         \
                                                            */

LIMIT(code, LIMIT_SERVICE, "names of code outside files",
      .bytes = CODE_ALL_RANGES_MAX * sizeof(struct range) +
               CODE_ALL_FRAMES_MAX * NAMED_FRAME_BYTES);

struct process_code {
    uint32_t pid;
    uint64_t tenant;  /* cgroup */
    uint64_t charged; /* as in struct code */
    uint32_t n_none;  /* consecutive answers without any name */
    uint64_t none_ns;
    uint64_t since_ns;
    struct list recent;
    size_t n;
    size_t cap;
    struct range *ranges; /* by address; none overlaps another */
    struct map frames;    /* struct named_frame */
};

#define FRAME_WEIGHT (CODE_ALL_RANGES_MAX / CODE_ALL_FRAMES_MAX)

struct code {
    size_t n_frames; /* of all processes */
    size_t cap_ranges;
    struct map processes;
    struct fair_share share;         /* 1 for a process and each range, FRAME_WEIGHT for a frame */
    struct list recent[FAIR_SHARES]; /* by fair_share_index(), least recently used first */
};

int intake_code_open(struct code **codep)
{
    struct code *code = calloc(1, sizeof(*code));
    if (!code)
        return -ENOMEM;
    int error = fair_share_init(&code->share, CODE_ALL_RANGES_MAX);
    if (error) {
        free(code);
        return error;
    }
    MAP_INIT(&code->processes, struct process_code, pid);
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        list_init(&code->recent[i]);
    *codep = code;
    return 0;
}

static void code_uncharge(struct code *code, struct process_code *process)
{
    list_remove(&process->recent);
    fair_share_give(&code->share, process->tenant, process->charged);
    process->charged = 0;
}

/* It is used, or has another size now. */
static void code_charge(struct code *code, struct process_code *process)
{
    code_uncharge(code, process);
    process->charged = 1 + process->cap + FRAME_WEIGHT * process->frames.count;
    fair_share_take(&code->share, process->tenant, process->charged);
    list_append(&code->recent[fair_share_index(&code->share, process->tenant)], &process->recent);
}

static void code_drop_frames(struct code *code, struct process_code *process)
{
    struct named_frame *named;
    code->n_frames -= process->frames.count;
    for (size_t i = 0; (named = map_next(&process->frames, &i));)
        free(named);
    map_close(&process->frames);
}

static void code_drop(struct code *code, struct process_code *process)
{
    map_remove(&code->processes, &process->pid);
    code_uncharge(code, process);
    code_drop_frames(code, process);
    code->cap_ranges -= process->cap;
    free(process->ranges);
    free(process);
}

void intake_code_forget(struct code *code)
{
    struct list *link;
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        while ((link = list_first(&code->recent[i])))
            code_drop(code, container_of(link, struct process_code, recent));
}

void intake_code_close(struct code *code)
{
    if (!code)
        return;
    intake_code_forget(code);
    map_close(&code->processes);
    free(code);
}

/* NULL: unknown process. */
static struct process_code *find_process(struct code *code, const struct code_program *program)
{
    struct process_code *process = map_get(&code->processes, &program->pid);
    if (!process || process->since_ns == program->since_ns)
        return process;
    code_drop(code, process);
    return NULL;
}

static struct process_code *add_process(struct code *code, const struct code_program *program)
{
    struct process_code *process = calloc(1, sizeof(*process));
    if (!process)
        return NULL;
    process->pid = program->pid;
    process->since_ns = program->since_ns;
    process->tenant = program->cgroup_id;
    MAP_INIT(&process->frames, struct named_frame, frame);
    if (map_put(&code->processes, process, NULL)) {
        free(process);
        return NULL;
    }
    code_charge(code, process);
    return process;
}

/* Index of the first range that ends at or above the address. */
static size_t place_of(const struct process_code *process, uint64_t address)
{
    size_t low = 0, high = process->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (process->ranges[middle].last < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_near(uint64_t a_ns, uint64_t b_ns, uint64_t ns)
{
    return (a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns) < ns;
}

static struct process_code *use_process(struct code *code, const struct code_program *program)
{
    struct process_code *process = find_process(code, program);
    if (!process)
        return NULL;
    code_charge(code, process);
    return process;
}

static uint64_t kept_ns(const struct named_frame *named)
{
    return CODE_KEEP_NS << (named->confirmed / DOUBLES);
}

static bool is_kept(const struct named_frame *named, uint64_t time_ns)
{
    return named->confirmed == FOR_GOOD || is_near(time_ns, named->time_ns, kept_ns(named));
}

/* Past half of its lifetime, and used since the last answer. */
static bool is_due(const struct named_frame *named, uint64_t time_ns)
{
    return named->used && named->confirmed != FOR_GOOD && is_kept(named, time_ns) &&
           !is_near(time_ns, named->time_ns, kept_ns(named) / 2);
}

enum code_state intake_code_find_frame(struct code *code, const struct code_program *program,
                                       uint64_t time_ns, const struct record_frame *frame,
                                       int64_t *name)
{
    const struct process_code *process = use_process(code, program);
    struct named_frame *named = process ? map_get(&process->frames, frame) : NULL;
    if (!named || !named->name || !is_kept(named, time_ns))
        return CODE_UNKNOWN;
    named->used = 1;
    *name = (int64_t)named->name;
    return CODE_NAMED;
}

uint32_t intake_code_due(struct code *code, const struct code_program *program, uint64_t time_ns,
                         struct record_frame *due, uint32_t max)
{
    const struct process_code *process = find_process(code, program);
    struct named_frame *named;
    uint32_t n = 0;
    for (size_t i = 0; process && n < max && (named = map_next(&process->frames, &i));)
        if (is_due(named, time_ns)) {
            named->used = 0;
            due[n++] = named->frame;
        }
    return n;
}

static bool names_nothing(const struct process_code *process, uint64_t time_ns)
{
    uint32_t doubled = process->n_none > CODE_NONE_DOUBLED ? CODE_NONE_DOUBLED : process->n_none;
    return process->n_none && is_near(time_ns, process->none_ns, CODE_NONE_NS << (doubled - 1));
}

enum code_state intake_code_find(struct code *code, const struct code_program *program,
                                 uint64_t time_ns, uint64_t address, int64_t *name)
{
    const struct process_code *process = use_process(code, program);
    if (!process)
        return CODE_UNKNOWN;
    if (names_nothing(process, time_ns))
        return CODE_NAMELESS;
    size_t at = place_of(process, address);
    const struct range *range = &process->ranges[at];
    if (at == process->n || range->start > address ||
        !is_near(time_ns, range->time_ns, CODE_KEEP_NS))
        return CODE_UNKNOWN;
    *name = range->name;
    return range->name ? CODE_NAMED : CODE_NAMELESS;
}

static int process_code_reserve(struct code *code, struct process_code *process)
{
    if (process->n == CODE_RANGES_MAX) {
        process->n = 0;
        stat_add_of(&forgotten, CODE_LIMIT_RANGES, 1);
    }
    if (process->n < process->cap)
        return 0;
    size_t cap = process->cap ? 2 * process->cap : 16;
    struct range *ranges = realloc(process->ranges, cap * sizeof(*ranges));
    if (!ranges)
        return -ENOMEM;
    process->ranges = ranges;
    code->cap_ranges += cap - process->cap;
    process->cap = cap;
    return 0;
}

/* Inserts a range in place of all ranges that it overlaps. */
static int put_range(struct code *code, struct process_code *process, const struct range *range)
{
    int error = process_code_reserve(code, process);
    if (error)
        return error;
    size_t at = place_of(process, range->start), end = at;
    while (end < process->n && process->ranges[end].start <= range->last)
        end++;
    memmove(process->ranges + at + 1, process->ranges + end,
            (process->n - end) * sizeof(*process->ranges));
    process->n = process->n - (end - at) + 1;
    process->ranges[at] = *range;
    return 0;
}

/* NULL: no memory. */
static struct named_frame *named_frame_of(struct code *code, struct process_code *process,
                                          const struct record_frame *frame)
{
    struct named_frame *named = map_get(&process->frames, frame);
    if (named)
        return named;
    if (process->frames.count == CODE_FRAMES_MAX) {
        code_drop_frames(code, process);
        MAP_INIT(&process->frames, struct named_frame, frame);
        stat_add_of(&forgotten, CODE_LIMIT_FRAMES, 1);
    }
    named = calloc(1, sizeof(*named));
    if (!named)
        return NULL;
    named->frame = *frame;
    if (map_put(&process->frames, named, NULL)) {
        free(named);
        return NULL;
    }
    code->n_frames++;
    return named;
}

static bool code_is_full(const struct code *code)
{
    return code->n_frames > CODE_ALL_FRAMES_MAX || code->cap_ranges > CODE_ALL_RANGES_MAX ||
           code->processes.count > CODE_PROCESSES_MAX;
}

/* Of all processes; the one that was used last stays. */
static void code_bound(struct code *code, struct process_code *last)
{
    code_uncharge(code, last);
    while (code_is_full(code) && code->share.used) {
        struct list *oldest = list_first(&code->recent[fair_share_largest(&code->share)]);
        code_drop(code, container_of(oldest, struct process_code, recent));
        stat_add_of(&forgotten, CODE_LIMIT_PROCESSES, 1);
    }
    code_charge(code, last);
}

/* By an answer with the same name. Several requests may have asked at once. */
static unsigned confirmed_by(const struct named_frame *named, uint64_t time_ns)
{
    unsigned confirmed = named->confirmed;
    if (!is_near(time_ns, named->time_ns, kept_ns(named)))
        confirmed += 2;
    else if (!is_near(time_ns, named->time_ns, kept_ns(named) / 2))
        confirmed++;
    return confirmed < CONFIRMED_MAX ? confirmed : CONFIRMED_MAX;
}

static void named_frame_put(struct named_frame *named, uint64_t time_ns, uint64_t name,
                            bool for_good)
{
    unsigned confirmed = name == named->name ? confirmed_by(named, time_ns) : 0;
    named->confirmed = (for_good ? FOR_GOOD : confirmed) & FOR_GOOD;
    named->name = name & NAME_MASK;
    named->time_ns = time_ns;
    named->used = 0;
}

static bool is_unreadable(const struct symbolizer_code_frame *told)
{
    return told->n && bytes_is(told->lines[0].function, RECORD_FRAME_UNREADABLE);
}

static int put_frame(struct code *code, struct process_code *process, uint64_t time_ns,
                     const struct symbolizer_code_frame *told, struct stacks *stacks)
{
    struct frame_name names[SYMBOLIZER_LINES_MAX];
    struct bytes type = BYTES_STR(record_frame_type(record_frame_kind(told->frame.words[0])));
    for (uint32_t i = 0; i < told->n; i++)
        names[i] = (struct frame_name){.function = told->lines[i].function,
                                       .file = told->lines[i].file,
                                       .system_name = told->lines[i].system_name,
                                       .line = told->lines[i].line,
                                       .column = told->lines[i].column,
                                       .start_line = told->lines[i].start_line};
    struct named_frame *named = named_frame_of(code, process, &told->frame);
    if (!named)
        return -ENOMEM;
    int64_t name;
    int error = stacks_named(stacks, type, names, told->n, &name);
    if (error)
        return error;
    bool renewed = named->name && is_kept(named, time_ns);
    if (renewed && is_unreadable(told) && named->name != (uint64_t)name)
        named->name = 0; /* the object is gone: a sample of its successor asks again */
    else
        named_frame_put(named, time_ns, (uint64_t)name,
                        record_frame_is_unique(&told->frame) && !is_unreadable(told));
    return 0;
}

int intake_code_answer(struct code *code, const struct code_program *program, uint64_t time_ns,
                       const struct symbolizer_code *told, struct stacks *stacks)
{
    struct process_code *process = use_process(code, program);
    process = process ? process : add_process(code, program);
    if (!process)
        return -ENOMEM;
    if (told->map != CODE_MAP_NOT_ASKED) {
        process->n_none = told->map == CODE_MAP_READ ? 0 : process->n_none + 1;
        process->none_ns = time_ns;
    }
    const char *engine = runtime_engine(told->runtime)->type;
    const struct bytes type = *engine ? BYTES_STR(engine) : BYTES_LIT("jit");
    int error = 0;
    for (uint32_t i = 0; i < told->n && !error; i++) {
        struct bytes function = told->ranges[i].function;
        struct range range = {told->ranges[i].start, told->ranges[i].last, time_ns, 0};
        const struct frame_name name = {.function = function};
        if (function.len)
            error = stacks_named(stacks, type, &name, 1, &range.name);
        error = error ? error : put_range(code, process, &range);
    }
    for (uint32_t i = 0; i < told->n_frames && !error; i++)
        error = put_frame(code, process, time_ns, &told->frames[i], stacks);
    code_bound(code, process);
    return error;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/ruby/ruby_names.h"
#include "agent-bpf/runtimes/ruby/ruby_function.h"
#include <errno.h>

#define SCRATCH_MAX ((size_t)16 << 20)
#define ROUNDS_MAX  32 /* an object needs at most 20 */
#define SLOTS       (2 * RUBY_FUNCTIONS_MAX)

struct naming {
    struct ruby_reads reads;
    struct arena scratch;
    struct ruby_function *functions;
    size_t n_functions;
    struct ruby_line *lines; /* of each frame */
    int32_t *of;             /* of each frame: its function, or -1 */
};

static bool is_same(const struct record_frame *a, const struct record_frame *b)
{
    return a->words[0] == b->words[0] && a->words[1] >> 32 == b->words[1] >> 32 &&
           a->words[2] == b->words[2];
}

/* -1: it is none, or one too many. */
static int32_t function_of(struct naming *naming, int32_t *slots, const struct record_frame *frame)
{
    uint64_t hash = ruby_hash(ruby_hash(frame->words[0], frame->words[1] >> 32), frame->words[2]);
    if (record_frame_kind(frame->words[0]) != FRAME_RUBY)
        return -1;
    for (size_t i = 0; i < SLOTS; i++) {
        int32_t *slot = &slots[(hash + i) % SLOTS];
        if (*slot && is_same(&naming->functions[*slot - 1].frame, frame))
            return *slot - 1;
        if (*slot)
            continue;
        if (naming->n_functions == RUBY_FUNCTIONS_MAX)
            return -1;
        ruby_function_begin(&naming->functions[naming->n_functions++], frame);
        *slot = (int32_t)naming->n_functions;
        return *slot - 1;
    }
    return -1;
}

static int naming_collect(struct naming *naming, const struct record_frame *frames, size_t n)
{
    size_t most = n < RUBY_FUNCTIONS_MAX ? n : RUBY_FUNCTIONS_MAX;
    int32_t *slots = arena_zalloc(&naming->scratch, SLOTS * sizeof(*slots));
    naming->functions = arena_zalloc(&naming->scratch, (most + 1) * sizeof(*naming->functions));
    naming->lines = arena_zalloc(&naming->scratch, (n + 1) * sizeof(*naming->lines));
    naming->of = arena_zalloc(&naming->scratch, (n + 1) * sizeof(*naming->of));
    if (!slots || !naming->functions || !naming->lines || !naming->of)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        naming->of[i] = function_of(naming, slots, &frames[i]);
        ruby_line_begin(&naming->lines[i], &frames[i]);
    }
    return 0;
}

static bool lines_step(struct naming *naming, size_t n)
{
    bool goes_on = false;
    for (size_t i = 0; i < n; i++) {
        const struct ruby_function *function =
            naming->of[i] < 0 ? NULL : &naming->functions[naming->of[i]];
        if (!function || function->step == RUBY_GOES_ON)
            continue;
        if (ruby_line_step(&naming->reads, function, &naming->lines[i]) == RUBY_GOES_ON)
            goes_on = true;
    }
    return goes_on;
}

static void naming_read(struct naming *naming, size_t n)
{
    bool goes_on = true;
    for (int round = 0; goes_on && round < ROUNDS_MAX; round++) {
        goes_on = false;
        for (size_t i = 0; i < naming->n_functions; i++)
            if (ruby_function_step(&naming->reads, &naming->functions[i]))
                goes_on = true;
        goes_on = lines_step(naming, n) || goes_on;
        ruby_reads_run(&naming->reads);
    }
    for (size_t i = 0; i < naming->n_functions; i++)
        ruby_function_again(&naming->reads, &naming->functions[i]);
    ruby_reads_run(&naming->reads);
    for (size_t i = 0; i < naming->n_functions; i++)
        ruby_function_verify(&naming->functions[i]);
}

static int text_copy(struct arena *arena, const char *text, size_t length, struct bytes *copy)
{
    const void *data = arena_dup(arena, text, length + 1);
    if (!data)
        return -ENOMEM;
    *copy = BYTES(data, length);
    return 0;
}

static int frame_name(struct naming *naming, size_t i, struct runtime_names *out)
{
    const struct ruby_function *function = &naming->functions[naming->of[i]];
    const struct ruby_line *line = &naming->lines[i];
    struct runtime_name *name = &out->names[i];
    char text[RUNTIME_NAME_MAX + 1];
    name->outcome = function->outcome;
    if (function->outcome != RUNTIME_FRAME_NAMED)
        return 0;
    struct runtime_line *found = name->lines = arena_zalloc(out->arena, sizeof(*name->lines));
    if (!found)
        return -ENOMEM;
    name->n_lines = 1;
    size_t length = ruby_function_text(&naming->reads, function, text);
    int error = text_copy(out->arena, text, length, &found->function);
    struct bytes path = ruby_text_bytes(&naming->reads, &function->path);
    length = bytes_sanitize(path, text, sizeof(text));
    error = error ? error : text_copy(out->arena, text, length, &found->file);
    found->start_line = ruby_function_first_line(&naming->reads, function);
    found->line = line->step == RUBY_DONE ? line->line : 0;
    return error;
}

int ruby_names(const struct ruby_layout *layout, const struct ruby_process *process,
               struct runtime_memory *memory, const struct record_frame *frames, size_t n,
               struct runtime_names *out)
{
    struct naming naming = {.reads = {.memory = memory, .layout = layout, .process = process}};
    arena_init(&naming.scratch, SCRATCH_MAX);
    naming.reads.arena = &naming.scratch;
    int error = naming_collect(&naming, frames, n);
    if (!error) {
        naming_read(&naming, n);
        error = naming.reads.failed;
    }
    for (size_t i = 0; !error && i < n; i++) {
        out->names[i] = (struct runtime_name){.outcome = RUNTIME_FRAME_UNKNOWN};
        if (naming.of[i] >= 0)
            error = frame_name(&naming, i, out);
    }
    arena_close(&naming.scratch);
    return error;
}

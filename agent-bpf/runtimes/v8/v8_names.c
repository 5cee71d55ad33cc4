/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/v8/v8_names.h"
#include "agent-bpf/record.h"
#include "agent-bpf/runtimes/v8/v8_deopt.h"
#include "agent-bpf/runtimes/v8/v8_trail.h"
#include <errno.h>
#include <stdlib.h>

#define ANONYMOUS "(anonymous)"
#define TOP_LEVEL "(top level)"
#define CALLS_MAX (V8_INLINED_MAX + 1)

struct v8_frame {
    uint64_t words[3];
    struct v8_code_search search;
    bool done;
};

struct v8_texts { /* of one call */
    char function[V8_TEXT_MAX + 1];
    char file[V8_TEXT_MAX + 1];
};

struct v8_names {
    const struct v8_process *process;
    struct v8_heap heap;
    struct v8_scripts scripts;
    struct v8_frame *frames;
    size_t n;
    size_t left;
    struct v8_call calls[CALLS_MAX]; /* of the frame that is being decoded */
    size_t n_calls;
    struct v8_name names[CALLS_MAX];
    struct v8_texts *texts; /* CALLS_MAX */
    v8_names_take *take;
    void *context;
};

static uint64_t frame_shared(const struct v8_frame *frame)
{
    uint64_t at = frame->words[1] & V8_FRAME_SHARED_MASK;
    return at ? at + 1 : 0;
}

/* -ESTALE: the object is not that of the frame any more. */
static int frame_check(struct v8_names *names, const struct v8_frame *frame,
                       struct v8_shared *shared)
{
    int error = v8_function_shared(&names->heap, frame_shared(frame), shared);
    if (error)
        return error == -EFAULT ? -ESTALE : error;
    bool same = (uint32_t)shared->literal == frame->words[2] >> 32 &&
                V8_SCRIPT_HASH(shared->script) == frame->words[1] >> V8_FRAME_SCRIPT_SHIFT;
    return same ? 0 : -ESTALE;
}

static int frame_unoptimised(struct v8_names *names, const struct v8_shared *shared,
                             uint64_t of_code, const struct v8_frame *frame, int32_t *position)
{
    struct v8_heap *heap = &names->heap;
    uint64_t bytecode;
    int32_t offset = (int32_t)(uint32_t)frame->words[2];
    uint32_t length;
    *position = V8_POSITION_UNKNOWN;
    int error = v8_function_bytecode(heap, of_code, &bytecode);
    if (error == -ENOENT)
        error = v8_function_bytecode(heap, shared->data, &bytecode);
    if (error)
        return error == -ENOENT ? 0 : error;
    if (!(frame->words[1] & V8_FRAME_INTERPRETED)) {
        const struct v8_code *code = &frame->search.code;
        uint64_t at = frame->words[0] & (RECORD_FRAME_EXACT - 1);
        at -= code->start + !(frame->words[0] & RECORD_FRAME_EXACT);
        error = v8_code_bytecode(heap, code, bytecode, at, &offset);
    } else {
        error = v8_function_bytecode_length(heap, bytecode, &length);
        if (!error && (uint32_t)offset >= length)
            offset = -1;
    }
    if (error)
        return error == -EFAULT ? 0 : error;
    return v8_code_position(heap, bytecode, offset < 0 ? 0 : (uint32_t)offset, position);
}

static bool is_builtin(const struct v8_process *process, uint64_t pc)
{
    __u64 offset;
    return v8_process_builtin(process, pc, &offset);
}

/* -ENOENT: other code is at the address now. */
static int frame_check_code(struct v8_names *names, const struct v8_frame *frame, uint64_t pc)
{
    uint64_t bytes;
    uint32_t hash = (uint32_t)frame->words[2];
    int error = hash ? v8_heap_read(&names->heap, pc, &bytes, sizeof(bytes)) : 0;
    if (error)
        return error == -EFAULT ? -ENOENT : error;
    return !hash || hash == V8_CODE_HASH(bytes) ? 0 : -ENOENT;
}

/* Of a call in optimised code, in the innermost function that is inlined there: more exact than the
 * table of positions. */
static int frame_call_position(struct v8_names *names, const struct v8_frame *frame)
{
    struct v8_heap *heap = &names->heap;
    const struct v8_code *code = &frame->search.code;
    uint64_t bytecode, pc = frame->words[0] & (RECORD_FRAME_EXACT - 1);
    struct v8_call *call = &names->calls[0];
    struct v8_shared shared;
    uint32_t offset;
    int32_t found;
    if (frame->words[0] & RECORD_FRAME_EXACT || !call->shared)
        return 0;
    int error = v8_deopt_bytecode(heap, code, pc - code->start, names->n_calls, &offset);
    if (!error)
        error = v8_function_shared(heap, call->shared, &shared);
    if (!error)
        error = v8_function_bytecode(heap, shared.data, &bytecode);
    if (!error)
        error = v8_code_position(heap, bytecode, offset, &found);
    if (!error && found != V8_POSITION_UNKNOWN)
        call->position = found;
    return error == -ENOENT || error == -EFAULT ? 0 : error;
}

/* By machine code. The code names its function; a frame that names another one is stale. */
static int frame_by_code(struct v8_names *names, struct v8_frame *frame,
                         const struct v8_shared *shared)
{
    struct v8_heap *heap = &names->heap;
    struct v8_call *last = &names->calls[0];
    uint64_t pc = frame->words[0] & (RECORD_FRAME_EXACT - 1);
    uint64_t at = pc - !(frame->words[0] & RECORD_FRAME_EXACT), own = frame_shared(frame);
    int error = is_builtin(names->process, pc) ? -ENOENT : frame_check_code(names, frame, pc);
    if (!error)
        error = v8_code_find(heap, at, &frame->search);
    *last = (struct v8_call){own, V8_POSITION_UNKNOWN};
    names->n_calls = 1;
    if (error == -ENOENT && own)
        return 0;
    if (error)
        return error;
    struct v8_code *code = &frame->search.code;
    if (v8_code_is_baseline(heap, code))
        return own ? frame_unoptimised(names, shared, code->data, frame, &last->position) : -ENOENT;
    error = v8_code_calls(heap, code, at - code->start, names->calls, &names->n_calls);
    if (error == -ENOENT && own) {
        names->calls[0] = (struct v8_call){own, V8_POSITION_UNKNOWN};
        names->n_calls = 1;
        return 0;
    }
    if (error)
        return error;
    last = &names->calls[names->n_calls - 1];
    if (last->shared && own && last->shared != own)
        return -ESTALE;
    if (!last->shared)
        last->shared = own;
    error = frame_call_position(names, frame);
    return error ? error : last->shared ? 0 : -ENOENT;
}

static int frame_calls(struct v8_names *names, struct v8_frame *frame)
{
    struct v8_shared shared = {0};
    uint64_t own = frame_shared(frame);
    int error = own ? frame_check(names, frame, &shared) : 0;
    if (error)
        return error;
    if (!(frame->words[1] & V8_FRAME_INTERPRETED))
        return frame_by_code(names, frame, &shared);
    names->calls[0] = (struct v8_call){own, V8_POSITION_UNKNOWN};
    names->n_calls = 1;
    return frame_unoptimised(names, &shared, 0, frame, &names->calls[0].position);
}

static int call_place(struct v8_names *names, uint64_t script, int32_t position, uint32_t *line,
                      uint32_t *column)
{
    *line = *column = 0;
    int error = v8_script_place(&names->scripts, &names->heap, script, position, line, column);
    return error == -ENOENT || error == -EFAULT ? 0 : error;
}

/* Machine code that is freed has other things in the place of its tables, which may still look like
 * tables: a position outside of the function is none. */
static int32_t call_position(const struct v8_call *call, const struct v8_function *function)
{
    if (call->position == V8_POSITION_AT_START || function->start < 0)
        return call->position == V8_POSITION_AT_START ? function->start : call->position;
    return call->position >= function->start && call->position <= function->end
               ? call->position
               : V8_POSITION_UNKNOWN;
}

static int call_name(struct v8_names *names, const struct v8_call *call, struct v8_texts *texts,
                     struct v8_name *name)
{
    struct v8_heap *heap = &names->heap;
    struct v8_shared shared;
    struct v8_function function;
    uint32_t column;
    *name = (struct v8_name){.function = texts->function, .file = texts->file};
    *texts->file = '\0';
    int error = v8_function_shared(heap, call->shared, &shared);
    if (!error)
        error = v8_function_describe(heap, &shared, &function);
    if (error)
        return error;
    const char *unnamed = shared.literal ? ANONYMOUS : TOP_LEVEL;
    memcpy(texts->function, function.name, sizeof(function.name));
    if (!*texts->function)
        memcpy(texts->function, unnamed, strlen(unnamed) + 1);
    error = v8_heap_check(heap, shared.script, heap->file->types.script);
    if (error)
        return error == -EFAULT ? 0 : error; /* a builtin */
    error = v8_script_name(heap, shared.script, texts->file);
    int32_t position = call_position(call, &function);
    int line = call_place(names, shared.script, position, &name->line, &name->column);
    int start = call_place(names, shared.script, function.start, &name->start_line, &column);
    return error ? error : line ? line : start;
}

/* 0, -EAGAIN, or why it has no name. What is wanted of all its calls is noted in one go. */
static int frame_decode(struct v8_names *names, struct v8_frame *frame)
{
    int outcome = 0;
    int error = frame_calls(names, frame);
    if (error)
        return error;
    for (size_t i = 0; i < names->n_calls; i++) {
        error = call_name(names, &names->calls[i], &names->texts[i], &names->names[i]);
        if (error && error != -EAGAIN)
            return error;
        if (error)
            outcome = error;
    }
    return outcome;
}

static enum v8_names_outcome outcome_of(int error)
{
    switch (error) {
    case 0:
        return V8_NAMED;
    case -ESTALE:
        return V8_STALE;
    case -ENOENT:
        return V8_UNKNOWN;
    default:
        return V8_UNREADABLE;
    }
}

static void frame_keep(const struct v8_names *names, const struct v8_frame *frame)
{
    const struct v8_code_search *search = &frame->search;
    v8_trail_put(names->scripts.store, &names->heap, frame->words,
                 search->found ? search->code.start : 0);
}

static int names_round(struct v8_names *names, bool last)
{
    for (size_t i = 0; i < names->n; i++) {
        struct v8_frame *frame = &names->frames[i];
        if (frame->done)
            continue;
        v8_heap_begin(&names->heap);
        bool late = runtime_memory_is_late(names->heap.memory);
        int error = late ? -ENOENT : frame_decode(names, frame);
        if (error == -EAGAIN && !last)
            continue;
        if (!error)
            frame_keep(names, frame);
        frame->done = true;
        names->left--;
        error = names->take(names->context, i, outcome_of(error), names->names,
                            error ? 0 : names->n_calls);
        if (error)
            return error;
    }
    return 0;
}

static int names_fetch(struct v8_names *names)
{
    int objects = v8_heap_fetch(&names->heap);
    if (objects && objects != -ENODATA)
        return objects;
    int sources = v8_scripts_fetch(&names->scripts, &names->heap);
    if (sources && sources != -ENODATA)
        return sources;
    return objects && sources ? -ENODATA : 0;
}

/* What was read of the frames the last time is there when they are decoded. */
static int names_fetch_ahead(struct v8_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        v8_trail_follow(names->scripts.store, &names->heap, names->frames[i].words,
                        &names->frames[i].search.first);
    int error = 0;
    while (!error && !names->heap.exhausted)
        error = v8_heap_fetch(&names->heap);
    return error == -ENODATA ? 0 : error;
}

static int names_run(struct v8_names *names)
{
    int error = names_fetch_ahead(names);
    bool last = false;
    for (int i = 0; !error && names->left; i++) {
        error = names_round(names, last || i == V8_NAMES_ROUNDS);
        if (error || !names->left)
            break;
        error = names_fetch(names);
        last = error == -ENODATA || error == -ETIME;
        if (last)
            error = 0;
    }
    return error;
}

int v8_names_find(const struct v8_names_request *request, v8_names_take *take, void *context)
{
    size_t n = request->n;
    struct v8_names names = {.process = request->process,
                             .scripts = {.store = request->store},
                             .n = n,
                             .left = n,
                             .take = take,
                             .context = context};
    int error = v8_heap_open(&names.heap, request->file, request->memory);
    if (error)
        return error;
    names.frames = calloc(n + 1, sizeof(*names.frames));
    names.texts = calloc(CALLS_MAX, sizeof(*names.texts));
    for (size_t i = 0; names.frames && i < n; i++)
        memcpy(names.frames[i].words, request->frames[i], sizeof(names.frames[i].words));
    error = names.frames && names.texts ? names_run(&names) : -ENOMEM;
    free(names.frames);
    free(names.texts);
    v8_scripts_close(&names.scripts);
    v8_heap_close(&names.heap);
    return error;
}

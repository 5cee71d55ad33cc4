/* SPDX-License-Identifier: Apache-2.0 */
/* What became of the frames of a process's runtime, and the one switch that would name them. */
#include "exporter/pages/pages_programs.h"
#include <stdio.h>

/* Samples say more than the symbolizer's look: whether code without a file has names. */
enum runtime_frames_state pages_frames_state(const struct coverage_process *process)
{
    enum runtime_frames_state state = (enum runtime_frames_state)process->program.frames.state;
    if (state == RUNTIME_FRAMES_READ || process->code_map == COVERAGE_CODE_NOT_SEEN)
        return state;
    if (process->code_map == COVERAGE_CODE_MAP)
        return RUNTIME_FRAMES_PERF_MAP;
    return state == RUNTIME_FRAMES_NO_READER ? RUNTIME_FRAMES_UNNAMED : state;
}

bool pages_frames_need_map(const struct coverage_process *process)
{
    enum runtime_frames_state state = pages_frames_state(process);
    bool refused = state == RUNTIME_FRAMES_REFUSED && process->code_map == COVERAGE_CODE_NO_MAP;
    return (refused || state == RUNTIME_FRAMES_UNNAMED) &&
           *runtime_engine(process->program.frames.runtime)->line;
}

static const char *why_not_read(const struct coverage_process *process)
{
    if (process->program.frames.runtime == RUNTIME_PERL)
        return "Its functions are not shown, but those of the interpreter: spanprof does not read "
               "Perl's own stack, and Perl writes no perf map.";
    return "Its functions are not shown: spanprof does not read the stack of this runtime.";
}

const char *pages_frames_why(const struct coverage_process *process)
{
    unsigned refusal = process->program.frames.refusal;
    switch (pages_frames_state(process)) {
    case RUNTIME_FRAMES_REFUSED:
        return runtime_refusal_sentences[refusal < RUNTIME_REFUSALS ? refusal : 0];
    case RUNTIME_FRAMES_NO_READER:
        return why_not_read(process);
    case RUNTIME_FRAMES_UNNAMED:
        return *runtime_engine(process->program.frames.runtime)->line
                   ? "Code that it makes at run time has no names: it writes no perf map."
                   : "Code that it makes at run time has no names: it writes no perf map, and "
                     "spanprof does not read the stack of this runtime.";
    default:
        return "";
    }
}

bool pages_frames_alike(const struct coverage_process *a, const struct coverage_process *b)
{
    const struct runtime_frames *left = &a->program.frames, *right = &b->program.frames;
    return pages_frames_state(a) == pages_frames_state(b) && left->runtime == right->runtime &&
           left->refusal == right->refusal && left->version.major == right->version.major &&
           left->version.minor == right->version.minor &&
           pages_frames_need_map(a) == pages_frames_need_map(b);
}

/* CPython 3.11, HotSpot 17, .NET */
static void engine_text(const struct runtime_frames *frames, char *out, size_t size)
{
    const char *name = runtime_engine(frames->runtime)->name;
    const struct runtime_version *version = &frames->version;
    if (!version->major)
        snprintf(out, size, "%s", name);
    else if (version->parts < 2)
        snprintf(out, size, "%s %u", name, version->major);
    else
        snprintf(out, size, "%s %u.%u", name, version->major, version->minor);
}

void pages_frames_put(const struct coverage_process *process, struct json_writer *json)
{
    const struct runtime_frames *frames = &process->program.frames;
    const struct runtime_engine *engine = runtime_engine(frames->runtime);
    enum runtime_frames_state state = pages_frames_state(process);
    char read[64];
    engine_text(frames, read, sizeof(read));
    json_begin_object(json, "frames");
    json_put_string(json, "state", runtime_frames_state_names[state]);
    json_put_string(json, "engine", read);
    json_put_string(json, "text",
                    state == RUNTIME_FRAMES_READ ? read : runtime_frames_state_texts[state]);
    json_put_string(json, "why", pages_frames_why(process));
    if (pages_frames_need_map(process)) {
        json_begin_object(json, "switch");
        json_put_string(json, "line", engine->line);
        json_put_string(json, "where", engine->where);
        json_end_object(json);
    }
    json_end_object(json);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/v8/v8_reader.h"
#include "agent-bpf/runtimes/v8/v8_attach.h"
#include "agent-bpf/runtimes/v8/v8_names.h"
#include <errno.h>
#include <stdlib.h>

struct runtime_constants {
    struct v8_file v8;
};

int v8_reader_open(const struct elf *elf, struct runtime_constants **out, enum runtime_refusal *why)
{
    struct runtime_constants *constants = calloc(1, sizeof(*constants));
    if (!constants)
        return -ENOMEM;
    int outcome = v8_file_read(elf, &constants->v8);
    if (!outcome) {
        *out = constants;
        return 0;
    }
    free(constants);
    if (outcome == V8_FILE_NONE)
        return -ENOENT;
    if (outcome < 0)
        return outcome;
    *why = outcome == V8_FILE_COMPRESSED_POINTERS ? RUNTIME_REFUSAL_COMPRESSED_POINTERS
                                                  : RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
    return -ENOTSUP;
}

void v8_reader_close(struct runtime_constants *constants)
{
    free(constants);
}

int v8_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                     struct runtime_memory *memory, struct runtime_process *entry,
                     enum runtime_refusal *why)
{
#if defined(__x86_64__)
    (void)why;
    return v8_attach(&constants->v8, load_bias, memory, &entry->v8);
#else /* its steps are those of x86-64 */
    (void)constants, (void)load_bias, (void)memory, (void)entry;
    *why = RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
    return -ENOTSUP;
#endif
}

/* ---- names ---- */

struct naming {
    struct runtime_names *out;
    struct runtime_cache *cache;
    const struct runtime_memory *memory;
};

static struct runtime_cache_key key_of(const struct naming *naming, enum v8_kept kind,
                                       const uint64_t key[3])
{
    return (struct runtime_cache_key){.words = {key[0], key[1], key[2]},
                                      .program = naming->memory->program,
                                      .runtime = RUNTIME_NODE,
                                      .kind = kind};
}

static bool kept_get(void *context, enum v8_kept kind, const uint64_t words[3], struct bytes *value)
{
    const struct naming *naming = context;
    const struct runtime_cache_key key = key_of(naming, kind, words);
    return runtime_cache_get(naming->cache, &key, value);
}

static void kept_put(void *context, enum v8_kept kind, const uint64_t words[3], struct bytes value)
{
    const struct naming *naming = context;
    const struct runtime_cache_key key = key_of(naming, kind, words);
    runtime_cache_put(naming->cache, naming->memory->tenant, &key, value);
}

static int text_copy(struct arena *arena, const char *text, struct bytes *out)
{
    size_t size = strlen(text);
    const void *copy = size ? arena_dup(arena, text, size) : NULL;
    *out = BYTES(copy, copy ? size : 0);
    return size && !copy ? -ENOMEM : 0;
}

static int take(void *context, size_t frame, enum v8_names_outcome outcome,
                const struct v8_name *names, size_t n)
{
    static const enum runtime_outcome outcomes[] = {[V8_NAMED] = RUNTIME_FRAME_NAMED,
                                                    [V8_STALE] = RUNTIME_FRAME_STALE,
                                                    [V8_UNREADABLE] = RUNTIME_FRAME_UNREADABLE,
                                                    [V8_UNKNOWN] = RUNTIME_FRAME_UNKNOWN};
    const struct naming *naming = context;
    struct runtime_name *name = &naming->out->names[frame];
    n = n < RUNTIME_LINES_MAX ? n : RUNTIME_LINES_MAX;
    *name = (struct runtime_name){.outcome = outcomes[outcome]};
    if (outcome != V8_NAMED)
        return 0;
    name->lines = arena_zalloc(naming->out->arena, n * sizeof(*name->lines));
    if (!name->lines)
        return -ENOMEM;
    name->n_lines = (uint32_t)n;
    int error = 0;
    for (size_t i = 0; i < n && !error; i++) {
        struct runtime_line *line = &name->lines[i];
        line->line = names[i].line;
        line->column = names[i].column;
        line->start_line = names[i].start_line;
        error = text_copy(naming->out->arena, names[i].function, &line->function);
        error = error ? error : text_copy(naming->out->arena, names[i].file, &line->file);
    }
    return error;
}

int v8_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                    struct runtime_cache *cache, struct runtime_memory *memory,
                    const struct record_frame *frames, size_t n, struct runtime_names *out)
{
    struct naming naming = {out, cache, memory};
    const struct v8_store store = {kept_get, kept_put, &naming};
    uint64_t words[RECORD_MAX_USER_FRAMES][RECORD_FRAME_WORDS_MAX];
    for (size_t i = 0; i < n && i < RECORD_MAX_USER_FRAMES; i++)
        for (size_t k = 0; k < RECORD_FRAME_WORDS_MAX; k++)
            words[i][k] = frames[i].words[k];
    const struct v8_names_request request = {.file = &constants->v8,
                                             .process = &entry->v8,
                                             .memory = memory,
                                             .store = &store,
                                             .frames = words,
                                             .n = n};
    return v8_names_find(&request, take, &naming);
}

struct runtime_version v8_reader_version(const struct runtime_constants *constants,
                                         const struct runtime_process *entry)
{
    (void)entry;
    return (struct runtime_version){(uint8_t)(constants->v8.version / 100),
                                    (uint8_t)(constants->v8.version % 100), 2};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/php/php_names.h"
#include "agent-bpf/runtimes/php/php_texts.h"
#include <errno.h>

#define SCRATCH_MAX (2u << 20)

static bool frame_open(const struct record_frame *words, struct php_frame *frame)
{
    if (record_frame_kind(words->words[0]) != FRAME_PHP)
        return false;
    php_frame_unpack(words->words, frame);
    return true;
}

/* What is shown of code that has no function; NULL: it is a string. */
static const char *code_name(uint64_t name)
{
    switch (name) {
    case PHP_CODE_MAIN:
        return "{main}"; /* as in the traces of PHP's exceptions */
    case PHP_CODE_INCLUDE:
        return "{include}";
    case PHP_CODE_EVAL:
        return "{eval}";
    default:
        return NULL;
    }
}

static enum runtime_outcome text_outcome(const struct php_texts *texts, uint64_t address,
                                         uint64_t *hash, struct bytes *bytes)
{
    const struct php_text *text = php_texts_find(texts, address);
    *bytes = BYTES(NULL, 0);
    if (!address) {
        *hash = php_identity_add(*hash, 0, 0);
        return RUNTIME_FRAME_NAMED;
    }
    if (!text || text->error == -E2BIG)
        return RUNTIME_FRAME_UNKNOWN;
    if (text->error)
        return RUNTIME_FRAME_UNREADABLE;
    *hash = php_identity_add(*hash, text->hash, text->length);
    *bytes = text->bytes;
    return RUNTIME_FRAME_NAMED;
}

struct frame_texts {
    struct bytes name, class, file;
};

static enum runtime_outcome frame_texts(const struct php_texts *texts,
                                        const struct php_frame *frame, struct frame_texts *found)
{
    const char *code = code_name(frame->name);
    uint64_t hash = 0;
    enum runtime_outcome of[] = {text_outcome(texts, code ? 0 : frame->name, &hash, &found->name),
                                 text_outcome(texts, frame->class, &hash, &found->class),
                                 text_outcome(texts, frame->file, &hash, &found->file)};
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
        if (of[i] != RUNTIME_FRAME_NAMED)
            return of[i];
    if (code)
        found->name = BYTES(code, strlen(code));
    return php_identity(hash) == frame->identity ? RUNTIME_FRAME_NAMED : RUNTIME_FRAME_STALE;
}

/* Up to a NUL: behind it, names of anonymous classes say where they are from. */
static struct bytes shown(struct bytes text)
{
    const uint8_t *end = text.len ? memchr(text.data, 0, text.len) : NULL;
    return end ? BYTES(text.data, (size_t)(end - text.data)) : text;
}

static int copy(struct arena *arena, struct bytes text, struct bytes *out)
{
    char sane[RUNTIME_NAME_MAX + 1];
    size_t length = bytes_sanitize(text, sane, sizeof(sane));
    const void *kept = arena_dup(arena, sane, length + 1);
    *out = BYTES(kept, kept ? length : 0);
    return kept ? 0 : -ENOMEM;
}

/* class::name */
static int function_name(const struct frame_texts *texts, struct arena *arena, struct bytes *out)
{
    uint8_t whole[2 * RUNTIME_NAME_MAX + 2];
    struct bytes parts[] = {shown(texts->class), BYTES_LIT("::"), shown(texts->name)};
    size_t used = 0;
    for (size_t i = parts[0].len ? 0 : 2; i < sizeof(parts) / sizeof(*parts); i++) {
        size_t n = parts[i].len < RUNTIME_NAME_MAX ? parts[i].len : RUNTIME_NAME_MAX;
        memcpy(whole + used, parts[i].data, n);
        used += n;
    }
    return copy(arena, BYTES(whole, used), out);
}

static int frame_name(const struct php_texts *texts, const struct php_frame *frame,
                      struct arena *arena, struct runtime_name *name)
{
    struct frame_texts found;
    name->outcome = frame_texts(texts, frame, &found);
    if (name->outcome != RUNTIME_FRAME_NAMED)
        return 0;
    struct runtime_line *line = arena_zalloc(arena, sizeof(*line));
    if (!line)
        return -ENOMEM;
    *name = (struct runtime_name){.outcome = RUNTIME_FRAME_NAMED, .n_lines = 1, .lines = line};
    line->line = frame->line;
    int error = function_name(&found, arena, &line->function);
    return error ? error : copy(arena, found.file, &line->file);
}

static int names_find(struct php_texts *texts, const struct record_frame *frames, size_t n,
                      struct runtime_names *out)
{
    struct php_frame frame;
    for (size_t i = 0; i < n; i++) {
        if (!frame_open(&frames[i], &frame))
            continue;
        php_texts_want(texts, code_name(frame.name) ? 0 : frame.name);
        php_texts_want(texts, frame.class);
        php_texts_want(texts, frame.file);
    }
    int error = php_texts_read(texts);
    for (size_t i = 0; !error && i < n; i++) {
        out->names[i] = (struct runtime_name){.outcome = RUNTIME_FRAME_UNKNOWN};
        if (frame_open(&frames[i], &frame))
            error = frame_name(texts, &frame, out->arena, &out->names[i]);
    }
    return error;
}

int php_names(struct runtime_memory *memory, const struct record_frame *frames, size_t n,
              struct runtime_names *out)
{
    struct php_texts texts;
    struct arena scratch;
    arena_init(&scratch, SCRATCH_MAX);
    int error = php_texts_open(&texts, memory, &scratch);
    error = error ? error : names_find(&texts, frames, n, out);
    arena_close(&scratch);
    return error;
}

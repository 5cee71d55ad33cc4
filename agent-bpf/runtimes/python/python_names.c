/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process runs on while it is read: an object may be freed between two reads, and its texts'
 * memory may be other texts' then. So it is read once more at the end. If it lives then, and its
 * identity is that of the tick, it has lived all the time, and what it refers to has too.
 */
#include "agent-bpf/runtimes/python/python_names.h"
#include "agent-bpf/runtimes/python/python_lines.h"
#include <errno.h>

#define SCRATCH_MAX          (2u << 20)
#define FIRST_READ           256 /* bytes of a text or a table, if they lie in one page */
#define PAGE                 4096
#define HEADER_READ          48 /* of any text or table, across pages too */
#define RANGE_MAX            (32u << 10)
#define TABLE_HEADER(layout) ((size_t)(layout)->bytes_data)
#define UNITS_MAX            (1u << 28)

/* A text or a table. */
struct piece {
    uint64_t address;
    uint8_t *data;
    size_t size; /* that is wanted */
    int error;   /* of reading it */
};

enum { PIECE_FILE, PIECE_FUNCTION, PIECE_TABLE, PIECES };

struct code {
    uint64_t address;
    uint32_t identity;
    enum runtime_outcome outcome; /* NAMED as long as nothing speaks against it */
    int error, hash_error;
    uint32_t first_line;
    uint64_t units;
    uint64_t name_hash; /* as CPython has it; 0 if it is no part of the identity */
    uint8_t bytes[PYTHON_READ_MAX];
    struct piece pieces[PIECES];
    struct bytes texts[PIECE_TABLE]; /* in the caller's arena */
};

struct naming {
    const struct python_constants *constants;
    const struct python_layout *layout;
    const struct python_process *process;
    struct runtime_memory *memory;
    struct arena scratch;
    struct code *codes;
    size_t n_codes;
    /* Reads that are made together. */
    struct reader_range ranges[READER_RANGES_MAX];
    int *errors[READER_RANGES_MAX];
    size_t n_ranges;
    size_t n_bytes;
    int failed; /* of the requests: 0 or negative errno */
};

static void batch_flush(struct naming *naming)
{
    if (naming->n_ranges && !naming->failed)
        naming->failed =
            naming->memory->read(naming->memory->context, naming->ranges, naming->n_ranges);
    for (size_t i = 0; i < naming->n_ranges; i++)
        if (naming->failed || naming->ranges[i].error)
            *naming->errors[i] = naming->failed ? naming->failed : naming->ranges[i].error;
    naming->n_ranges = naming->n_bytes = 0;
}

/* *error is set at batch_flush() if not all of it can be read, or at once if it is too much. */
static void batch_add(struct naming *naming, uint64_t address, void *out, size_t size, int *error)
{
    size_t left = naming->memory->bytes_left;
    *error = naming->n_bytes > left || size > left - naming->n_bytes ? -E2BIG : 0;
    if (*error)
        return;
    for (size_t at = 0, part; at < size; at += part) {
        part = size - at < RANGE_MAX ? size - at : RANGE_MAX;
        if (naming->n_ranges == READER_RANGES_MAX || naming->n_bytes + part > 2 * RANGE_MAX)
            batch_flush(naming);
        naming->errors[naming->n_ranges] = error;
        naming->ranges[naming->n_ranges++] = (struct reader_range){
            .address = address + at, .out = (uint8_t *)out + at, .size = (uint32_t)part};
        naming->n_bytes += part;
    }
}

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
    uint64_t word;
    memcpy(&word, bytes + at, sizeof(word));
    return word;
}

static struct code *codes_find(struct naming *naming, const struct record_frame *frame)
{
    uint64_t address = frame->words[0] & RECORD_FRAME_MASK;
    for (size_t i = 0; i < naming->n_codes; i++)
        if (naming->codes[i].address == address &&
            naming->codes[i].identity == (uint32_t)frame->words[2])
            return &naming->codes[i];
    return NULL;
}

static int codes_collect(struct naming *naming, const struct record_frame *frames, size_t n)
{
    size_t max = n < PYTHON_CODES_MAX ? n : PYTHON_CODES_MAX;
    naming->codes = arena_zalloc(&naming->scratch, (max + 1) * sizeof(*naming->codes));
    if (!naming->codes)
        return -ENOMEM;
    for (size_t i = 0; i < n && naming->n_codes < max; i++) {
        if (record_frame_kind(frames[i].words[0]) != FRAME_PYTHON || codes_find(naming, &frames[i]))
            continue;
        naming->codes[naming->n_codes++] =
            (struct code){.address = frames[i].words[0] & RECORD_FRAME_MASK,
                          .identity = (uint32_t)frames[i].words[2]};
    }
    return 0;
}

static size_t name_at(const struct python_layout *layout)
{
    return layout->code_qualname ? layout->code_qualname : layout->code_name;
}

/* The object still has the texts and the table that were read. */
static bool code_holds(const struct python_layout *layout, const struct code *code)
{
    const struct piece *pieces = code->pieces;
    return word_at(code->bytes, layout->code_filename) == pieces[PIECE_FILE].address &&
           word_at(code->bytes, name_at(layout)) == pieces[PIECE_FUNCTION].address &&
           word_at(code->bytes, layout->code_table) == pieces[PIECE_TABLE].address;
}

/* Of a freed object all may be as it was but its first word: this is 0 while it is destroyed, then
 * a link of the allocator. Of an object it is the count of references in the low half; above, from
 * 3.14 on, 16 bits that are 0 and flags. Free-threaded builds have a thread's number there. */
static bool code_lives(const struct python_layout *layout, const struct code *code)
{
    uint64_t references = word_at(code->bytes, 0);
    return layout->free_threaded || ((uint32_t)references && !(references >> 32 & 0xffff));
}

/* final: what is read of its name counts too. */
static enum runtime_outcome code_check(const struct naming *naming, const struct code *code,
                                       bool final)
{
    const struct python_process *process = naming->process;
    const struct python_layout *layout = naming->layout;
    __u64 words[PYTHON_IDENTITY_WORDS_MAX] = {0};
    uint64_t type = process->code_type;
    if (code->error)
        return code->error == -E2BIG ? RUNTIME_FRAME_UNKNOWN : RUNTIME_FRAME_UNREADABLE;
    if (type && word_at(code->bytes, layout->object_type) != type)
        return RUNTIME_FRAME_UNREADABLE;
    memcpy(words, code->bytes + process->code_identity, process->identity_words * sizeof(*words));
    if (!code->identity || !code_lives(layout, code) || (final && !code_holds(layout, code)))
        return RUNTIME_FRAME_STALE;
    if (process->text_hash && !final)
        return RUNTIME_FRAME_NAMED;
    return python_identity(words, process->identity_words, code->name_hash) == code->identity
               ? RUNTIME_FRAME_NAMED
               : RUNTIME_FRAME_STALE;
}

static void code_decode(const struct naming *naming, struct code *code)
{
    const struct python_layout *layout = naming->layout;
    memcpy(&code->first_line, code->bytes + layout->code_first_line, sizeof(code->first_line));
    code->units = layout->code_units ? word_at(code->bytes, layout->code_units) : UNITS_MAX;
    code->pieces[PIECE_FILE].address = word_at(code->bytes, layout->code_filename);
    code->pieces[PIECE_FUNCTION].address = word_at(code->bytes, name_at(layout));
    code->pieces[PIECE_TABLE].address = word_at(code->bytes, layout->code_table);
}

static void codes_read(struct naming *naming)
{
    for (size_t i = 0; i < naming->n_codes; i++) {
        struct code *code = &naming->codes[i];
        batch_add(naming, code->address, code->bytes, naming->layout->code_bytes, &code->error);
    }
    batch_flush(naming);
    for (size_t i = 0; i < naming->n_codes; i++) {
        struct code *code = &naming->codes[i];
        code->outcome = code_check(naming, code, false);
        if (code->outcome == RUNTIME_FRAME_NAMED)
            code_decode(naming, code);
    }
}

static void piece_read(struct naming *naming, struct piece *piece, size_t size)
{
    piece->size = size;
    piece->data = arena_alloc(&naming->scratch, size);
    if (piece->data)
        batch_add(naming, piece->address, piece->data, size, &piece->error);
    else
        piece->error = -E2BIG;
}

/* To the end of the page, where reading fails only if there is nothing. */
static size_t first_size(uint64_t address)
{
    size_t size = PAGE - address % PAGE;
    return size > FIRST_READ ? FIRST_READ : size < HEADER_READ ? HEADER_READ : size;
}

static size_t table_size(const struct python_layout *layout, const struct piece *piece)
{
    uint64_t length = word_at(piece->data, layout->bytes_length);
    return length <= PYTHON_TABLE_MAX ? TABLE_HEADER(layout) + (size_t)length : 0;
}

/* What was not within the first read. A piece that is none is an error. */
static void piece_complete(struct naming *naming, struct piece *piece, bool is_table)
{
    struct bytes read = BYTES(piece->data, piece->size);
    size_t size = piece->error ? 0
                  : is_table   ? table_size(naming->layout, piece)
                               : python_text_size(naming->layout, read);
    if (!size && !piece->error)
        piece->error = -EINVAL;
    else if (size > piece->size)
        piece_read(naming, piece, size);
    else if (size)
        piece->size = size;
}

static void pieces_read(struct naming *naming)
{
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < naming->n_codes; i++) {
            struct code *code = &naming->codes[i];
            for (int at = 0; code->outcome == RUNTIME_FRAME_NAMED && at < PIECES; at++) {
                struct piece *piece = &code->pieces[at];
                if (!round)
                    piece_read(naming, piece, first_size(piece->address));
                else
                    piece_complete(naming, piece, at == PIECE_TABLE);
            }
        }
        batch_flush(naming);
    }
}

/* Whether the objects are still those of the tick. */
static void codes_verify(struct naming *naming)
{
    const struct python_process *process = naming->process;
    for (size_t i = 0; i < naming->n_codes; i++) {
        struct code *code = &naming->codes[i];
        if (code->outcome != RUNTIME_FRAME_NAMED)
            continue;
        uint64_t name = word_at(code->bytes, naming->layout->code_name);
        batch_add(naming, code->address, code->bytes, naming->layout->code_bytes, &code->error);
        if (process->text_hash)
            batch_add(naming, name + process->text_hash, &code->name_hash, sizeof(code->name_hash),
                      &code->hash_error);
    }
    batch_flush(naming);
    for (size_t i = 0; i < naming->n_codes; i++) {
        struct code *code = &naming->codes[i];
        if (code->outcome != RUNTIME_FRAME_NAMED)
            continue;
        code->error = code->error ? code->error : code->hash_error;
        code->outcome = code_check(naming, code, true);
    }
}

static int code_texts(const struct naming *naming, struct code *code, struct arena *arena)
{
    for (int at = 0; code->outcome == RUNTIME_FRAME_NAMED && at < PIECE_TABLE; at++) {
        const struct piece *piece = &code->pieces[at];
        char text[PYTHON_TEXT_MAX + 1];
        if (piece->error) {
            code->outcome =
                piece->error == -E2BIG ? RUNTIME_FRAME_UNKNOWN : RUNTIME_FRAME_UNREADABLE;
            break;
        }
        size_t length =
            python_text(naming->layout, BYTES(piece->data, piece->size), text, sizeof(text));
        const void *copy = arena_dup(arena, text, length + 1);
        if (!copy)
            return -ENOMEM;
        code->texts[at] = BYTES(copy, length);
    }
    return 0;
}

/* A position outside of the object's own code (another thread's copy of it) has no line. */
static struct python_line frame_line(const struct naming *naming, const struct code *code,
                                     const struct record_frame *frame)
{
    const struct piece *table = &code->pieces[PIECE_TABLE];
    size_t header = TABLE_HEADER(naming->layout);
    int64_t lasti = (int32_t)frame->words[1];
    if (table->error || table->size < header || frame->words[1] & PYTHON_FRAME_NO_POSITION ||
        lasti >= (int64_t)(code->units < UNITS_MAX ? code->units : UNITS_MAX))
        return (struct python_line){0};
    struct python_line line =
        python_line(naming->layout->lines, BYTES(table->data + header, table->size - header),
                    code->first_line, lasti);
    if (!line.line && code->first_line <= INT32_MAX)
        line.line = code->first_line; /* an instruction that belongs to none */
    return line;
}

static int frame_name(const struct naming *naming, const struct code *code,
                      const struct record_frame *frame, struct runtime_names *out,
                      struct runtime_name *name)
{
    name->outcome = code->outcome;
    if (code->outcome != RUNTIME_FRAME_NAMED)
        return 0;
    struct python_line line = frame_line(naming, code, frame);
    name->lines = arena_zalloc(out->arena, sizeof(*name->lines));
    if (!name->lines)
        return -ENOMEM;
    name->n_lines = 1;
    *name->lines =
        (struct runtime_line){.function = code->texts[PIECE_FUNCTION],
                              .file = code->texts[PIECE_FILE],
                              .line = line.line,
                              .column = line.column,
                              .start_line = code->first_line <= INT32_MAX ? code->first_line : 0};
    return 0;
}

static int naming_run(struct naming *naming, const struct record_frame *frames, size_t n,
                      struct runtime_names *out)
{
    int error = codes_collect(naming, frames, n);
    if (error)
        return error;
    codes_read(naming);
    pieces_read(naming);
    codes_verify(naming);
    error = naming->failed;
    for (size_t i = 0; !error && i < naming->n_codes; i++)
        error = code_texts(naming, &naming->codes[i], out->arena);
    for (size_t i = 0; !error && i < n; i++) {
        const struct code *code = codes_find(naming, &frames[i]);
        out->names[i] = (struct runtime_name){.outcome = RUNTIME_FRAME_UNKNOWN};
        if (code && record_frame_kind(frames[i].words[0]) == FRAME_PYTHON &&
            !runtime_memory_is_late(naming->memory))
            error = frame_name(naming, code, &frames[i], out, &out->names[i]);
    }
    return error;
}

int python_names(const struct python_constants *constants, const struct python_process *process,
                 struct runtime_memory *memory, const struct record_frame *frames, size_t n,
                 struct runtime_names *out)
{
    struct naming naming = {
        .constants = constants, .layout = &constants->layout, .process = process, .memory = memory};
    arena_init(&naming.scratch, SCRATCH_MAX);
    int error = naming_run(&naming, frames, n, out);
    arena_close(&naming.scratch);
    return error;
}

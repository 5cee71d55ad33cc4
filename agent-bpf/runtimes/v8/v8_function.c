/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function that runs has its name in the ScopeInfo, behind its variables; others have it in place
 * of that. The order of a ScopeInfo's words: flags, parameters, n variables in the context; since
 * V8 12.8 start and end in the script; of a module the number of its variables; names of the n (or,
 * of many, a table), what they are; what else flags tell of. Source: V8's scope-info.tq.
 */
#include "agent-bpf/runtimes/v8/v8_function.h"
#include <errno.h>

#define SCOPE_WORDS           8 /* offset of the first */
#define SCOPE_COUNT           2 /* index: number of variables */
#define SCOPE_START           3 /* index, where scope_first is behind it */
#define LOCALS_MAX            4096
#define LOCALS_INLINE         75 /* as many and more have a table of names */
#define SAVED_VARIABLE        (1u << 10)
#define FUNCTION_NAME         (3u << 12)
#define INFERRED_NAME         (1u << 14)
#define BYTECODE_LENGTH       8
#define BYTECODE_CONSTANTS    16 /* up to V8 12 */
#define BYTECODE_TABLE        24
#define BYTECODE_TABLE_BEFORE 32 /* up to V8 12 */
#define BYTECODES_MAX         (1u << 20)
#define DATA_WORDS            4 /* in which what leads to a BytecodeArray has it */

int v8_function_shared(struct v8_heap *heap, uint64_t shared, struct v8_shared *out)
{
    const struct v8_file *file = heap->file;
    uint64_t words[8];
    int error = v8_heap_field(heap, shared, 0, words, file->shared_end);
    if (!error)
        error = v8_heap_check(heap, shared, file->types.shared_function_info);
    if (error)
        return error;
    out->data = words[file->shared_data / 8];
    out->name = words[file->shared_name / 8];
    out->script = words[file->process.shared_script / 8];
    out->literal = (int32_t)(words[file->process.shared_literal / 8] >> 32);
    return 0;
}

static int scope_word(struct v8_heap *heap, uint64_t scope, uint32_t index, uint64_t *word)
{
    return v8_heap_word(heap, scope, SCOPE_WORDS + 8 * (size_t)index, word);
}

static int scope_is_string(struct v8_heap *heap, uint64_t scope, uint32_t index, bool *is_string)
{
    uint64_t word;
    int error = scope_word(heap, scope, index, &word);
    *is_string = false;
    return error || !v8_heap_is_object(word) ? error : v8_text_is_string(heap, word, is_string);
}

/* Index of the word behind the variables. */
static int scope_behind_locals(struct v8_heap *heap, uint64_t scope, uint32_t *index)
{
    uint64_t word;
    bool inlined = true;
    int error = scope_word(heap, scope, SCOPE_COUNT, &word);
    if (error)
        return error;
    uint32_t n = (uint32_t)v8_heap_smi(word), at = heap->file->scope_first;
    if (!v8_heap_is_smi(word) || n > LOCALS_MAX)
        return -EFAULT;
    error = scope_word(heap, scope, at, &word);
    if (error)
        return error;
    if (n && v8_heap_is_smi(word)) /* a module's number of variables */
        at++;
    if (n >= LOCALS_INLINE)
        error = scope_is_string(heap, scope, at, &inlined);
    *index = at + (inlined ? n : 1) + n;
    return error;
}

static int scope_text(struct v8_heap *heap, uint64_t scope, uint32_t index,
                      char name[V8_TEXT_MAX + 1])
{
    uint64_t word;
    bool is_string;
    int error = scope_word(heap, scope, index, &word);
    *name = '\0';
    if (error || !v8_heap_is_object(word))
        return error;
    error = v8_text_is_string(heap, word, &is_string);
    return error || !is_string ? error : v8_text_copy(heap, word, name);
}

/* Where the function begins and ends in the script, from two words on. */
static int scope_range(struct v8_heap *heap, uint64_t scope, uint32_t index,
                       struct v8_function *out)
{
    uint64_t start, end;
    int error = scope_word(heap, scope, index, &start);
    if (!error)
        error = scope_word(heap, scope, index + 1, &end);
    if (error || !v8_heap_is_smi(start) || !v8_heap_is_smi(end))
        return error;
    if (v8_heap_smi(start) >= 0 && v8_heap_smi(start) <= v8_heap_smi(end)) {
        out->start = v8_heap_smi(start);
        out->end = v8_heap_smi(end);
    }
    return 0;
}

/* Numbers that this version has in front of a name: none, or one or two. */
static int scope_skip_numbers(struct v8_heap *heap, uint64_t scope, uint32_t *index)
{
    uint64_t word;
    bool is_string;
    for (int i = 0; i < 2; i++) {
        int error = scope_word(heap, scope, *index, &word);
        if (error || !v8_heap_is_smi(word) || !word)
            return error;
        error = scope_is_string(heap, scope, *index + 1, &is_string);
        if (error || !is_string)
            return error;
        ++*index;
    }
    return 0;
}

static int scope_describe(struct v8_heap *heap, uint64_t scope, struct v8_function *out)
{
    uint64_t flags;
    uint32_t at;
    int error = scope_word(heap, scope, 0, &flags);
    if (!error)
        error = scope_behind_locals(heap, scope, &at);
    if (error)
        return error;
    if (v8_heap_is_smi(flags))
        flags >>= 32;
    if (flags & SAVED_VARIABLE)
        at++;
    if (flags & (FUNCTION_NAME | INFERRED_NAME))
        error = scope_skip_numbers(heap, scope, &at);
    if (!error && flags & FUNCTION_NAME) {
        error = scope_text(heap, scope, at, out->name);
        at += 2;
    }
    if (!error && flags & INFERRED_NAME) {
        if (!*out->name)
            error = scope_text(heap, scope, at, out->name);
        at++;
    }
    if (error)
        return error;
    bool in_front = heap->file->scope_first > SCOPE_START;
    return scope_range(heap, scope, in_front ? SCOPE_START : at, out);
}

int v8_function_describe(struct v8_heap *heap, const struct v8_shared *shared,
                         struct v8_function *out)
{
    uint16_t type;
    *out = (struct v8_function){.start = -1, .end = -1};
    if (!v8_heap_is_object(shared->name))
        return 0;
    int error = v8_heap_type(heap, shared->name, &type);
    if (error)
        return error;
    if (type < heap->file->types.first_nonstring)
        return v8_text_copy(heap, shared->name, out->name);
    return type == heap->file->types.scope_info ? scope_describe(heap, shared->name, out) : 0;
}

/* A word of a Code or an InterpreterData that is a BytecodeArray, or leads to one. */
static int data_search(struct v8_heap *heap, uint64_t object, uint64_t *bytecode, int depth)
{
    const struct v8_types *types = &heap->file->types;
    uint16_t type;
    int error = v8_heap_type(heap, object, &type);
    if (error)
        return error == -EAGAIN ? error : -ENOENT;
    if (type == types->bytecode_array) {
        *bytecode = object;
        return 0;
    }
    if (!depth || (type != types->code && type != types->interpreter_data &&
                   (!types->baseline_data || type != types->baseline_data)))
        return -ENOENT;
    for (size_t i = 1; i <= DATA_WORDS; i++) {
        uint64_t word;
        error = v8_heap_word(heap, object, 8 * i, &word);
        if (!error)
            error =
                v8_heap_is_object(word) ? data_search(heap, word, bytecode, depth - 1) : -ENOENT;
        if (error != -ENOENT)
            return error;
    }
    return -ENOENT;
}

int v8_function_bytecode(struct v8_heap *heap, uint64_t data, uint64_t *bytecode)
{
    return v8_heap_is_object(data) ? data_search(heap, data, bytecode, 2) : -ENOENT;
}

int v8_function_bytecode_length(struct v8_heap *heap, uint64_t bytecode, uint32_t *length)
{
    int error = v8_heap_count(heap, bytecode, BYTECODE_LENGTH, length);
    return error ? error : *length <= BYTECODES_MAX ? 0 : -EFAULT;
}

/* The table is one word behind that of exception handlers, an array of the same kind, or one in
 * front of it. The constants, in an array of words, lie in front of both, or behind them. */
int v8_function_positions(struct v8_heap *heap, uint64_t bytecode, uint64_t *table)
{
    uint64_t constants;
    uint32_t length;
    int error = v8_heap_word(heap, bytecode, BYTECODE_CONSTANTS, &constants);
    if (error)
        return error;
    error = v8_heap_is_object(constants) ? v8_heap_length(heap, constants, &length) : -EFAULT;
    if (error == -EAGAIN)
        return error;
    error = v8_heap_word(heap, bytecode, error ? BYTECODE_TABLE : BYTECODE_TABLE_BEFORE, table);
    if (!error)
        error = v8_heap_is_object(*table) ? v8_heap_bytes(heap, *table, &length) : -ENOENT;
    return error == -EFAULT ? -ENOENT : error;
}

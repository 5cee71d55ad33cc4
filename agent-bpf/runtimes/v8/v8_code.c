/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions begin at a multiple of an alignment, behind a header whose object names the Code,
 * which names the start of its instructions. So the code of an address is found by going back from
 * it, and is proved by two pointers and a range. (In V8 before 11 the Code is the header.)
 */
#include "agent-bpf/runtimes/v8/v8_code.h"
#include "agent-bpf/runtimes/v8/v8_positions.h"
#include <errno.h>

#define WINDOW_FIRST 2048
#define WINDOW_MAX   (32u << 10)
#define TABLE_MAX    (128u << 10) /* bytes of positions */
#define INLINED_SIZE 16
#define NO_FUNCTION  (-1)
#define WRAPPED_AT   8

static int code_fields(struct v8_heap *heap, uint64_t object, struct v8_code *code)
{
    const struct v8_file *file = heap->file;
    uint32_t flags;
    int error = v8_heap_check(heap, object, file->types.code);
    if (!error)
        error = v8_heap_field(heap, object, file->code_size, &code->size, sizeof(code->size));
    if (!error)
        error = v8_heap_field(heap, object, file->code_flags, &flags, sizeof(flags));
    if (!error)
        error = v8_heap_word(heap, object, file->code_data, &code->data);
    if (!error)
        error = v8_heap_word(heap, object, file->code_table, &code->table);
    if (error)
        return error;
    code->object = object;
    code->kind = flags & file->kind_mask;
    return 0;
}

/* The Code whose instructions begin at start; -ENOENT: there is none. */
static int code_at(struct v8_heap *heap, uint64_t start, struct v8_code *code)
{
    const struct v8_file *file = heap->file;
    uint64_t header = start - file->code_header, words[2], address = start;
    int error = v8_heap_read(heap, header, words, sizeof(words));
    if (error)
        return error;
    bool split = file->code_start;
    if (!v8_heap_is_object(words[0]) || (split && !v8_heap_is_object(words[1])))
        return -ENOENT;
    error =
        v8_heap_check(heap, header + 1, split ? file->types.instruction_stream : file->types.code);
    if (!error)
        error = code_fields(heap, split ? words[1] : header + 1, code);
    if (!error && split)
        error = v8_heap_word(heap, words[1], file->code_start, &address);
    code->start = start;
    if (error == -EAGAIN || error == -E2BIG)
        return error;
    return error || address != start ? -ENOENT : 0;
}

/* By where it was the last time. */
static int find_first(struct v8_heap *heap, uint64_t pc, struct v8_code_search *search)
{
    int error = code_at(heap, search->first, &search->code);
    search->found = !error && pc - search->code.start < search->code.size;
    if (error != -EAGAIN && !search->found)
        search->first = 0;
    return error ? error : search->found ? 0 : -ENOENT;
}

int v8_code_find(struct v8_heap *heap, uint64_t pc, struct v8_code_search *search)
{
    uint64_t align = heap->file->code_align;
    if (search->found)
        return code_at(heap, search->code.start, &search->code);
    int known = search->first ? find_first(heap, pc, search) : -ENOENT;
    if (!known || known == -EAGAIN || known == -E2BIG)
        return known;
    if (!search->at) {
        search->at = pc & ~(align - 1);
        search->window = WINDOW_FIRST;
    }
    for (; pc - search->at < V8_CODE_BYTES_MAX && search->at > V8_CODE_BYTES_MAX;
         search->at -= align) {
        int error = code_at(heap, search->at, &search->code);
        if (error == -EAGAIN) {
            v8_heap_want(heap, search->at - search->window, search->window);
            if (search->window < WINDOW_MAX)
                search->window *= 2;
        }
        if (!error && pc - search->code.start >= search->code.size)
            return -ENOENT;
        if (error != -ENOENT) {
            search->found = !error;
            return error;
        }
    }
    return -ENOENT;
}

bool v8_code_is_baseline(const struct v8_heap *heap, const struct v8_code *code)
{
    return code->kind == heap->file->kind_baseline;
}

/* The bytes of an array of bytes: 0, or as v8_heap.h says. bytes: TABLE_MAX of room. */
static int table_read(struct v8_heap *heap, uint64_t table, struct bytes *out)
{
    static uint8_t bytes[TABLE_MAX]; /* one thread */
    uint32_t length;
    int error = v8_heap_is_object(table) ? v8_heap_bytes(heap, table, &length) : -ENOENT;
    if (error)
        return error == -EFAULT ? -ENOENT : error;
    if (length > TABLE_MAX)
        return -ENOENT;
    *out = BYTES(bytes, length);
    return v8_heap_read(heap, table - 1 + V8_ARRAY_DATA, bytes, length);
}

int v8_code_position(struct v8_heap *heap, uint64_t bytecode, uint32_t offset, int32_t *position)
{
    uint64_t table;
    struct bytes bytes;
    int64_t found;
    *position = V8_POSITION_UNKNOWN;
    int error = v8_function_positions(heap, bytecode, &table);
    if (!error)
        error = table_read(heap, table, &bytes);
    if (error)
        return error == -ENOENT ? 0 : error;
    if (v8_positions_find(heap->file, bytes, offset, &found) && !V8_POSITION_EXTERNAL(found))
        *position = V8_POSITION_SCRIPT(found);
    return 0;
}

int v8_code_bytecode(struct v8_heap *heap, const struct v8_code *code, uint64_t bytecode,
                     uint64_t offset, int32_t *out)
{
    static uint8_t codes[TABLE_MAX];
    struct bytes table;
    uint32_t length;
    *out = -1;
    int error = table_read(heap, code->table, &table);
    if (error)
        return error == -ENOENT ? 0 : error;
    error = v8_function_bytecode_length(heap, bytecode, &length);
    if (!error && length <= sizeof(codes))
        error = v8_heap_read(heap, bytecode - 1 + heap->file->process.bytecode_data, codes, length);
    if (error || length > sizeof(codes))
        return error == -EFAULT ? 0 : error;
    if (!v8_positions_baseline(heap->file, table, BYTES(codes, length), offset, out))
        *out = -1;
    return 0;
}

static int deopt_shared(struct v8_heap *heap, const struct v8_code *code, uint64_t *shared)
{
    const struct v8_file *file = heap->file;
    int error = v8_heap_element(heap, code->data, file->deopt_shared, shared);
    if (!error && file->deopt_wrapped) {
        error = v8_heap_check(heap, *shared, file->types.shared_function_info_wrapper);
        if (!error)
            error = v8_heap_word(heap, *shared, WRAPPED_AT, shared);
    }
    if (!error)
        error = v8_heap_check(heap, *shared, file->types.shared_function_info);
    return error;
}

struct inlined {
    int64_t position; /* of the call, in what it is inlined in */
    int32_t function; /* index of its literal */
    uint32_t reserved;
};

_Static_assert(sizeof(struct inlined) == INLINED_SIZE, "as V8 has it");

static int inlined_read(struct v8_heap *heap, const struct v8_code *code, uint32_t id,
                        struct inlined *inlined, uint64_t *shared)
{
    const struct v8_file *file = heap->file;
    uint64_t array, literals;
    uint32_t length;
    int error = v8_heap_element(heap, code->data, file->deopt_inlining, &array);
    if (!error)
        error = v8_heap_bytes(heap, array, &length);
    if (error)
        return error;
    if (!id || id > length / INLINED_SIZE)
        return -EFAULT;
    error = v8_heap_field(heap, array, V8_ARRAY_DATA + (id - 1) * (size_t)INLINED_SIZE, inlined,
                          sizeof(*inlined));
    if (error)
        return error;
    if (inlined->function == NO_FUNCTION)
        return deopt_shared(heap, code, shared);
    error = v8_heap_element(heap, code->data, file->deopt_literals, &literals);
    if (!error)
        error = v8_heap_element(heap, literals, (uint32_t)inlined->function, shared);
    if (!error)
        error = v8_heap_check(heap, *shared, file->types.shared_function_info);
    return error;
}

/* Whose code it is; 0: V8 needs no data for it, so nothing tells. */
static int code_owner(struct v8_heap *heap, const struct v8_code *code, uint64_t *shared)
{
    uint32_t length;
    int error = deopt_shared(heap, code, shared);
    if (error != -EFAULT)
        return error;
    *shared = 0;
    error = v8_heap_words(heap, code->data, &length);
    if (error && error != -EFAULT)
        return error;
    return error || length ? -ENOENT : 0;
}

int v8_code_calls(struct v8_heap *heap, const struct v8_code *code, uint64_t offset,
                  struct v8_call *calls, size_t *n)
{
    struct bytes table;
    int64_t position = 0;
    bool known = false;
    uint32_t before = UINT32_MAX;
    uint64_t owner;
    *n = 0;
    int error = code_owner(heap, code, &owner);
    if (error)
        return error;
    error = table_read(heap, code->table, &table);
    if (error && error != -ENOENT)
        return error;
    bool has_table = !error && table.len;
    if (has_table)
        known = v8_positions_find(heap->file, table, offset, &position);
    while (known && V8_POSITION_INLINED(position) && *n < V8_INLINED_MAX) {
        struct inlined inlined;
        uint32_t id = V8_POSITION_INLINED(position);
        struct v8_call *call = &calls[*n];
        error = id < before ? inlined_read(heap, code, id, &inlined, &call->shared) : -EFAULT;
        if (error) /* what a call is inlined in comes earlier */
            return error == -EFAULT ? -ENOENT : error;
        before = id;
        call->position =
            V8_POSITION_EXTERNAL(position) ? V8_POSITION_UNKNOWN : V8_POSITION_SCRIPT(position);
        position = inlined.position;
        ++*n;
    }
    struct v8_call *outer = &calls[(*n)++];
    outer->shared = owner;
    outer->position = has_table ? V8_POSITION_AT_START : V8_POSITION_UNKNOWN;
    if (known)
        outer->position =
            V8_POSITION_EXTERNAL(position) ? V8_POSITION_UNKNOWN : V8_POSITION_SCRIPT(position);
    return 0;
}

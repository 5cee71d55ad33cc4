/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread finds its state by a pthread key. Where the C library keeps the values of keys is not
 * told by any table, so it is looked for: the states of some threads are known from the
 * interpreter's list, with each thread's pthread_self(), which is its thread pointer on x86-64. The
 * place is right if it has the state of each of these threads.
 */
#include "agent-bpf/runtimes/python/python_attach.h"
#include <errno.h>

#define DESCRIPTOR_BYTES 2304 /* of glibc's struct pthread up to the keys' second level, 0x900 */
#define RUNTIME_BYTES    8192 /* of _PyRuntime: where the key is */
#define KEYS_MAX         1024
#define KEYS_TRIED_MAX   24   /* seen: fewer than 10 */
#define BASES_MAX        3    /* threads that places are looked for in */
#define CALLS_MAX        2000 /* of the reader: a descriptor may be full of what looks like it */
#define KEY_VALUE_GLIBC  16   /* {sequence number, value} */
#define KEYS_A_BLOCK     32
#define MUSL_ARRAY       128 /* musl's struct pthread: of the pointer to the values */
#define MEMBERS_MAX      32
#define MEMBER_BYTES     40
#define TYPE_BASICSIZE   32 /* in PyTypeObject */
#define TYPE_MEMBERS     240
#define MEMBER_NAME_MAX  16

struct thread { /* of the interpreter's list */
    uint64_t state;
    uint64_t pointer; /* pthread_self() */
};

struct attach {
    const struct python_constants *constants;
    const struct python_layout *layout;
    uint64_t bias;
    struct runtime_memory *memory;
    struct python_process *process;
    struct thread threads[PYTHON_ATTACH_THREADS];
    uint32_t n_threads;
    uint32_t base; /* the thread that places are looked for in */
    uint32_t n_calls;
};

static int attach_read_ranges(struct attach *attach, struct reader_range *ranges, size_t n)
{
    if (!n)
        return 0;
    if (attach->n_calls == CALLS_MAX)
        return -EAGAIN;
    attach->n_calls++;
    int error = attach->memory->read(attach->memory->context, ranges, n);
    return error == -E2BIG ? -EAGAIN : error;
}

static int attach_read(struct attach *attach, uint64_t address, void *out, size_t size)
{
    struct reader_range range = {.address = address, .out = out, .size = (uint32_t)size};
    int error = attach_read_ranges(attach, &range, 1);
    return error ? error : range.error;
}

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
    uint64_t word;
    memcpy(&word, bytes + at, sizeof(word));
    return word;
}

static bool threads_have(const struct attach *attach, uint64_t state)
{
    for (uint32_t i = 0; i < attach->n_threads; i++)
        if (attach->threads[i].state == state)
            return true;
    return false;
}

/* The threads of an interpreter, from its head of their list on. */
static int threads_add(struct attach *attach, uint64_t interpreter, uint64_t state)
{
    const struct python_layout *layout = attach->layout;
    uint8_t bytes[PYTHON_READ_MAX] = {0};
    uint32_t size = attach->process->thread_bytes;
    while (state && attach->n_threads < PYTHON_ATTACH_THREADS && !threads_have(attach, state)) {
        int error = attach_read(attach, state, bytes, size);
        if (error)
            return error == -EFAULT ? 0 : error;
        if (word_at(bytes, layout->thread_interpreter) != interpreter)
            return 0;
        uint64_t pointer = word_at(bytes, attach->process->thread_id);
        if (pointer && pointer % 8 == 0)
            attach->threads[attach->n_threads++] = (struct thread){state, pointer};
        state = word_at(bytes, layout->thread_next);
    }
    return 0;
}

static int threads_find(struct attach *attach)
{
    const struct python_layout *layout = attach->layout;
    uint64_t runtime = attach->constants->runtime + attach->bias, interpreter = 0;
    int error = attach_read(attach, runtime + layout->interpreters_head, &interpreter, 8);
    for (int i = 0; !error && interpreter && i < PYTHON_ATTACH_INTERPRETERS; i++) {
        uint64_t next = 0, state = 0;
        struct reader_range ranges[] = {
            {.address = interpreter + layout->interpreter_next, .out = &next, .size = 8},
            {.address = interpreter + layout->threads_head, .out = &state, .size = 8}};
        error = attach_read_ranges(attach, ranges, 2);
        if (error || ranges[0].error || ranges[1].error)
            break;
        error = threads_add(attach, interpreter, state);
        interpreter = next;
    }
    return error ? error : attach->n_threads ? 0 : -EAGAIN;
}

/* The state that a thread has at this place; 0: none. */
static uint64_t slot_read(struct attach *attach, uint64_t pointer, int64_t slot, uint32_t in_array)
{
    uint64_t at = pointer + (uint64_t)slot, state = 0;
    if (in_array != PYTHON_SLOT_DIRECT) {
        if (attach_read(attach, at, &at, sizeof(at)) || !at)
            return 0;
        at += in_array;
    }
    return attach_read(attach, at, &state, sizeof(state)) ? 0 : state;
}

/* A thread may have the state of another interpreter there: then that one is of this thread too. */
static bool slot_is_right(struct attach *attach, int64_t slot, uint32_t in_array)
{
    uint32_t n_right = 0;
    for (uint32_t i = 0; i < attach->n_threads; i++) {
        uint64_t pointer = attach->threads[i].pointer, own = 0;
        uint64_t state = slot_read(attach, pointer, slot, in_array);
        if (state == attach->threads[i].state) {
            n_right++;
            continue;
        }
        if (state && !attach_read(attach, state + attach->process->thread_id, &own, 8) &&
            own == pointer)
            continue;
        if (state) /* that of a thread which has ended meanwhile is unreadable or 0 */
            return false;
    }
    if (n_right) {
        attach->process->slot = slot;
        attach->process->slot_in_array = in_array;
    }
    return n_right > 0;
}

/* In the descriptor itself: glibc has the first keys there. */
static bool slot_find_direct(struct attach *attach, const uint8_t *descriptor, size_t size,
                             uint32_t key)
{
    for (size_t at = 0x200; key < KEYS_A_BLOCK && at + 8 <= size; at += 8) {
        size_t value = KEY_VALUE_GLIBC * (size_t)key + 8;
        if (at >= value && word_at(descriptor, at) == attach->threads[attach->base].state &&
            slot_is_right(attach, (int64_t)at, PYTHON_SLOT_DIRECT))
            return true;
    }
    return false;
}

/* Through a pointer of the descriptor: glibc has one for each KEYS_A_BLOCK keys, musl one. */
static bool slot_find_array(struct attach *attach, const uint8_t *descriptor, size_t size,
                            uint32_t key)
{
    uint64_t states[DESCRIPTOR_BYTES / 8] = {0};
    struct reader_range ranges[DESCRIPTOR_BYTES / 8];
    uint32_t in_array = KEY_VALUE_GLIBC * (key % KEYS_A_BLOCK) + 8;
    size_t first = 0x400, n = 0;
    if (slot_is_right(attach, MUSL_ARRAY, 8 * key))
        return true;
    for (size_t at = first; at + 8 <= size; at += 8, n++)
        ranges[n] = (struct reader_range){
            .address = word_at(descriptor, at) + in_array, .out = &states[n], .size = 8};
    if (n > READER_RANGES_MAX)
        n = READER_RANGES_MAX;
    if (attach_read_ranges(attach, ranges, n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!ranges[i].error && states[i] == attach->threads[attach->base].state &&
            slot_is_right(attach, (int64_t)(first + 8 * i), in_array))
            return true;
    return false;
}

struct slot_search {
    uint8_t runtime[RUNTIME_BYTES]; /* the beginning of _PyRuntime */
    size_t runtime_size;
    uint8_t descriptor[DESCRIPTOR_BYTES]; /* of the base thread */
    size_t descriptor_size;
    bool tried[KEYS_MAX];
    uint32_t n_tried;
};

static bool slot_find(struct attach *attach, struct slot_search *search, uint32_t key)
{
    if (key >= KEYS_MAX || search->tried[key] || search->n_tried == KEYS_TRIED_MAX)
        return false;
    search->tried[key] = true;
    search->n_tried++;
    return slot_find_direct(attach, search->descriptor, search->descriptor_size, key) ||
           slot_find_array(attach, search->descriptor, search->descriptor_size, key);
}

/* As much of it as can be read; 0: nothing. */
static size_t attach_read_some(struct attach *attach, uint64_t address, uint8_t *out, size_t size)
{
    while (size >= 512 && attach_read(attach, address, out, size))
        size /= 2;
    return size >= 512 ? size : 0;
}

/* autoTSSkey is {1, key}. Builds differ in its place, so after the usual one each such pair is
 * tried. */
static bool key_find_in(struct attach *attach, struct slot_search *search)
{
    for (size_t i = 0; i <= search->runtime_size / 4; i++) {
        size_t at = i ? 4 * (i - 1) : attach->layout->runtime_key;
        uint32_t pair[2] = {0};
        if (at + sizeof(pair) <= search->runtime_size)
            memcpy(pair, search->runtime + at, sizeof(pair));
        if (pair[0] == 1 && slot_find(attach, search, pair[1]))
            return true;
    }
    return false;
}

/* The oldest thread, the last of the list, comes first: one that was just made has not stored its
 * state yet. */
static int key_find(struct attach *attach)
{
    struct slot_search search;
    uint64_t address = attach->constants->runtime + attach->bias;
    search.runtime_size = attach_read_some(attach, address, search.runtime, sizeof(search.runtime));
    for (uint32_t i = 0; i < attach->n_threads && i < BASES_MAX; i++) {
        attach->base = attach->n_threads - 1 - i;
        search.n_tried = 0;
        memset(search.tried, 0, sizeof(search.tried));
        search.descriptor_size = attach_read_some(attach, attach->threads[attach->base].pointer,
                                                  search.descriptor, sizeof(search.descriptor));
        if (search.descriptor_size && key_find_in(attach, &search))
            return 0;
    }
    return -EAGAIN;
}

/* A member that the type tells: its offset as the layout has it, or it is not checked. */
static bool member_agrees(const struct python_layout *layout, const char *name, uint64_t offset)
{
    const struct {
        const char *name;
        uint32_t offset;
    } known[] = {
        {"co_filename", layout->code_filename}, {"co_name", layout->code_name},
        {"co_qualname", layout->code_qualname}, {"co_linetable", layout->code_table},
        {"co_lnotab", layout->code_table},      {"co_firstlineno", layout->code_first_line}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(name, known[i].name))
            return known[i].offset == offset;
    return true;
}

static int members_check(struct attach *attach, uint64_t members)
{
    uint8_t bytes[MEMBERS_MAX * MEMBER_BYTES];
    char names[MEMBERS_MAX][MEMBER_NAME_MAX + 1] = {{0}};
    struct reader_range ranges[MEMBERS_MAX];
    size_t n = 0, size = sizeof(bytes);
    while (size >= 8 * MEMBER_BYTES && attach_read(attach, members, bytes, size))
        size /= 2;
    for (; (n + 1) * MEMBER_BYTES <= size && word_at(bytes, n * MEMBER_BYTES); n++)
        ranges[n] = (struct reader_range){
            .address = word_at(bytes, n * MEMBER_BYTES), .out = names[n], .size = MEMBER_NAME_MAX};
    int error = n ? attach_read_ranges(attach, ranges, n) : 0;
    for (size_t i = 0; !error && i < n; i++)
        if (!ranges[i].error &&
            !member_agrees(attach->layout, names[i], word_at(bytes, i * MEMBER_BYTES + 16)))
            return -ENOTSUP;
    return error;
}

/* What the type of code objects says of them. */
static int layout_check(struct attach *attach)
{
    uint64_t type = attach->constants->code_type + attach->bias, basicsize = 0, members = 0;
    struct reader_range ranges[] = {
        {.address = type + TYPE_BASICSIZE, .out = &basicsize, .size = 8},
        {.address = type + TYPE_MEMBERS, .out = &members, .size = 8}};
    if (!attach->constants->code_type || !attach->layout->code_size)
        return 0;
    int error = attach_read_ranges(attach, ranges, 2);
    if (error || ranges[0].error || ranges[1].error)
        return error ? error : -EAGAIN;
    if (basicsize != attach->layout->code_size)
        return -ENOTSUP;
    return members ? members_check(attach, members) : 0;
}

static bool offset_plausible(int64_t offset)
{
    return offset && offset > -(INT64_C(1) << 32) && offset < INT64_C(1) << 32;
}

/* Only glibc's form of dynamic variables: without it the key alone is used. */
static void current_locate(struct attach *attach)
{
    const struct python_constants *constants = attach->constants;
    struct context_variable *current = &attach->process->current;
    uint64_t words[2] = {0};
    int64_t offset = constants->current_offset;
    *current = (struct context_variable){0};
    if (constants->current == PYTHON_CURRENT_NONE)
        return;
    size_t size = constants->current == PYTHON_CURRENT_MODULE ? 16 : 8;
    if (constants->current != PYTHON_CURRENT_FIXED) {
        if (attach_read(attach, constants->current_at + attach->bias, words, size))
            return;
        offset = (int64_t)words[size / 8 - 1];
    }
    if (constants->current == PYTHON_CURRENT_MODULE) {
        if (!words[0] || words[0] > 1u << 20 || words[1] > 1u << 30)
            return;
        *current = (struct context_variable){.thread_local_model = THREAD_LOCAL_DYNAMIC,
                                             .dtv_entry_size = 16,
                                             .dtv_offset = 8,
                                             .module = words[0],
                                             .offset = offset};
    } else if (offset_plausible(offset)) {
        *current =
            (struct context_variable){.thread_local_model = THREAD_LOCAL_STATIC, .offset = offset};
    }
}

static void ranges_place(const struct attach *attach)
{
    for (int i = 0; i < RUNTIME_EVALUATION_MAX; i++) {
        const struct runtime_range *range = &attach->constants->evaluation[i];
        if (range->end > range->start)
            attach->process->evaluation[i] =
                (struct runtime_range){range->start + attach->bias, range->end + attach->bias};
    }
}

/* 0: one is not exported, or lies too far off. */
static int32_t from_code_type(const struct python_constants *constants, uint64_t type)
{
    int64_t distance = (int64_t)(type - constants->code_type);
    bool known = constants->code_type && type && distance == (int32_t)distance;
    return known ? (int32_t)distance : 0;
}

static void types_place(const struct attach *attach)
{
    const struct python_constants *constants = attach->constants;
    struct python_process *process = attach->process;
    process->code_type = constants->code_type ? constants->code_type + attach->bias : 0;
    process->text_type = from_code_type(constants, constants->text_type);
    process->number_type = from_code_type(constants, constants->number_type);
}

int python_attach(const struct python_constants *constants, uint64_t bias,
                  struct runtime_memory *memory, struct python_process *process,
                  enum runtime_refusal *why)
{
    struct attach attach = {.constants = constants,
                            .layout = &constants->layout,
                            .bias = bias,
                            .memory = memory,
                            .process = process};
    *process = constants->layout.process;
    *why = RUNTIME_REFUSAL_NOT_READY;
    int error = threads_find(&attach);
    error = error ? error : layout_check(&attach);
    if (error == -ENOTSUP)
        *why = RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
    error = error ? error : key_find(&attach);
    if (error == -EFAULT)
        error = -EAGAIN;
    if (error)
        return error;
    current_locate(&attach);
    ranges_place(&attach);
    types_place(&attach);
    *why = RUNTIME_REFUSAL_NONE;
    return 0;
}

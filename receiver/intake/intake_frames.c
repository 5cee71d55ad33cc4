/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rowids are remembered beside what they stand for (the tags of the process table), so that a frame
 * of a known executable costs no SQL. Names are asked for when a stack is new, not when it is
 * exported: by then the process may be gone.
 */
#include "receiver/intake/intake_frames.h"
#include "receiver/intake/intake_code.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define ASKED_SLOTS 65536 /* names asked for lately; a collision asks twice, which is harmless */

struct wanted {
    uint8_t identity[16];
    uint64_t address;
    int64_t executable;
};

struct frames {
    struct store *store;
    struct process_table *table;
    struct code *code;
    size_t n;
    struct frame frames[FRAMES_MAX];
    const uint8_t *identities[FRAMES_MAX]; /* of frames[i]'s executable; NULL: names not wanted */
    uint8_t kernel_identity[16];
    struct buf wanted;           /* struct wanted */
    uint64_t asked[ASKED_SLOTS]; /* or known */
};

int frames_open(struct store *store, struct process_table *table, struct frames **framesp)
{
    struct frames *frames = calloc(1, sizeof(*frames));
    if (!frames)
        return -ENOMEM;
    frames->store = store;
    frames->table = table;
    frames->wanted = BUF_INIT(1 << 20);
    int error = code_open(&frames->code);
    if (error) {
        frames_close(frames);
        return error;
    }
    *framesp = frames;
    return 0;
}

void frames_close(struct frames *frames)
{
    if (!frames)
        return;
    buf_close(&frames->wanted);
    code_close(frames->code);
    free(frames);
}

void frames_forget(struct frames *frames)
{
    process_table_forget_tags(frames->table);
    code_forget(frames->code);
    memset(frames->asked, 0, sizeof(frames->asked)); /* names may have been rolled back too */
}

/* Rows of executables */

/* The file as the kernel and the process see it; more is known once the symbolizer has opened it,
 * perhaps already: its answer may come before the first sample that is kept. */
static int executable_row(struct frames *frames, const uint8_t identity[16], const char *path,
                          int64_t *tag)
{
    if (*tag)
        return 0;
    struct stacks *stacks = store_stacks(frames->store);
    int error = stacks_executable(stacks, identity, tag);
    if (error)
        return error;
    const struct executable_facts *known;
    struct executable_facts facts = {0};
    if (path && stacks_executable_get(stacks, *tag, &known) == 0)
        facts = *known;
    if (!path || facts.path.len > 0)
        return 0;
    char clean[1024];
    facts.path = BYTES(clean, bytes_sanitize(BYTES_STR(path), clean, sizeof(clean)));
    return stacks_executable_facts(stacks, *tag, &facts);
}

/* The kernel's mapping has no file to hash: as other profilers have it, its file id is the FNV-128a
 * of the build id's hex text. */
static int kernel_row(struct frames *frames, const struct process_kernel *kernel)
{
    if (*kernel->tag)
        return 0;
    int error = executable_row(frames, kernel->identity, NULL, kernel->tag);
    if (error)
        return error;
    struct executable_facts facts = {.path = BYTES_LIT("vmlinux"), .build_id = kernel->build_id};
    char hex[2 * PROCESS_BUILD_ID_MAX + 1];
    if (kernel->build_id.len > 0 && kernel->build_id.len <= PROCESS_BUILD_ID_MAX) {
        struct fnv128 fnv;
        bytes_to_hex(kernel->build_id, hex);
        fnv128_init(&fnv);
        fnv128_add(&fnv, hex, strlen(hex));
        fnv128_finish(&fnv, facts.htlhash);
        facts.htlhash_known = true;
    }
    return stacks_executable_facts(store_stacks(frames->store), *kernel->tag, &facts);
}

int frames_kernel_row(struct frames *frames)
{
    struct process_kernel kernel;
    return process_table_kernel(frames->table, &kernel) ? 0 : kernel_row(frames, &kernel);
}

/* Frames */

void frames_begin(struct frames *frames)
{
    frames->n = 0;
}

/* The next one; NULL: there is no room. */
static struct frame *next_frame(struct frames *frames, enum frame_kind kind, uint64_t address)
{
    if (frames->n >= RECORD_MAX_FRAME_WORDS)
        return NULL;
    frames->identities[frames->n] = NULL;
    struct frame *frame = &frames->frames[frames->n++];
    *frame = (struct frame){.kind = (uint8_t)kind, .address = address};
    return frame;
}

int frames_add_kernel(struct frames *frames, uint64_t address)
{
    struct frame *frame = next_frame(frames, STACK_FRAME_KERNEL, address);
    struct process_kernel kernel;
    if (!frame || process_table_kernel(frames->table, &kernel) != 0 || kernel.text_start == 0 ||
        address < kernel.text_start)
        return 0; /* an absolute address, which no executable's name belongs to */
    int error = kernel_row(frames, &kernel);
    if (error)
        return error;
    frame->executable = *kernel.tag;
    frame->address = address - kernel.text_start;
    memcpy(frames->kernel_identity, kernel.identity, sizeof(frames->kernel_identity));
    frames->identities[frames->n - 1] = frames->kernel_identity;
    return 0;
}

int frames_add_user(struct frames *frames, uint32_t pid, uint64_t time_ns, uint64_t address)
{
    struct frame *frame = next_frame(frames, STACK_FRAME_NATIVE, address);
    struct process_place place;
    if (!frame || process_table_resolve(frames->table, pid, time_ns, address, &place) != 0)
        return 0;
    int error = executable_row(frames, place.identity, place.path, place.tag);
    if (error)
        return error;
    frame->executable = *place.tag;
    frame->address = place.file_offset;
    frames->identities[frames->n - 1] = place.identity;
    return 0;
}

void frames_add(struct frames *frames, const struct frame *add, size_t n)
{
    size_t room = FRAMES_MAX - frames->n;
    n = n < room ? n : room;
    if (!n)
        return;
    memcpy(frames->frames + frames->n, add, n * sizeof(*add));
    memset(frames->identities + frames->n, 0, n * sizeof(*frames->identities));
    frames->n += n;
}

static uint32_t add_wanted(uint64_t *wanted, uint32_t n, uint64_t address)
{
    for (uint32_t i = n; i > 0; i--) /* recursion: the last ones, mostly */
        if (wanted[i - 1] == address)
            return n;
    if (n == RECORD_MAX_USER_FRAMES)
        return n;
    wanted[n] = address;
    return n + 1;
}

uint32_t frames_name_code(struct frames *frames, uint32_t pid, uint64_t time_ns, uint64_t *wanted)
{
    struct code_program program = {.pid = pid};
    uint32_t n = 0;
    if (!pid || process_table_program(frames->table, pid, time_ns, &program.since_ns))
        return 0;
    for (size_t i = 0; i < frames->n; i++) {
        struct frame *frame = &frames->frames[i];
        int64_t name = 0;
        if (frame->kind != STACK_FRAME_NATIVE || frame->executable)
            continue;
        enum code_state state = code_find(frames->code, &program, time_ns, frame->address, &name);
        if (state == CODE_NAMED)
            *frame = (struct frame){STACK_FRAME_SPECIAL, FRAME_NAMED, (uint64_t)name};
        else if (state == CODE_UNKNOWN && wanted)
            n = add_wanted(wanted, n, frame->address);
    }
    return n;
}

int frames_put_code(struct frames *frames, uint64_t time_ns, const struct symbolizer_code *told)
{
    struct code_program program = {.pid = told->pid};
    if (process_table_program(frames->table, told->pid, time_ns, &program.since_ns))
        return 0; /* forgotten meanwhile */
    return code_answer(frames->code, &program, time_ns, told, store_stacks(frames->store));
}

void frames_end(struct frames *frames, uint8_t end)
{
    if (end == UNWIND_END_OF_STACK)
        return;
    assert(frames->n < FRAMES_MAX);
    frames->identities[frames->n] = NULL;
    frames->frames[frames->n++] =
        (struct frame){.kind = STACK_FRAME_SPECIAL, .executable = FRAME_TRUNCATION, .address = end};
}

const struct frame *frames_at_hand(const struct frames *frames, size_t *n)
{
    *n = frames->n;
    return frames->frames;
}

/* Names */

static uint64_t mix(const uint8_t identity[16], uint64_t address)
{
    uint64_t words[2];
    memcpy(words, identity, sizeof(words));
    uint64_t hash = (words[0] ^ address) * UINT64_C(0x9e3779b97f4a7c15);
    return (hash ^ (hash >> 29) ^ words[1]) | 1; /* 0 marks an empty slot */
}

/* 0, or why it cannot be waited for; it is asked for all the same. */
static int want_name(struct frames *frames, const uint8_t identity[16], const struct frame *frame,
                     uint64_t time_ns)
{
    struct stacks *stacks = store_stacks(frames->store);
    uint64_t hash = mix(identity, frame->address);
    uint64_t *slot = &frames->asked[hash % ASKED_SLOTS];
    struct frame_name name;
    if (*slot == hash)
        return 0;
    struct wanted wanted = {.address = frame->address, .executable = frame->executable};
    memcpy(wanted.identity, identity, sizeof(wanted.identity));
    bool known = stacks_name(stacks, frame, &name) == 0;
    int error = known ? 0 : buf_append(&frames->wanted, &wanted, sizeof(wanted));
    if (error)
        return error == BUF_FULL ? -ENOSPC : error;
    *slot = hash;
    return known ? 0 : stacks_name_asked(stacks, frame, time_ns);
}

void frames_want_names(struct frames *frames, int64_t stack, uint64_t time_ns)
{
    int error = 0;
    for (size_t i = 0; i < frames->n; i++) {
        int outcome = frames->identities[i]
                          ? want_name(frames, frames->identities[i], &frames->frames[i], time_ns)
                          : 0;
        error = error ? error : outcome;
    }
    stacks_wait_for_names(store_stacks(frames->store), stack, frames->frames, frames->n, error);
}

/* What did not come may have been lost on its way: the next stack that has it asks again. */
int frames_expire_names(struct frames *frames, uint64_t now_ns)
{
    size_t n_late;
    uint64_t before_ns = now_ns > FRAMES_NAMES_NS ? now_ns - FRAMES_NAMES_NS : 0;
    int error = stacks_expire_names(store_stacks(frames->store), before_ns, &n_late);
    if (n_late)
        memset(frames->asked, 0, sizeof(frames->asked));
    return error;
}

static int compare_wanted(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct wanted));
}

/* Nobody can be asked. */
static void settle(struct frames *frames, const struct wanted *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        stacks_name_settled(store_stacks(frames->store), wanted[i].executable, wanted[i].address);
}

void frames_ask(struct frames *frames)
{
    struct wanted *wanted = (void *)frames->wanted.data;
    size_t n = frames->wanted.len / sizeof(*wanted);
    if (n == 0)
        return;
    qsort(wanted, n, sizeof(*wanted), compare_wanted);
    uint64_t addresses[SYMBOLIZER_NAMES_MAX];
    for (size_t i = 0; i < n;) {
        const uint8_t *identity = wanted[i].identity;
        size_t count = 0;
        while (i + count < n && count < SYMBOLIZER_NAMES_MAX &&
               memcmp(wanted[i + count].identity, identity, 16) == 0) {
            addresses[count] = wanted[i + count].address;
            count++;
        }
        if (process_table_want_names(frames->table, identity, addresses, count))
            settle(frames, &wanted[i], count);
        i += count;
    }
    buf_clear(&frames->wanted);
}

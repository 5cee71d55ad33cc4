/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rowids are cached in the process table's tags, so a frame of a known executable costs no SQL.
 */
#include "receiver/intake/intake_frames.h"
#include "receiver/intake/intake_code.h"
#include "store/stacks/stacks.h"
#include <errno.h>
#include <stdlib.h>

struct intake_frames {
    struct store *store;
    struct process_table *table;
    struct code *code;
};

int intake_frames_open(struct store *store, struct process_table *table, struct intake_frames **out)
{
    struct intake_frames *frames = calloc(1, sizeof(*frames));
    if (!frames)
        return -ENOMEM;
    frames->store = store;
    frames->table = table;
    int error = intake_code_open(&frames->code);
    if (error) {
        intake_frames_close(frames);
        return error;
    }
    *out = frames;
    return 0;
}

void intake_frames_close(struct intake_frames *frames)
{
    if (!frames)
        return;
    intake_code_close(frames->code);
    free(frames);
}

void intake_frames_forget(struct intake_frames *frames)
{
    process_table_forget_tags(frames->table);
    intake_code_forget(frames->code);
}

/* ---- rows of executables ---- */

/* Describes the file as the kernel and the process see it. The symbolizer knows more once it has
 * opened the file; its answer may come before the first sample that is kept. */
static int executable_row(struct intake_frames *frames, const uint8_t identity[16],
                          const char *path, int64_t *tag)
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

/* The kernel's mapping has no file to hash. Its file id is the FNV-128a of the build id's hex text,
 * as in other profilers. */
static int kernel_row(struct intake_frames *frames, const struct process_kernel *kernel)
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

int intake_frames_kernel_row(struct intake_frames *frames)
{
    struct process_kernel kernel;
    return process_table_kernel(frames->table, &kernel) ? 0 : kernel_row(frames, &kernel);
}

/* ---- frames ---- */

int intake_frames_add_kernel(struct intake_frames *frames, struct stack_builder *builder,
                             uint64_t address)
{
    struct frame *frame = stack_builder_add(builder, STACK_FRAME_KERNEL, address);
    struct process_kernel kernel;
    if (!frame || process_table_kernel(frames->table, &kernel) != 0 || kernel.text_start == 0 ||
        address < kernel.text_start)
        return 0; /* an absolute address: belongs to no executable */
    int error = kernel_row(frames, &kernel);
    if (error)
        return error;
    frame->executable = *kernel.tag;
    frame->address = address - kernel.text_start;
    memcpy(builder->kernel_identity, kernel.identity, sizeof(builder->kernel_identity));
    stack_builder_want_names(builder, builder->kernel_identity);
    return 0;
}

/* A return address points after its call, perhaps into the next function or line. The frame's
 * address must lie in the call itself. */
static uint64_t call_address(uint64_t word)
{
    uint64_t address = record_frame_address(word);
    return !record_frame_is_exact(word) && address ? address - 1 : address;
}

static int add_native(struct intake_frames *frames, struct stack_builder *builder,
                      const struct stack_sample *sample, uint64_t address)
{
    struct frame *frame = stack_builder_add(builder, STACK_FRAME_NATIVE, address);
    struct process_place place;
    if (!frame ||
        process_table_resolve(frames->table, sample->pid, sample->time_ns, address, &place) != 0)
        return 0;
    int error = executable_row(frames, place.identity, place.path, place.tag);
    if (error)
        return error;
    frame->executable = *place.tag;
    frame->address = place.file_offset;
    stack_builder_want_names(builder, place.identity);
    return 0;
}

int intake_frames_add_user(struct intake_frames *frames, struct stack_builder *builder,
                           const struct stack_sample *sample, const struct record_frame *frame)
{
    uint64_t word = frame->words[0];
    if (record_frame_is_native(word))
        return add_native(frames, builder, sample, call_address(word));
    stack_builder_add_code(builder, frame);
    return 0;
}

/* ---- names of code outside files ---- */

struct naming {
    struct code *code;
    struct code_program program;
    uint64_t time_ns;
    struct record_frame *wanted; /* NULL: nothing is asked for */
    uint32_t n_wanted;
};

static void naming_want(struct naming *naming, const struct record_frame *frame)
{
    if (!naming->wanted || naming->n_wanted == RECORD_MAX_USER_FRAMES)
        return;
    for (uint32_t i = naming->n_wanted; i > 0; i--) /* recursion: mostly among the last ones */
        if (record_frame_equal(&naming->wanted[i - 1], frame))
            return;
    naming->wanted[naming->n_wanted++] = *frame;
}

/* Rowid of its names; 0: none (yet). */
static int64_t naming_of_code(struct naming *naming, const struct record_frame *frame)
{
    int64_t name = 0;
    if (intake_code_find_frame(naming->code, &naming->program, naming->time_ns, frame, &name) ==
        CODE_UNKNOWN)
        naming_want(naming, frame);
    return name;
}

static int64_t naming_of_address(struct naming *naming, uint64_t address)
{
    const struct record_frame frame = record_frame_native(address, true);
    int64_t name = 0;
    enum code_state state =
        intake_code_find(naming->code, &naming->program, naming->time_ns, address, &name);
    if (state == CODE_UNKNOWN)
        naming_want(naming, &frame);
    return state == CODE_NAMED ? name : 0;
}

uint32_t intake_frames_name_code(struct intake_frames *frames, struct stack_builder *builder,
                                 const struct stack_sample *sample, struct record_frame *wanted)
{
    struct naming naming = {.code = frames->code,
                            .program.pid = sample->pid,
                            .time_ns = sample->time_ns,
                            .wanted = wanted};
    int64_t names[STACK_BUILDER_CODES];
    if (!sample->pid || process_table_program(frames->table, sample->pid, sample->time_ns,
                                              &naming.program.since_ns, &naming.program.cgroup_id))
        return 0;
    for (uint32_t i = 0; i < builder->n_codes; i++)
        names[i] = naming_of_code(&naming, &builder->codes[i]);
    for (size_t i = 0; i < builder->n; i++) {
        struct frame *frame = &builder->frames[i];
        int64_t name = 0;
        if (frame->kind == STACK_FRAME_NATIVE && !frame->executable)
            name = naming_of_address(&naming, frame->address);
        else if (frame_is_unnamed(frame) && UNNAMED_INDEX(frame->address) < builder->n_codes)
            name = names[UNNAMED_INDEX(frame->address)];
        if (name)
            *frame = (struct frame){STACK_FRAME_SPECIAL, FRAME_NAMED, (uint64_t)name};
    }
    return naming.n_wanted;
}

uint32_t intake_frames_code_due(struct intake_frames *frames, uint32_t pid, uint64_t time_ns,
                                struct record_frame *due, uint32_t max)
{
    struct code_program program = {.pid = pid};
    if (process_table_program(frames->table, pid, time_ns, &program.since_ns, &program.cgroup_id))
        return 0;
    return intake_code_due(frames->code, &program, time_ns, due, max);
}

int intake_frames_put_code(struct intake_frames *frames, uint64_t time_ns,
                           const struct symbolizer_code *answer)
{
    struct code_program program = {.pid = answer->pid};
    if (process_table_program(frames->table, answer->pid, time_ns, &program.since_ns,
                              &program.cgroup_id))
        return 0; /* the process was forgotten meanwhile */
    return intake_code_answer(frames->code, &program, time_ns, answer, store_stacks(frames->store));
}

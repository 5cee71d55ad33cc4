/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "store/stacks/stacks_state.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static int add_named(struct stacks *stacks, struct fnv128 *fnv, const struct frame *frame)
{
    struct frame_name name = {0};
    struct fnv128 hash;
    uint8_t id[16];
    char decimal[24];
    int error = frame_is_named(frame) ? stacks_code_name(stacks, frame, &name)
                                      : stacks_unnamed(frame, &name);
    if (error && error != -ENOENT)
        return error;
    fnv128_init(&hash);
    fnv128_add(&hash, name.function.data, name.function.len);
    fnv128_add(&hash, name.file.data, name.file.len);
    fnv128_add(&hash, name.inlined.data, name.inlined.len);
    fnv128_finish(&hash, id);
    fnv128_add(fnv, id, sizeof(id));
    int n = snprintf(decimal, sizeof(decimal), "%" PRId64, name.line);
    fnv128_add(fnv, decimal, (size_t)n);
    return 0;
}

static int add_frame(struct stacks *stacks, struct fnv128 *fnv, const struct frame *frame)
{
    static const uint8_t unknown[16];
    const struct executable_facts *facts = NULL;
    uint64_t address = frame->address;
    char decimal[24];
    if (frame_is_truncation(frame))
        return 0;
    if (frame_is_code(frame))
        return add_named(stacks, fnv, frame);
    bool has_executable = frame->kind != STACK_FRAME_SPECIAL && frame->executable;
    int error = has_executable ? stacks_executable_get(stacks, frame->executable, &facts) : 0;
    if (error && error != -ENOENT)
        return error;
    if (facts) {
        const struct executable_segment *segment = executable_segment_of(facts, address);
        address = segment ? address - segment->file_offset + segment->vaddr : address;
    }
    fnv128_add(fnv, facts && facts->htlhash_known ? facts->htlhash : unknown, 16);
    int n = snprintf(decimal, sizeof(decimal), "%" PRIu64, address);
    fnv128_add(fnv, decimal, (size_t)n);
    return 0;
}

static int hash_public_id(struct stacks *stacks, size_t n, uint8_t out[16])
{
    struct fnv128 fnv;
    fnv128_init(&fnv);
    for (size_t i = 0; i < n; i++) {
        int error = add_frame(stacks, &fnv, &stacks->frames[i]);
        if (error)
            return error;
    }
    fnv128_finish(&fnv, out);
    return 0;
}

static int fix_public_id(struct stacks *stacks, int64_t id, uint8_t out[16])
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_frames;
    size_t n;
    int error = stacks_read_row(stacks, row, id, &n);
    if (error)
        return error;
    if (sqlite3_column_bytes(row, 0) == 16) {
        memcpy(out, sqlite3_column_blob(row, 0), 16);
        return 0;
    }
    error = hash_public_id(stacks, n, out);
    if (error)
        return error;
    sqlite3_bind_int64(stacks->set_public_id, 1, id);
    sqlite3_bind_blob(stacks->set_public_id, 2, out, 16, SQLITE_STATIC);
    error = db_run(stacks->db, stacks->set_public_id);
    sqlite3_clear_bindings(stacks->set_public_id);
    return error;
}

static int frames_ready(struct stacks *stacks, size_t n, bool *ready)
{
    *ready = true;
    for (size_t i = 0; *ready && i < n; i++) {
        const struct executable_facts *facts;
        const struct frame *frame = &stacks->frames[i];
        int64_t executable = frame->kind == STACK_FRAME_SPECIAL ? 0 : frame->executable;
        int error = executable ? stacks_executable_get(stacks, executable, &facts) : 0;
        if (error && error != -ENOENT)
            return error;
        *ready = !executable || (!error && facts->htlhash_known);
    }
    return 0;
}

static int read_ready(struct stacks *stacks, int64_t id, bool *ready)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_frames;
    size_t n;
    int error = stacks_read_row(stacks, row, id, &n);
    if (error)
        return error;
    *ready = sqlite3_column_bytes(row, 0) == 16;
    return *ready ? 0 : frames_ready(stacks, n, ready);
}

int stacks_public_id_ready(struct stacks *stacks, int64_t id, bool *ready)
{
    WRITER_THREAD(stacks->db);
    struct intern_entry *entry;
    int error = stacks_canonical(stacks, id, &id);
    error = error ? error : intern_id(&stacks->rows, id, &entry);
    if (error)
        return error;
    *ready = false;
    if (stacks_has_open_frames(stacks, id))
        return 0;
    *ready = container_of(entry, struct cached_stack, entry)->public_known;
    return *ready ? 0 : read_ready(stacks, id, ready);
}

int stacks_public_id(struct stacks *stacks, int64_t id, uint8_t out[16])
{
    WRITER_THREAD(stacks->db);
    struct intern_entry *entry;
    int error = stacks_canonical(stacks, id, &id);
    error = error ? error : intern_id(&stacks->rows, id, &entry);
    if (error)
        return error;
    struct cached_stack *stack = container_of(entry, struct cached_stack, entry);
    if (!stack->public_known) {
        error = fix_public_id(stacks, id, stack->public_id);
        if (error)
            return error;
        stack->public_known = true;
    }
    memcpy(out, stack->public_id, 16);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/runtime_name.h"
#include <assert.h>
#include <errno.h>

enum { FUNCTION, SYSTEM_NAME, FILE_NAME, TEXTS };

struct packed_line { /* its texts follow, with a NUL behind each */
    uint32_t line, column, start_line;
    uint16_t lengths[TEXTS];
    uint16_t reserved;
};

int runtime_name_pack(const struct runtime_name *name, struct buf *out)
{
    int error = 0;
    for (uint32_t i = 0; !error && i < name->n_lines; i++) {
        const struct runtime_line *line = &name->lines[i];
        const struct bytes texts[TEXTS] = {line->function, line->system_name, line->file};
        struct packed_line packed = {line->line, line->column, line->start_line, {0}, 0};
        for (int text = 0; text < TEXTS; text++) {
            assert(texts[text].len <= RUNTIME_NAME_MAX);
            packed.lengths[text] = (uint16_t)texts[text].len;
        }
        error = buf_append(out, &packed, sizeof(packed));
        for (int text = 0; !error && text < TEXTS; text++) {
            error = buf_append_bytes(out, texts[text]);
            error = error ? error : buf_append(out, "", 1);
        }
    }
    return error ? -ENOMEM : 0;
}

/* The next line of a copy; texts stay in it. */
static struct runtime_line unpack_line(struct bytes *rest)
{
    struct packed_line packed;
    struct bytes texts[TEXTS];
    memcpy(&packed, rest->data, sizeof(packed));
    *rest = bytes_skip(*rest, sizeof(packed));
    for (int text = 0; text < TEXTS; text++) {
        texts[text] = BYTES(rest->data, packed.lengths[text]);
        *rest = bytes_skip(*rest, packed.lengths[text] + 1u);
    }
    return (struct runtime_line){.function = texts[FUNCTION],
                                 .system_name = texts[SYSTEM_NAME],
                                 .file = texts[FILE_NAME],
                                 .line = packed.line,
                                 .column = packed.column,
                                 .start_line = packed.start_line};
}

int runtime_name_unpack(struct bytes packed, struct arena *arena, struct runtime_name *name)
{
    struct bytes rest = BYTES(arena_dup(arena, packed.data, packed.len), packed.len);
    struct runtime_line *lines = arena_alloc(arena, RUNTIME_LINES_MAX * sizeof(*lines));
    *name = (struct runtime_name){.outcome = RUNTIME_FRAME_NAMED, .lines = lines};
    if (!rest.data || !lines)
        return -ENOMEM;
    while (rest.len)
        lines[name->n_lines++] = unpack_line(&rest);
    return 0;
}

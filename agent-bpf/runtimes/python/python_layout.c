/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Released versions keep these layouts over all their patch levels: extension modules are compiled
 * against some of them, debuggers against the others.
 */
#include "agent-bpf/runtimes/python/python_layout.h"

#define COOKIE          "xdebugpy"
#define LEVEL_CANDIDATE 0xc0 /* release levels from here on have a final layout */
#define OFFSETS_WORDS   (PYTHON_DEBUG_OFFSETS_BYTES / 8)
#define VERSION_SINCE   12 /* code objects have a version of their own */
#define TEXT_HASH       24 /* in str, up to 3.11 */
#define TABLE_FIRST     8
#define TABLE_LAST      12
#define STRUCTURE_MAX   (1u << 20) /* bytes: no structure of CPython is as large */

struct layout_row {
    uint8_t lines, activations;
    uint16_t interpreters_head, threads_head;
    uint16_t thread_id, thread_frame;
    uint16_t frame_previous, frame_code, frame_position, frame_owner, frame_bytes;
    uint16_t code_size, filename, name, qualname, table, first_line, instructions;
    uint16_t text_header;
};

/* clang-format off */
static const struct layout_row rows[] = {
    { PYTHON_LNOTAB, PYTHON_ONE_FRAME_EACH, 32, 8, 176, 24, 24, 32, 104, 0, 112,
      176, 104, 112, 0, 120, 40, 0, 48 },
    { PYTHON_LNOTAB, PYTHON_ONE_FRAME_EACH, 32, 8, 176, 24, 24, 32, 104, 0, 112,
      176, 104, 112, 0, 120, 40, 0, 48 },
    { PYTHON_LINETABLE, PYTHON_ONE_FRAME_EACH, 32, 8, 176, 24, 24, 32, 96, 0, 104,
      176, 104, 112, 0, 120, 40, 0, 48 },
    { PYTHON_LOCATIONS, PYTHON_CFRAMES, 40, 16, 152, 56, 48, 32, 56, 68, 72,
      184, 112, 120, 128, 136, 72, 184, 48 },
    { PYTHON_LOCATIONS, PYTHON_SHIMS, 40, 72, 136, 56, 8, 0, 56, 70, 72,
      192, 112, 120, 128, 136, 68, 192, 40 },
};
/* clang-format on */

_Static_assert(sizeof(rows) / sizeof(*rows) == TABLE_LAST - TABLE_FIRST + 1, "one for each");

/* Where a number stands in the debug offsets, in words of 8 bytes. */
struct offsets_row {
    uint8_t interpreters_head, interpreter_next, threads_head;
    uint8_t thread_size, thread_next, thread_interpreter, thread_frame, thread_id;
    uint8_t frame_size, frame_previous, frame_code, frame_position, frame_owner;
    uint8_t code_size, filename, name, qualname, table, first_line, instructions;
    uint8_t type, bytes_size_field, bytes_data, state, length, text_header;
};

static const struct offsets_row offsets_rows[] = {
    {5,  8,  9,  19, 21, 22, 23, 24, 28, 29, 30, 31, 33,
     34, 35, 36, 37, 38, 39, 43, 45, 65, 66, 68, 69, 70}, /* 3.13 */
    {5,  8,  9,  22, 24, 25, 26, 27, 31, 32, 33, 34, 36,
     39, 40, 41, 42, 43, 44, 48, 51, 75, 76, 78, 79, 80}, /* 3.14 */
};

/* autoTSSkey, by version from 3.8 on; not in the debug offsets. */
static const uint16_t keys[] = {1392, 584, 584, 592, 1544, 2160, 2336};

#define OFFSETS_FIRST 13
#define OFFSETS_LAST  14

static uint64_t word_at(struct bytes bytes, size_t index)
{
    uint64_t word = UINT64_MAX;
    if ((index + 1) * sizeof(word) <= bytes.len)
        memcpy(&word, bytes.data + index * sizeof(word), sizeof(word));
    return word;
}

uint32_t python_layout_version(struct bytes offsets)
{
    if (offsets.len < 24 || memcmp(offsets.data, COOKIE, 8))
        return 0;
    return word_at(offsets, 1) <= UINT32_MAX ? (uint32_t)word_at(offsets, 1) : 0;
}

/* From the first line to the table of lines. */
static void layout_identity(struct python_layout *layout)
{
    struct python_process *process = &layout->process;
    uint32_t start = layout->code_first_line & ~7u;
    process->code_identity = (uint16_t)start;
    process->identity_words = (uint8_t)((layout->code_table + 8 - start) / 8);
    process->identity_name = (uint16_t)(layout->code_name - start);
    process->text_hash = PYTHON_MINOR(layout->version) < VERSION_SINCE ? TEXT_HASH : 0;
}

static void layout_of_row(const struct layout_row *row, uint32_t minor,
                          struct python_layout *layout)
{
    bool is_int = row->activations == PYTHON_ONE_FRAME_EACH;
    layout->lines = row->lines;
    layout->interpreters_head = row->interpreters_head;
    layout->threads_head = row->threads_head;
    layout->thread_next = 8;
    layout->thread_interpreter = 16;
    layout->code_bytes = layout->code_size = row->code_size;
    layout->code_filename = row->filename;
    layout->code_name = row->name;
    layout->code_qualname = row->qualname;
    layout->code_table = row->table;
    layout->code_first_line = row->first_line;
    layout->code_units = is_int ? 0 : 16;
    layout->object_type = 8;
    layout->bytes_length = layout->text_length = 16;
    layout->bytes_data = layout->text_state = 32;
    layout->text_header = row->text_header;
    layout->process = (struct python_process){
        .activations = row->activations,
        .lasti_shift = row->lines == PYTHON_LNOTAB,
        .position_is_int = is_int,
        .shim_owner = 3,
        .has_cframe = !is_int,
        .thread_bytes = (uint16_t)(row->thread_id + 8),
        .thread_id = row->thread_id,
        .thread_frame = row->thread_frame,
        .cframe_frame = minor == 11 ? 8 : 0,
        .cframe_previous = minor == 11 ? 16 : 8,
        .frame_bytes = row->frame_bytes,
        .frame_previous = row->frame_previous,
        .frame_code = row->frame_code,
        .frame_position = row->frame_position,
        .frame_owner = row->frame_owner,
        .code_instructions = row->instructions,
    };
}

static bool field_fits(uint64_t at, uint64_t size, uint64_t max)
{
    return at <= max && size <= max - at;
}

/* Fields of a structure: within its size, in front of what is read of it, aligned. */
static bool fields_fit(struct bytes offsets, uint8_t size, uint64_t max, const uint8_t *fields,
                       size_t n)
{
    uint64_t bytes = word_at(offsets, size);
    if (bytes > STRUCTURE_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = word_at(offsets, fields[i]);
        if (at % 8 || !field_fits(at, 8, bytes) || !field_fits(at, 8, max))
            return false;
    }
    return true;
}

/* Objects of varying size have it behind their type. */
static bool objects_fit(struct bytes offsets, const struct offsets_row *row)
{
    uint64_t type = word_at(offsets, row->type);
    return type <= 32 && type % 8 == 0 && word_at(offsets, row->bytes_size_field) == type + 8 &&
           word_at(offsets, row->length) == type + 8 &&
           word_at(offsets, row->bytes_data) == type + 24 &&
           word_at(offsets, row->state) == type + 24 && word_at(offsets, row->text_header) <= 72 &&
           word_at(offsets, row->text_header) >= type + 32;
}

static bool offsets_fit(struct bytes offsets, const struct offsets_row *row)
{
    const uint8_t thread[] = {row->thread_next, row->thread_interpreter, row->thread_frame,
                              row->thread_id};
    const uint8_t frame[] = {row->frame_previous, row->frame_code, row->frame_position};
    const uint8_t code[] = {row->filename, row->name, row->qualname, row->table};
    uint64_t names = word_at(offsets, row->filename), owner = word_at(offsets, row->frame_owner);
    return fields_fit(offsets, row->thread_size, PYTHON_READ_MAX - 8, thread, 4) &&
           fields_fit(offsets, row->frame_size, 128, frame, 3) && owner < 128 &&
           fields_fit(offsets, row->code_size, PYTHON_READ_MAX - 8, code, 4) &&
           word_at(offsets, row->name) == names + 8 &&
           word_at(offsets, row->qualname) == names + 16 &&
           word_at(offsets, row->table) == names + 24 &&
           field_fits(word_at(offsets, row->first_line), 4, names) &&
           word_at(offsets, row->instructions) < PYTHON_READ_MAX &&
           word_at(offsets, row->interpreters_head) < STRUCTURE_MAX &&
           word_at(offsets, row->interpreter_next) < STRUCTURE_MAX &&
           word_at(offsets, row->threads_head) < STRUCTURE_MAX && objects_fit(offsets, row);
}

/* Behind the last of four words. */
static uint16_t end_of(const uint16_t fields[4])
{
    uint16_t last = 0;
    for (int i = 0; i < 4; i++)
        last = fields[i] > last ? fields[i] : last;
    return (uint16_t)(last + 8);
}

static bool layout_of_offsets(struct bytes offsets, const struct offsets_row *row,
                              struct python_layout *layout)
{
#define AT(field) ((uint16_t)word_at(offsets, row->field))
    if (!offsets_fit(offsets, row))
        return false;
    layout->free_threaded = word_at(offsets, 2) != 0;
    layout->lines = PYTHON_LOCATIONS;
    layout->interpreters_head = (uint32_t)word_at(offsets, row->interpreters_head);
    layout->interpreter_next = (uint32_t)word_at(offsets, row->interpreter_next);
    layout->threads_head = (uint32_t)word_at(offsets, row->threads_head);
    layout->thread_next = AT(thread_next);
    layout->thread_interpreter = AT(thread_interpreter);
    layout->code_bytes = AT(table) + 8u;
    layout->code_filename = AT(filename);
    layout->code_name = AT(name);
    layout->code_qualname = AT(qualname);
    layout->code_table = AT(table);
    layout->code_first_line = AT(first_line);
    layout->code_units = layout->bytes_length = AT(bytes_size_field);
    layout->object_type = AT(type);
    layout->bytes_data = AT(bytes_data);
    layout->text_length = AT(length);
    layout->text_state = AT(state);
    layout->text_header = AT(text_header);
    const uint16_t thread[] = {AT(thread_id), AT(thread_frame), AT(thread_next),
                               AT(thread_interpreter)};
    const uint16_t frame[] = {AT(frame_previous), AT(frame_code), AT(frame_position),
                              (uint16_t)(AT(frame_owner) & ~7)};
    layout->process = (struct python_process){
        .activations = PYTHON_SHIMS,
        .shim_owner = 3,
        .thread_bytes = end_of(thread),
        .thread_id = AT(thread_id),
        .thread_frame = AT(thread_frame),
        .frame_bytes = end_of(frame),
        .frame_previous = AT(frame_previous),
        .frame_code = AT(frame_code),
        .frame_position = AT(frame_position),
        .frame_owner = AT(frame_owner),
        .code_instructions = AT(instructions),
    };
    return true;
#undef AT
}

bool python_layout(uint32_t version, struct bytes offsets, struct python_layout *layout)
{
    uint32_t minor = PYTHON_MINOR(version);
    *layout = (struct python_layout){.version = version};
    if (version >> 24 != 3 || (version & 0xf0) < LEVEL_CANDIDATE)
        return false;
    if (minor >= TABLE_FIRST && minor <= TABLE_LAST)
        layout_of_row(&rows[minor - TABLE_FIRST], minor, layout);
    else if (minor < OFFSETS_FIRST || minor > OFFSETS_LAST ||
             python_layout_version(offsets) != version ||
             !layout_of_offsets(offsets, &offsets_rows[minor - OFFSETS_FIRST], layout))
        return false;
    layout->text_state_shift = layout->free_threaded && minor >= 14 ? 8 : 2;
    layout->runtime_key = keys[minor - TABLE_FIRST];
    layout_identity(layout);
    if (layout->text_header == layout->object_type + 8 + PYTHON_TEXT_HEADER)
        layout->process.object_type = (uint8_t)layout->object_type;
    layout->process.text_state_shift = (uint8_t)layout->text_state_shift;
    return layout->process.identity_words <= PYTHON_IDENTITY_WORDS_MAX;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf/dwarf_line.h"
#include "agent-bpf/dwarf/dwarf_form.h"
#include "base/clock.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS_APART     512 /* between places that are kept */
#define LOOK_BACK      8   /* places: sequences may overlap */
#define FORMATS_MAX    16
#define ROWS_UNTIMED   4096
#define PLACES_MAX     (1u << 20)
#define PATH_BYTES_MAX 4096

enum { /* DW_LNS_*, DW_LNE_*, DW_LNCT_* */
       LNS_EXTENDED = 0,
       LNS_COPY,
       LNS_ADVANCE_PC,
       LNS_ADVANCE_LINE,
       LNS_SET_FILE,
       LNS_CONST_ADD_PC = 8,
       LNS_FIXED_ADVANCE_PC = 9,
       LNE_END_SEQUENCE = 1,
       LNE_SET_ADDRESS = 2,
       LNCT_PATH = 1,
       LNCT_DIRECTORY_INDEX = 2,
};

struct run {
    const struct dwarf_line_program *program;
    struct dwarf_cursor *cursor;
    uint64_t address;
    uint64_t file;
    uint64_t line;
};

enum step { STEP_NONE, STEP_ROW, STEP_SEQUENCE_END, STEP_FAILED };

/* Running */

static void begin_sequence(struct run *run)
{
    run->address = 0;
    run->file = run->line = 1;
}

static enum step run_extended(struct run *run)
{
    uint64_t size = dwarf_uleb(run->cursor);
    uint64_t left = run->cursor->end - run->cursor->at;
    if (!size || size > left)
        return STEP_FAILED;
    uint64_t next = run->cursor->at + size;
    uint64_t opcode = dwarf_fixed(run->cursor, 1);
    if (opcode == LNE_SET_ADDRESS && size == 9)
        run->address = dwarf_fixed(run->cursor, 8);
    dwarf_seek(run->cursor, next);
    return opcode == LNE_END_SEQUENCE ? STEP_SEQUENCE_END : STEP_NONE;
}

static void run_operands(struct run *run, uint8_t opcode)
{
    for (unsigned i = 0; i < run->program->operands[opcode] && !run->cursor->failed; i++)
        dwarf_uleb(run->cursor);
}

static void run_standard(struct run *run, uint8_t opcode)
{
    const struct dwarf_line_program *program = run->program;
    switch (opcode) {
    case LNS_ADVANCE_PC:
        run->address += dwarf_uleb(run->cursor) * program->min_instruction;
        break;
    case LNS_ADVANCE_LINE:
        run->line += (uint64_t)dwarf_sleb(run->cursor);
        break;
    case LNS_SET_FILE:
        run->file = dwarf_uleb(run->cursor);
        break;
    case LNS_CONST_ADD_PC:
        run->address += (uint64_t)((255 - program->opcode_base) / program->line_range) *
                        program->min_instruction;
        break;
    case LNS_FIXED_ADVANCE_PC:
        run->address += dwarf_fixed(run->cursor, 2);
        break;
    default:
        run_operands(run, opcode);
    }
}

static enum step run_step(struct run *run)
{
    const struct dwarf_line_program *program = run->program;
    uint8_t opcode = (uint8_t)dwarf_fixed(run->cursor, 1);
    enum step step = STEP_NONE;
    if (opcode >= program->opcode_base) {
        unsigned special = (unsigned)opcode - program->opcode_base;
        run->address += (uint64_t)(special / program->line_range) * program->min_instruction;
        run->line += (uint64_t)(program->line_base + (int)(special % program->line_range));
        step = STEP_ROW;
    } else if (opcode == LNS_COPY) {
        step = STEP_ROW;
    } else if (opcode == LNS_EXTENDED) {
        step = run_extended(run);
    } else {
        run_standard(run, opcode);
    }
    return run->cursor->failed ? STEP_FAILED : step;
}

/* Up to the next row. */
static enum step run_row(struct run *run)
{
    enum step step;
    do
        step = run->cursor->at < run->program->end ? run_step(run) : STEP_FAILED;
    while (step == STEP_NONE);
    return step;
}

/* The head */

static void *line_grown(void *table, size_t *cap, size_t n, size_t size, size_t limit)
{
    if (n < *cap)
        return table;
    size_t more = *cap ? *cap * 2 : 16;
    void *larger = n < limit ? realloc(table, more * size) : NULL;
    if (larger)
        *cap = more;
    return larger;
}

static int add_directory(struct dwarf_line_program *program, const struct dwarf_line_file *entry)
{
    struct dwarf_string *table =
        line_grown(program->directories, &program->cap_directories, program->n_directories,
                   sizeof(*table), DWARF_DIRECTORIES_MAX);
    if (!table)
        return program->n_directories >= DWARF_DIRECTORIES_MAX ? ELF_MALFORMED : -ENOMEM;
    program->directories = table;
    table[program->n_directories++] = entry->name;
    return 0;
}

static int add_file(struct dwarf_line_program *program, const struct dwarf_line_file *entry)
{
    struct dwarf_line_file *table = line_grown(program->files, &program->cap_files,
                                               program->n_files, sizeof(*table), DWARF_FILES_MAX);
    if (!table)
        return program->n_files >= DWARF_FILES_MAX ? ELF_MALFORMED : -ENOMEM;
    program->files = table;
    table[program->n_files++] = *entry;
    return 0;
}

typedef int add_fn(struct dwarf_line_program *program, const struct dwarf_line_file *entry);

/* Before DWARF 5: texts, up to an empty one; behind those of files three numbers. */
static int read_texts(struct dwarf_line_program *program, struct dwarf_cursor *cursor, add_fn *add)
{
    int error = 0;
    while (!error) {
        struct dwarf_line_file entry = {.name = {DWARF_IN_SECTION, DWARF_LINE, cursor->at}};
        dwarf_skip_text(cursor);
        if (cursor->failed || cursor->at == entry.name.at + 1)
            break;
        if (add == add_file) {
            entry.directory = dwarf_uleb(cursor);
            dwarf_uleb(cursor);
            dwarf_uleb(cursor);
        }
        error = add(program, &entry);
    }
    return cursor->failed ? ELF_MALFORMED : error;
}

static int read_entry(const struct dwarf_unit *unit, struct dwarf_cursor *cursor,
                      const struct dwarf_spec formats[], unsigned n_formats,
                      struct dwarf_line_file *entry)
{
    *entry = (struct dwarf_line_file){.directory = 0};
    for (unsigned i = 0; i < n_formats; i++) {
        struct dwarf_value value;
        if (!dwarf_value_read(unit, cursor, &formats[i], &value) || cursor->failed)
            return ELF_MALFORMED;
        if (formats[i].attribute == LNCT_PATH)
            entry->name = value.text;
        else if (formats[i].attribute == LNCT_DIRECTORY_INDEX)
            entry->directory = value.number;
    }
    return 0;
}

static int read_table(struct dwarf_line_program *program, const struct dwarf_unit *unit,
                      struct dwarf_cursor *cursor, add_fn *add)
{
    struct dwarf_spec formats[FORMATS_MAX];
    unsigned n_formats = (unsigned)dwarf_fixed(cursor, 1);
    if (n_formats > FORMATS_MAX)
        return ELF_MALFORMED;
    for (unsigned i = 0; i < n_formats; i++) {
        formats[i].attribute = (uint16_t)dwarf_uleb(cursor);
        formats[i].form = (uint16_t)dwarf_uleb(cursor);
    }
    uint64_t n = dwarf_uleb(cursor);
    int error = cursor->failed ? ELF_MALFORMED : 0;
    for (uint64_t i = 0; i < n && !error; i++) {
        struct dwarf_line_file entry;
        error = read_entry(unit, cursor, formats, n_formats, &entry);
        error = error ? error : add(program, &entry);
    }
    return error;
}

static int read_tables(struct dwarf_line_program *program, const struct dwarf_unit *unit,
                       struct dwarf_cursor *cursor)
{
    if (program->version >= 5) {
        int error = read_table(program, unit, cursor, add_directory);
        return error ? error : read_table(program, unit, cursor, add_file);
    }
    int error = read_texts(program, cursor, add_directory);
    return error ? error : read_texts(program, cursor, add_file);
}

static int read_head(struct dwarf_line_program *program, struct dwarf_cursor *cursor,
                     struct dwarf_unit *lines_unit)
{
    dwarf_unit_length(cursor, &lines_unit->offset_size);
    program->end = cursor->end;
    program->version = (uint16_t)dwarf_fixed(cursor, 2);
    if (program->version < 2 || program->version > 5)
        return ELF_MALFORMED;
    if (program->version >= 5)
        dwarf_skip(cursor, 2); /* sizes of addresses and segments */
    uint64_t length = dwarf_fixed(cursor, lines_unit->offset_size);
    if (cursor->failed || length > cursor->end - cursor->at)
        return ELF_MALFORMED;
    program->start = cursor->at + length;
    program->min_instruction = (uint8_t)dwarf_fixed(cursor, 1);
    if (program->version >= 4)
        dwarf_skip(cursor, 1); /* operations of one instruction: 1 on these machines */
    dwarf_skip(cursor, 1);     /* whether lines begin as statements */
    program->line_base = (int8_t)dwarf_fixed(cursor, 1);
    program->line_range = (uint8_t)dwarf_fixed(cursor, 1);
    program->opcode_base = (uint8_t)dwarf_fixed(cursor, 1);
    for (unsigned i = 1; i < program->opcode_base; i++)
        program->operands[i] = (uint8_t)dwarf_fixed(cursor, 1);
    return cursor->failed || !program->line_range || !program->opcode_base ? ELF_MALFORMED : 0;
}

/* Places */

static int program_keep_place(struct dwarf_line_program *program, const struct run *run)
{
    struct dwarf_line_place *table = line_grown(program->places, &program->cap_places,
                                                program->n_places, sizeof(*table), PLACES_MAX);
    if (!table)
        return program->n_places >= PLACES_MAX ? ELF_MALFORMED : -ENOMEM;
    program->places = table;
    table[program->n_places++] = (struct dwarf_line_place){
        .address = run->address,
        .next = run->cursor->at,
        .file = run->file < UINT32_MAX ? (uint32_t)run->file : UINT32_MAX,
        .line = run->line < UINT32_MAX ? (uint32_t)run->line : 0,
    };
    return 0;
}

static int run_all(struct dwarf_line_program *program, struct dwarf_cursor *cursor,
                   const struct dwarf_code *code, uint64_t deadline_ns)
{
    struct run run = {.program = program, .cursor = cursor};
    uint64_t rows = 0, since = 0;
    enum step step;
    int error = 0;
    begin_sequence(&run);
    while (!error && (step = run_row(&run)) != STEP_FAILED) {
        if (step == STEP_SEQUENCE_END) {
            begin_sequence(&run);
            since = 0;
        } else if (since++ % ROWS_APART == 0 && run.address >= code->start &&
                   run.address < code->end) {
            error = program_keep_place(program, &run);
        }
        if (++rows % ROWS_UNTIMED == 0 && clock_monotonic_ns() > deadline_ns)
            break;
    }
    return error == ELF_MALFORMED ? 0 : error; /* enough of them */
}

static int by_address(const void *a, const void *b)
{
    const struct dwarf_line_place *left = a, *right = b;
    if (left->address != right->address)
        return left->address < right->address ? -1 : 1;
    return left->next < right->next ? -1 : left->next > right->next;
}

int dwarf_line_open(struct dwarf_line_program *program, const struct dwarf_unit *unit,
                    const struct dwarf_code *code, uint64_t deadline_ns)
{
    struct dwarf_cursor cursor;
    struct dwarf_unit lines_unit = *unit; /* its offsets may have another size */
    *program = (struct dwarf_line_program){0};
    if (unit->line_program == DWARF_NONE)
        return ELF_MISSING;
    dwarf_cursor_open(&cursor, &unit->file->sections[DWARF_LINE], unit->line_program);
    int error = read_head(program, &cursor, &lines_unit);
    error = error ? error : read_tables(program, &lines_unit, &cursor);
    if (!error) {
        dwarf_seek(&cursor, program->start);
        error = run_all(program, &cursor, code, deadline_ns);
    }
    if (error) {
        dwarf_line_close(program);
        return error;
    }
    if (program->n_places)
        qsort(program->places, program->n_places, sizeof(*program->places), by_address);
    return 0;
}

void dwarf_line_close(struct dwarf_line_program *program)
{
    free(program->directories);
    free(program->files);
    free(program->places);
    *program = (struct dwarf_line_program){0};
}

size_t dwarf_line_bytes(const struct dwarf_line_program *program)
{
    return program->cap_directories * sizeof(*program->directories) +
           program->cap_files * sizeof(*program->files) +
           program->cap_places * sizeof(*program->places);
}

/* Finding */

/* From a place to the row that holds the address. False: its sequence has none. */
static bool run_from(const struct dwarf_line_program *program, const struct dwarf_unit *unit,
                     const struct dwarf_line_place *place, uint64_t address,
                     struct dwarf_line_place *row)
{
    struct dwarf_cursor cursor;
    struct run run = {program, &cursor, place->address, place->file, place->line};
    dwarf_cursor_open(&cursor, &unit->file->sections[DWARF_LINE], place->next);
    for (unsigned i = 0; i <= ROWS_APART; i++) {
        row->address = run.address;
        row->file = (uint32_t)run.file;
        row->line = run.line < UINT32_MAX ? (uint32_t)run.line : 0;
        enum step step = run_row(&run);
        if (step == STEP_FAILED)
            return false;
        if (address >= row->address && address < run.address)
            return true;
        if (step == STEP_SEQUENCE_END)
            return false;
    }
    return false;
}

bool dwarf_line_find(const struct dwarf_line_program *program, const struct dwarf_unit *unit,
                     uint64_t address, uint64_t *file, uint32_t *line)
{
    size_t low = 0, high = program->n_places;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (program->places[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t back = 1; back <= LOOK_BACK && back <= low; back++) {
        struct dwarf_line_place row;
        if (!run_from(program, unit, &program->places[low - back], address, &row))
            continue;
        *file = row.file;
        *line = row.line;
        return true;
    }
    return false;
}

/* Appends what fits; false: there is no such text. */
static bool dwarf_unit_append(const struct dwarf_unit *unit, const struct dwarf_file *shared,
                              const struct dwarf_string *string, char *out, size_t size)
{
    char text[PATH_BYTES_MAX];
    size_t len = strlen(out);
    if (!dwarf_unit_text(unit, shared, string, text, sizeof(text)))
        return false;
    if (text[0] == '/')
        len = 0;
    snprintf(out + len, size - len, "%s%s", len ? "/" : "", text);
    return true;
}

bool dwarf_line_path(const struct dwarf_line_program *program, const struct dwarf_unit *unit,
                     const struct dwarf_file *shared, uint64_t file, char *out, size_t size)
{
    uint64_t first = program->version >= 5 ? 0 : 1;
    out[0] = 0;
    if (file < first || file - first >= program->n_files)
        return false;
    const struct dwarf_line_file *entry = &program->files[file - first];
    uint64_t directory = entry->directory - first;
    /* The first directory of DWARF 5 is the unit's own. */
    if (program->version < 5 || entry->directory >= program->n_directories)
        dwarf_unit_append(unit, shared, &unit->directory, out, size);
    else if (entry->directory)
        dwarf_unit_append(unit, shared, &program->directories[0], out, size);
    if (directory < program->n_directories)
        dwarf_unit_append(unit, shared, &program->directories[directory], out, size);
    return dwarf_unit_append(unit, shared, &entry->name, out, size);
}

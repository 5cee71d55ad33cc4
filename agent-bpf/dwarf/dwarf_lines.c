/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdw is not used: it loads whole debug sections into the heap, keeps every line table that it
 * has read, and walks a whole unit for one address if the compiler left out DW_AT_sibling.
 */
#include "agent-bpf/dwarf/dwarf_lines.h"
#include "agent-bpf/dwarf/dwarf_functions.h"
#include "agent-bpf/dwarf/dwarf_index.h"
#include "base/clock.h"
#include "base/list.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define CANDIDATES_MAX 4 /* units searched for an address */
#define ORIGINS_MAX    8 /* references followed for a name */
#define UNIT_NS        (200 * NS_PER_MS)

_Static_assert(DWARF_CHAIN_MAX <= DWARF_FUNCTIONS_AT_MAX, "a chain fits the answer");

struct loaded {
    struct list link;
    uint32_t index; /* of the unit */
    struct dwarf_unit unit;
    struct dwarf_functions functions;
    struct dwarf_line_program program;
    size_t bytes;
};

struct dwarf_lines {
    struct dwarf_file file;
    struct dwarf_file shared;
    struct dwarf_code code;
    struct dwarf_index index;
    struct dwarf_units shared_units;
    struct dwarf_unit other; /* that a reference led to last */
    struct list loaded;      /* units, longest unused first */
    size_t n_loaded;
    size_t loaded_bytes;
};

static void find_code(const struct elf *elf, struct dwarf_code *code)
{
    *code = (struct dwarf_code){UINT64_MAX, 0};
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        if (segment->p_vaddr < code->start)
            code->start = segment->p_vaddr;
        if (segment->p_vaddr + segment->p_memsz > code->end)
            code->end = segment->p_vaddr + segment->p_memsz;
    }
}

int dwarf_lines_open(const struct elf *executable, const struct elf *debug,
                     const struct elf *shared, struct dwarf_lines **out)
{
    struct dwarf_lines *lines = calloc(1, sizeof(*lines));
    if (!lines)
        return -ENOMEM;
    list_init(&lines->loaded);
    lines->shared.fd = -1;
    find_code(executable, &lines->code);
    int error = dwarf_file_open(&lines->file, debug);
    if (!error && shared && dwarf_file_open(&lines->shared, shared) == -ENOMEM)
        error = -ENOMEM;
    if (error) {
        dwarf_lines_close(lines);
        return error;
    }
    *out = lines;
    return 0;
}

static void dwarf_lines_unload(struct dwarf_lines *lines, struct loaded *loaded)
{
    list_remove(&loaded->link);
    lines->n_loaded--;
    lines->loaded_bytes -= loaded->bytes;
    dwarf_functions_close(&loaded->functions);
    dwarf_line_close(&loaded->program);
    dwarf_unit_close(&loaded->unit);
    free(loaded);
}

void dwarf_lines_close(struct dwarf_lines *lines)
{
    struct list *link;
    if (!lines)
        return;
    while ((link = list_first(&lines->loaded)))
        dwarf_lines_unload(lines, container_of(link, struct loaded, link));
    dwarf_index_close(&lines->index);
    dwarf_units_close(&lines->shared_units);
    dwarf_unit_close(&lines->other);
    dwarf_file_close(&lines->shared);
    dwarf_file_close(&lines->file);
    free(lines);
}

size_t dwarf_lines_bytes(const struct dwarf_lines *lines)
{
    return sizeof(*lines) + dwarf_file_bytes(&lines->file) + dwarf_file_bytes(&lines->shared) +
           dwarf_index_bytes(&lines->index) +
           lines->shared_units.cap * sizeof(*lines->shared_units.at) +
           dwarf_unit_bytes(&lines->other) + lines->loaded_bytes;
}

void dwarf_lines_trim(struct dwarf_lines *lines, size_t bytes)
{
    size_t n = (bytes + DWARF_SPAN_BYTES - 1) / DWARF_SPAN_BYTES;
    size_t before = lines->file.spans.n;
    dwarf_spans_trim(&lines->file.spans, before > n ? before - n : 0);
    n -= before < n ? before : n;
    before = lines->shared.spans.n;
    dwarf_spans_trim(&lines->shared.spans, before > n ? before - n : 0);
}

/* Units */

static void loaded_enforce_limits(struct dwarf_lines *lines, struct loaded *loaded)
{
    assert(lines->loaded_bytes >= loaded->bytes);
    lines->loaded_bytes -= loaded->bytes;
    loaded->bytes = sizeof(*loaded) + dwarf_unit_bytes(&loaded->unit) +
                    dwarf_functions_bytes(&loaded->functions) + dwarf_line_bytes(&loaded->program);
    lines->loaded_bytes += loaded->bytes;
    struct list *oldest = list_first(&lines->loaded);
    while ((lines->loaded_bytes > DWARF_LOADED_BYTES_MAX || lines->n_loaded > DWARF_LOADED_MAX) &&
           oldest != &loaded->link) {
        dwarf_lines_unload(lines, container_of(oldest, struct loaded, link));
        oldest = list_first(&lines->loaded);
    }
}

static int loaded_fill(struct dwarf_lines *lines, struct loaded *loaded, uint64_t deadline_ns)
{
    struct dwarf_die own;
    int error =
        dwarf_unit_open(&loaded->unit, &lines->file, lines->index.units.at[loaded->index], &own);
    error =
        error ? error
              : dwarf_functions_open(&loaded->functions, &loaded->unit, &lines->code, deadline_ns);
    if (error)
        return error;
    error = dwarf_line_open(&loaded->program, &loaded->unit, &lines->code, deadline_ns);
    return error < 0 ? error : 0;
}

/* What the deadline cut is tried again, unless the unit alone took long: it would each time. */
static struct loaded *lines_load_unit(struct dwarf_lines *lines, uint32_t index,
                                      uint64_t deadline_ns)
{
    struct list *link, *tmp;
    list_each(link, tmp, &lines->loaded)
    {
        struct loaded *loaded = container_of(link, struct loaded, link);
        if (loaded->index != index)
            continue;
        list_remove(&loaded->link);
        list_append(&lines->loaded, &loaded->link);
        return loaded;
    }
    uint64_t start_ns = clock_monotonic_ns();
    struct loaded *loaded = start_ns < deadline_ns ? calloc(1, sizeof(*loaded)) : NULL;
    if (!loaded)
        return NULL;
    loaded->index = index;
    list_append(&lines->loaded, &loaded->link);
    lines->n_loaded++;
    int error = loaded_fill(lines, loaded, deadline_ns);
    uint64_t end_ns = clock_monotonic_ns();
    if (error || (end_ns > deadline_ns && end_ns - start_ns < UNIT_NS)) {
        dwarf_lines_unload(lines, loaded);
        return NULL;
    }
    loaded_enforce_limits(lines, loaded);
    return loaded;
}

/* Names */

/* The entry that another one refers to, and its unit. */
static struct dwarf_unit *dwarf_lines_follow(struct dwarf_lines *lines, struct dwarf_unit *from,
                                             const struct dwarf_die *die, struct dwarf_die *origin)
{
    bool is_shared = die->is_in_shared || from->file == &lines->shared;
    const struct dwarf_file *file = is_shared ? &lines->shared : &lines->file;
    struct dwarf_unit *unit = from;
    struct dwarf_cursor cursor;
    *origin = (struct dwarf_die){.origin = DWARF_NONE};
    if (file->fd < 0)
        return NULL;
    if (file != from->file || die->origin < from->first || die->origin >= from->end) {
        uint64_t at =
            dwarf_units_at(is_shared ? &lines->shared_units : &lines->index.units, die->origin);
        struct dwarf_die own;
        unit = &lines->other;
        bool is_open = unit->file == file && unit->at == at && unit->end;
        if (at == DWARF_NONE || (!is_open && dwarf_unit_open(unit, file, at, &own)) ||
            die->origin < unit->first)
            return NULL;
    }
    dwarf_unit_walk(unit, die->origin, &cursor);
    return dwarf_die_read(unit, &cursor, origin) || !origin->tag ? NULL : unit;
}

/* The linker's name if there is one, else the first name found. */
static void find_name(struct dwarf_lines *lines, struct dwarf_unit *unit, struct dwarf_die die,
                      char *name)
{
    name[0] = 0;
    for (int i = 0; unit && i < ORIGINS_MAX; i++) {
        struct dwarf_die origin = {.tag = 0};
        char linkage_name[DWARF_NAME_MAX];
        if (dwarf_unit_text(unit, &lines->shared, &die.linkage_name, linkage_name,
                            sizeof(linkage_name))) {
            memcpy(name, linkage_name, sizeof(linkage_name));
            return;
        }
        if (!name[0])
            dwarf_unit_text(unit, &lines->shared, &die.name, name, DWARF_NAME_MAX);
        unit = die.origin == DWARF_NONE ? NULL : dwarf_lines_follow(lines, unit, &die, &origin);
        die = origin;
    }
}

/* Finding */

static void function_set_place(struct dwarf_lines *lines, struct loaded *loaded, uint64_t file,
                               uint64_t line, struct dwarf_function *function)
{
    dwarf_line_path(&loaded->program, &loaded->unit, &lines->shared, file, function->file,
                    sizeof(function->file));
    function->line = line <= UINT32_MAX ? (uint32_t)line : 0;
}

/* From the innermost on: the place of each is the call site of the one before. */
static size_t fill_chain(struct dwarf_lines *lines, struct loaded *loaded,
                         const struct dwarf_chain *chain, uint64_t vaddr,
                         struct dwarf_function *functions)
{
    uint64_t file = chain->cut_file, line_now = chain->cut_line;
    uint32_t line = 0;
    size_t n = 0;
    if (!line_now && dwarf_line_find(&loaded->program, &loaded->unit, vaddr, &file, &line))
        line_now = line;
    for (size_t i = chain->n; i-- > 0;) {
        const struct dwarf_die *die = &chain->dies[i];
        find_name(lines, &loaded->unit, *die, functions[n].name);
        function_set_place(lines, loaded, file, line_now, &functions[n]);
        file = die->call_file;
        line_now = die->call_line;
        n += functions[n].name[0] || i == 0; /* an inlined one without a name is left out */
    }
    return n;
}

/* A unit that has no function there may have a line: assembly, and what the deadline cut. */
static size_t fill_line(struct dwarf_lines *lines, struct loaded *loaded, uint64_t vaddr,
                        struct dwarf_function *function)
{
    uint64_t file;
    uint32_t line;
    if (!dwarf_line_find(&loaded->program, &loaded->unit, vaddr, &file, &line))
        return 0;
    function->name[0] = 0;
    function_set_place(lines, loaded, file, line, function);
    return 1;
}

static size_t find_in(struct dwarf_lines *lines, uint64_t vaddr, uint64_t deadline_ns,
                      const uint32_t *units, size_t n_units, struct dwarf_function *functions)
{
    struct dwarf_chain chain;
    for (size_t i = 0; i < n_units; i++) {
        struct loaded *loaded = lines_load_unit(lines, units[i], deadline_ns);
        if (!loaded ||
            dwarf_functions_find(&loaded->functions, &loaded->unit, vaddr, deadline_ns, &chain))
            continue;
        loaded_enforce_limits(lines, loaded); /* more of its abbreviations are known */
        if (chain.n)
            return fill_chain(lines, loaded, &chain, vaddr, functions);
    }
    for (size_t i = 0; i < n_units; i++) {
        struct loaded *loaded = lines_load_unit(lines, units[i], deadline_ns);
        size_t n = loaded ? fill_line(lines, loaded, vaddr, functions) : 0;
        if (n)
            return n;
    }
    return 0;
}

size_t dwarf_lines_find(struct dwarf_lines *lines, uint64_t vaddr, uint64_t deadline_ns,
                        struct dwarf_function functions[DWARF_FUNCTIONS_AT_MAX])
{
    uint32_t units[CANDIDATES_MAX];
    int error = 0;
    if (!lines->index.units.complete)
        error = dwarf_index_build(&lines->index, &lines->file, &lines->code, deadline_ns);
    if (!error && lines->shared.fd >= 0 && !lines->shared_units.complete)
        error = dwarf_units_read(&lines->shared_units, &lines->shared, deadline_ns);
    if (error)
        return 0;
    size_t n_units = dwarf_index_find(&lines->index, vaddr, units, CANDIDATES_MAX);
    return find_in(lines, vaddr, deadline_ns, units, n_units, functions);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that a tick could not unwind to their end, because rows were not loaded. Here they are
 * unwound with the same rows, and what was touched is loaded, so the next tick finds it. Each
 * request gets one answer, if only the frame that it began with.
 *
 * The process may be gone: its files come from the request, as the service knew them. What that
 * does not name (code made at run time, the vdso) is looked up in /proc while the process is there.
 */
#include "agent-bpf/symbolizer/symbolizer_parts.h"
#include "agent-bpf/unwind/unwind.h"
#include <errno.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

#define PLACES_MAX (2 * SYMBOLIZER_MAPPINGS_MAX)

struct place { /* a range of code, as far as it was looked at */
    uint64_t start;
    uint64_t length;
    uint64_t bias;       /* ELF address minus address */
    struct table *table; /* NULL: nothing is known of it: by frame pointers */
    bool is_file;
};

struct touched { /* code that a frame lies in */
    struct table *table;
    uint64_t address; /* ELF */
};

struct unwinding {
    struct symbolizer *symbolizer;
    const struct symbolizer_unwind_wanted *wanted;
    struct record_stack stack;
    bool maps_read;
    uint32_t n_places;
    uint32_t n_touched;
    struct place places[PLACES_MAX];
    struct touched touched[UNWIND_FRAMES_MAX];
};

static void take_binary(struct unwinding *unwinding, struct place *place,
                        const struct binary *binary, uint64_t file_offset)
{
    uint64_t elf_address;
    if (!binary || !binary_address(binary, file_offset, &elf_address))
        return;
    struct symbolizer *symbolizer = unwinding->symbolizer;
    uint32_t pid = unwinding->wanted->pid;
    place->table =
        tables_of(symbolizer->tables, binary, symbolizer_is_banned(symbolizer, pid) ? 0 : pid);
    place->bias = elf_address - place->start;
}

static bool place_in_request(struct unwinding *unwinding, uint64_t address, struct place *place)
{
    const struct symbolizer_unwind_wanted *wanted = unwinding->wanted;
    for (uint32_t i = 0; i < wanted->n; i++) {
        const struct process_mapping *mapping = &wanted->mappings[i].mapping;
        if (address - mapping->start >= mapping->length)
            continue;
        *place =
            (struct place){.start = mapping->start, .length = mapping->length, .is_file = true};
        struct binary *binary = symbolizer_binary(unwinding->symbolizer, &wanted->mappings[i]);
        symbolizer_ledger_enter(unwinding->symbolizer->settings.ledger, wanted->pid);
        take_binary(unwinding, place, binary, mapping->file_offset);
        return true;
    }
    return false;
}

static struct bytes maps_of(struct unwinding *unwinding)
{
    struct symbolizer *symbolizer = unwinding->symbolizer;
    if (!unwinding->maps_read && (symbolizer_is_banned(symbolizer, unwinding->wanted->pid) ||
                                  proc_maps_read(unwinding->wanted->pid, &symbolizer->maps)))
        buf_clear(&symbolizer->maps);
    unwinding->maps_read = true;
    return buf_bytes(&symbolizer->maps);
}

static void take_map(struct unwinding *unwinding, const struct proc_map *map, struct place *place)
{
    struct symbolizer *symbolizer = unwinding->symbolizer;
    *place = (struct place){.start = map->start, .length = map->end - map->start};
    if (bytes_equal(map->path, BYTES_LIT("[vdso]"))) {
        place->table = tables_vdso(symbolizer->tables);
        place->bias = -map->start;
    } else if (map->inode) {
        char path[SYMBOLIZER_PATH_MAX];
        struct process_mapping mapping;
        struct binary *binary;
        place->is_file = true;
        symbolizer_complete_mapping(symbolizer, unwinding->wanted->pid, map, path, &mapping,
                                    &binary);
        take_binary(unwinding, place, binary, map->offset);
    }
}

static bool place_in_proc(struct unwinding *unwinding, uint64_t address, struct place *place)
{
    struct bytes rest = maps_of(unwinding);
    struct proc_map map;
    while (proc_maps_next(&rest, &map)) {
        if (address < map.start || address >= map.end)
            continue;
        take_map(unwinding, &map, place);
        return map.executable;
    }
    return false;
}

/* NULL: there is no code, or nobody knows (any more). */
static const struct place *place_of(struct unwinding *unwinding, uint64_t address)
{
    struct place place;
    for (uint32_t i = 0; i < unwinding->n_places; i++)
        if (address - unwinding->places[i].start < unwinding->places[i].length)
            return &unwinding->places[i];
    if (unwinding->n_places == PLACES_MAX)
        return NULL;
    if (!place_in_request(unwinding, address, &place) && !place_in_proc(unwinding, address, &place))
        return NULL;
    unwinding->places[unwinding->n_places] = place;
    return &unwinding->places[unwinding->n_places++];
}

static bool find(void *context, uint64_t address, struct unwind_rule *rule)
{
    struct unwinding *unwinding = context;
    const struct place *place = place_of(unwinding, address);
    *rule = (struct unwind_rule){0};
    if (!place || !place->table)
        return place;
    table_rule(unwinding->symbolizer->tables, place->table, address + place->bias, rule);
    if (unwinding->n_touched < UNWIND_FRAMES_MAX)
        unwinding->touched[unwinding->n_touched++] =
            (struct touched){place->table, address + place->bias};
    return true;
}

/* The tick said which file it could not unwind: that is the one that pc lies in. One that nobody
 * knows is asked for again; its process may be between two programs. So is one that could not be
 * read because the process has ended: the next one may map it too, as all do libc. */
static void note_file(struct unwinding *unwinding)
{
    const struct record_stack *stack = &unwinding->stack;
    struct tables *tables = unwinding->symbolizer->tables;
    const struct place *place = place_of(unwinding, stack->pc - !!stack->is_return);
    if (!stack->file.inode || !place || !place->is_file)
        return;
    if (place->table)
        table_is_file(tables, place->table, &stack->file);
    else if (maps_of(unwinding).len > 0)
        tables_unreadable(tables, &stack->file);
}

static void load_touched(struct unwinding *unwinding)
{
    for (uint32_t i = 0; i < unwinding->n_touched; i++)
        table_load(unwinding->symbolizer->tables, unwinding->touched[i].table,
                   unwinding->touched[i].address);
}

static void say(struct symbolizer *symbolizer, uint64_t ticket, const struct unwind_frames *frames)
{
    struct symbolizer_unwound_frame told[UNWIND_FRAMES_MAX];
    for (uint32_t i = 0; i < frames->n; i++)
        told[i] = (struct symbolizer_unwound_frame){.pc = frames->frames[i].pc,
                                                    .is_return = frames->frames[i].is_return};
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_UNWOUND,
        .unwound = {.ticket = ticket, .end = (uint8_t)frames->end, .n = frames->n, .frames = told}};
    symbolizer_say(symbolizer, &message);
}

/* False: it is not as record.h has it. */
static bool take_stack(struct unwinding *unwinding, struct unwind_input *input)
{
    struct bytes bytes = unwinding->wanted->stack;
    struct record_stack *stack = &unwinding->stack;
    if (bytes.len < sizeof(*stack))
        return false;
    memcpy(stack, bytes.data, sizeof(*stack));
    *input = (struct unwind_input){
        .elf_machine = OWN_MACHINE,
        .registers = {.pc = stack->pc, .known = stack->known},
        .is_return = stack->is_return,
        .stack_start = stack->start,
        .stack = BYTES(bytes.data + sizeof(*stack), bytes.len - sizeof(*stack)),
        .find = find,
        .context = unwinding,
    };
    memcpy(input->registers.of, stack->registers, sizeof(input->registers.of));
    return stack->size == input->stack.len;
}

void symbolizer_answer_unwind(struct symbolizer *symbolizer,
                              const struct symbolizer_unwind_wanted *wanted)
{
    struct unwinding unwinding = {.symbolizer = symbolizer, .wanted = wanted};
    struct unwind_input input;
    struct unwind_frames frames = {.end = UNWIND_END_UNKNOWN};
    if (take_stack(&unwinding, &input)) {
        symbolizer_ledger_enter(symbolizer->settings.ledger, wanted->pid);
        unwind(&input, &frames);
        note_file(&unwinding);
        load_touched(&unwinding);
        tables_settle(symbolizer->tables);
        symbolizer_ledger_leave(symbolizer->settings.ledger);
    }
    say(symbolizer, wanted->ticket, &frames);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishes stacks that a tick could not unwind to the end because unwind rows were not loaded. They
 * are unwound here with the same rows, and the pages touched are loaded into the kernel for the
 * next tick. Each request gets one answer, with at least its first frame.
 *
 * The process may have ended, so its files come from the request. Code that the request does not
 * name (made at run time, the vdso) is looked up in /proc while the process exists.
 */
#include "agent-bpf/symbolizer/runtime_walk.h"
#include "agent-bpf/symbolizer/tracked_process.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/record_frame.h"
#include "agent-bpf/unwind/unwind.h"
#include <sys/sysmacros.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

#define PLACES_MAX (2 * SYMBOLIZER_MAPPINGS_MAX)
_Static_assert(PLACES_MAX <= TABLES_BORROWED_MAX, "a stack borrows a table for each place");

struct place { /* a mapping that holds an address of the stack */
    uint64_t start;
    uint64_t length;
    uint64_t bias;          /* ELF address minus address */
    struct table *table;    /* NULL: unwound by frame pointers */
    struct binary_key file; /* inode 0: none; size 0: it was not opened */
    uint64_t generation;    /* of the inode; 0: not known */
    bool is_on_overlay;     /* safe_open.h */
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
    struct runtime_walk runtimes;
    uint32_t n_places;
    uint32_t n_touched;
    struct place places[PLACES_MAX];
    struct touched touched[UNWIND_FRAMES_MAX];
};

static void place_set_table(struct unwinding *unwinding, struct place *place,
                            const struct binary *binary, uint64_t file_offset)
{
    uint64_t elf_address;
    if (!binary)
        return;
    place->file = binary->key;
    place->is_on_overlay = binary->is_on_overlay;
    if (!binary_address(binary, file_offset, &elf_address))
        return;
    struct symbolizer *symbolizer = unwinding->symbolizer;
    uint32_t pid = unwinding->wanted->pid;
    place->table =
        tables_get(symbolizer->tables, binary, symbolizer_is_banned(symbolizer, pid) ? 0 : pid,
                   symbolizer_tenant(symbolizer, pid));
    place->bias = elf_address - place->start;
}

static void place_set_file(struct place *place, const struct process_mapping *mapping)
{
    place->file.device = makedev(mapping->device_major, mapping->device_minor);
    place->file.inode = mapping->inode;
    place->generation = mapping->inode_generation;
}

static bool unwinding_place_in_request(struct unwinding *unwinding, uint64_t address,
                                       struct place *place)
{
    const struct symbolizer_unwind_wanted *wanted = unwinding->wanted;
    for (uint32_t i = 0; i < wanted->n; i++) {
        const struct process_mapping *mapping = &wanted->mappings[i].mapping;
        if (address - mapping->start >= mapping->length)
            continue;
        *place = (struct place){.start = mapping->start, .length = mapping->length};
        place_set_file(place, mapping);
        struct binary *binary = symbolizer_binary(unwinding->symbolizer, &wanted->mappings[i]);
        symbolizer_enter(unwinding->symbolizer, wanted->pid);
        place_set_table(unwinding, place, binary, mapping->file_offset);
        return true;
    }
    return false;
}

static struct bytes unwinding_maps(struct unwinding *unwinding)
{
    struct symbolizer *symbolizer = unwinding->symbolizer;
    if (!unwinding->maps_read && (symbolizer_is_banned(symbolizer, unwinding->wanted->pid) ||
                                  reader_maps(unwinding->wanted->pid, &symbolizer->maps)))
        buf_clear(&symbolizer->maps);
    unwinding->maps_read = true;
    return buf_bytes(&symbolizer->maps);
}

static void place_set_mapping(struct unwinding *unwinding, const struct proc_map *map,
                              struct place *place)
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
        symbolizer_resolve_mapping(symbolizer,
                                   symbolizer_user(symbolizer, unwinding->wanted->pid, true), map,
                                   path, &mapping, &binary);
        place_set_file(place, &mapping);
        place_set_table(unwinding, place, binary, map->offset);
    }
}

static bool unwinding_place_in_proc(struct unwinding *unwinding, uint64_t address,
                                    struct place *place)
{
    struct bytes rest = unwinding_maps(unwinding);
    struct proc_map map;
    while (proc_maps_next(&rest, &map)) {
        if (address < map.start || address >= map.end)
            continue;
        place_set_mapping(unwinding, &map, place);
        return map.executable;
    }
    return false;
}

/* NULL: there is no code at the address, or none that is known. */
static const struct place *unwinding_place(struct unwinding *unwinding, uint64_t address)
{
    struct place place;
    for (uint32_t i = 0; i < unwinding->n_places; i++)
        if (address - unwinding->places[i].start < unwinding->places[i].length)
            return &unwinding->places[i];
    if (unwinding->n_places == PLACES_MAX)
        return NULL;
    if (!unwinding_place_in_request(unwinding, address, &place) &&
        !unwinding_place_in_proc(unwinding, address, &place))
        return NULL;
    unwinding->places[unwinding->n_places] = place;
    return &unwinding->places[unwinding->n_places++];
}

static bool unwinding_find_rule(void *context, uint64_t address, struct unwind_rule *rule)
{
    struct unwinding *unwinding = context;
    const struct place *place = unwinding_place(unwinding, address);
    *rule = (struct unwind_rule){0};
    if (!place || !place->table)
        return place;
    table_rule(unwinding->symbolizer->tables, place->table, address + place->bias, rule);
    if (unwinding->n_touched < UNWIND_FRAMES_MAX)
        unwinding->touched[unwinding->n_touched++] =
            (struct touched){place->table, address + place->bias};
    return true;
}

/* Of an overlay that root has mounted, the tick sees the file below. */
static bool is_file_of_tick(const struct place *place, const struct unwind_file *of_tick)
{
    const struct binary_key *file = &place->file;
    if (file->inode != of_tick->inode || (file->size && file->size != of_tick->size))
        return false;
    uint64_t device = makedev(of_tick->device >> 20, of_tick->device & 0xfffff);
    return place->is_on_overlay ||
           (file->device == device &&
            (!place->generation || place->generation == of_tick->generation));
}

/* The tick names the file that it could not unwind: the one that pc is in. If the place is unknown,
 * nothing is noted, and the next tick asks again: the process may be in the middle of an exec, or
 * have mapped another file there in between. The same if the file could not be read because the
 * process has ended: another process may map it. */
static void unwinding_note_file(struct unwinding *unwinding)
{
    const struct record_stack *stack = &unwinding->stack;
    struct tables *tables = unwinding->symbolizer->tables;
    const struct place *place = unwinding_place(unwinding, stack->pc - !!stack->is_return);
    if (!place || !stack->file.inode || !is_file_of_tick(place, &stack->file))
        return;
    if (place->table)
        table_add_file(tables, place->table, &stack->file);
    else if (unwinding_maps(unwinding).len > 0)
        tables_mark_unreadable(tables, &stack->file);
}

static void unwinding_load_touched(struct unwinding *unwinding)
{
    for (uint32_t i = 0; i < unwinding->n_touched; i++)
        table_load(unwinding->symbolizer->tables, unwinding->touched[i].table,
                   unwinding->touched[i].address);
}

static struct record_frame frame_of(const struct unwind_frame *found)
{
    struct record_frame frame = record_frame_native(found->pc, found->is_return);
    if (found->code.words[0])
        return found->code;
    if (found->evaluates) {
        frame.words[0] &= RECORD_FRAME_MASK;
        frame.words[0] |= (uint64_t)FRAME_NATIVE_EVAL << RECORD_FRAME_SHIFT;
        frame.words[1] = found->evaluates | (found->cfa & (RECORD_EVAL_INNER - 1));
    }
    return frame;
}

static bool unwinding_is_anonymous(void *context, uint64_t address)
{
    const struct place *place = unwinding_place(context, address);
    return place && !place->file.inode && !place->table; /* nor the vdso */
}

static int unwinding_step(void *context, uint64_t address, struct unwind_step *step)
{
    struct unwinding *unwinding = context;
    return runtime_walk_step(&unwinding->runtimes, address, step);
}

static uint64_t unwinding_evaluates(void *context, uint64_t address)
{
    const struct unwinding *unwinding = context;
    return runtime_walk_evaluates(&unwinding->runtimes, address);
}

/* Its memory is read only if it is not banned, and has time left. */
static void unwinding_find_runtimes(struct unwinding *unwinding, const struct unwind_input *input)
{
    struct symbolizer *symbolizer = unwinding->symbolizer;
    uint32_t pid = unwinding->wanted->pid;
    const struct tracked_process *process =
        symbolizer_is_banned(symbolizer, pid) ? NULL : map_get(&symbolizer->processes, &pid);
    const struct process_runtimes *runtimes = process ? process->runtimes : NULL;
    if (runtimes && !runtime_shares_have_time(&symbolizer->runtime_shares, runtimes->tenant,
                                              clock_monotonic_ns()))
        runtimes = NULL;
    unwinding->runtimes = (struct runtime_walk){.runtimes = runtimes,
                                                .pid = pid,
                                                .stack_start = input->stack_start,
                                                .stack = input->stack,
                                                .pages = symbolizer->runtime_pages,
                                                .now_ns = clock_monotonic_ns(),
                                                .is_anonymous = unwinding_is_anonymous,
                                                .context = unwinding};
}

static void unwinding_run(struct unwinding *unwinding, const struct unwind_input *input,
                          struct unwind_frames *frames)
{
    const struct runtime_walk *walk = &unwinding->runtimes;
    unwinding_find_runtimes(unwinding, input);
    unwind(input, frames);
    if (walk->runtimes)
        runtime_shares_spend(&unwinding->symbolizer->runtime_shares, walk->runtimes->tenant,
                             walk->now_ns, clock_monotonic_ns());
}

static void unwound_send(struct symbolizer *symbolizer, uint64_t ticket,
                         const struct unwind_frames *frames)
{
    struct record_frame sent[UNWIND_FRAMES_MAX];
    for (uint32_t i = 0; i < frames->n; i++)
        sent[i] = frame_of(&frames->frames[i]);
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_UNWOUND,
        .unwound = {.ticket = ticket, .end = (uint8_t)frames->end, .n = frames->n, .frames = sent}};
    symbolizer_send(&symbolizer->out, &message);
}

/* False: malformed. */
static bool unwinding_read_stack(struct unwinding *unwinding, struct unwind_input *input)
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
        .find = unwinding_find_rule,
        .step = unwinding_step,
        .evaluates = unwinding_evaluates,
        .context = unwinding,
    };
    memcpy(input->registers.of, stack->registers, sizeof(input->registers.of));
    return stack->size == input->stack.len;
}

void symbolizer_answer_unwind(struct symbolizer *symbolizer,
                              const struct symbolizer_unwind_wanted *wanted)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct unwinding unwinding = {.symbolizer = symbolizer, .wanted = wanted};
    struct unwind_input input;
    struct unwind_frames frames = {.end = UNWIND_END_UNKNOWN};
    if (unwinding_read_stack(&unwinding, &input)) {
        symbolizer_enter(symbolizer, wanted->pid);
        unwinding_run(&unwinding, &input, &frames);
        unwinding_note_file(&unwinding);
        unwinding_load_touched(&unwinding);
        tables_release(symbolizer->tables);
        symbolizer_leave(symbolizer);
    }
    if (!symbolizer_repeats(symbolizer))
        unwound_send(symbolizer, wanted->ticket, &frames);
}

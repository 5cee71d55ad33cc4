/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that a tick could not unwind to their end, because rows were not loaded. Here they are
 * unwound with the same rows, and what was touched is loaded, so the next tick finds it. Each
 * request gets one answer, if only the frame that it began with.
 *
 * The process may be gone: its files come from the request, by which the service knew them. What it
 * does not name (code made at run time, the vdso) is looked up in /proc while the process is there.
 */
#include "agent-bpf/analyst_parts.h"
#include "agent-bpf/unwind.h"
#include <errno.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

struct touched { /* code that a frame lies in */
    struct table *table;
    uint64_t address; /* ELF */
};

struct unwinding {
    struct analyst *analyst;
    const struct analyst_unwind_wanted *wanted;
    struct record_stack stack;
    struct table *tables[ANALYST_MAPPINGS_MAX];
    uint64_t biases[ANALYST_MAPPINGS_MAX]; /* ELF address minus address */
    bool looked[ANALYST_MAPPINGS_MAX];
    bool maps_read;
    uint32_t n_touched;
    struct touched touched[UNWIND_FRAMES_MAX];
};

static void look_at_mapping(struct unwinding *unwinding, uint32_t i)
{
    const struct analyst_executable_ref *ref = &unwinding->wanted->mappings[i];
    uint64_t elf_address;
    unwinding->looked[i] = true;
    struct binary *binary = analyst_binary(unwinding->analyst, ref);
    analyst_ledger_enter(unwinding->analyst->settings.ledger, ref->pid);
    if (!binary || !binary_address(binary, ref->mapping.file_offset, &elf_address))
        return;
    unwinding->tables[i] = tables_of(unwinding->analyst->tables, binary);
    unwinding->biases[i] = elf_address - ref->mapping.start;
}

/* The mapping of an address; n: none. */
static uint32_t mapping_of(const struct unwinding *unwinding, uint64_t address)
{
    const struct analyst_unwind_wanted *wanted = unwinding->wanted;
    for (uint32_t i = 0; i < wanted->n; i++)
        if (address - wanted->mappings[i].mapping.start < wanted->mappings[i].mapping.length)
            return i;
    return wanted->n;
}

static void touch(struct unwinding *unwinding, struct table *table, uint64_t address)
{
    if (unwinding->n_touched < UNWIND_FRAMES_MAX)
        unwinding->touched[unwinding->n_touched++] = (struct touched){table, address};
}

static bool find_in_mapping(struct unwinding *unwinding, uint32_t i, uint64_t address,
                            struct unwind_rule *rule)
{
    if (!unwinding->looked[i])
        look_at_mapping(unwinding, i);
    struct table *table = unwinding->tables[i];
    *rule = (struct unwind_rule){0};
    if (!table)
        return true; /* code all the same: by frame pointers */
    uint64_t elf_address = address + unwinding->biases[i];
    table_rule(unwinding->analyst->tables, table, elf_address, rule);
    touch(unwinding, table, elf_address);
    return true;
}

static struct bytes maps_of(struct unwinding *unwinding)
{
    struct buf *maps = &unwinding->analyst->maps;
    if (!unwinding->maps_read && proc_maps_read(unwinding->wanted->pid, maps))
        buf_clear(maps);
    unwinding->maps_read = true;
    return buf_bytes(maps);
}

static bool find_in_proc(struct unwinding *unwinding, uint64_t address, struct unwind_rule *rule)
{
    struct tables *tables = unwinding->analyst->tables;
    struct bytes rest = maps_of(unwinding);
    struct proc_map map;
    while (proc_maps_next(&rest, &map)) {
        if (address < map.start || address >= map.end)
            continue;
        *rule = (struct unwind_rule){0};
        if (bytes_equal(map.path, BYTES_LIT("[vdso]")) && tables_vdso(tables))
            table_rule(tables, tables_vdso(tables), address - map.start, rule);
        return map.executable;
    }
    return false;
}

static bool find(void *context, uint64_t address, struct unwind_rule *rule)
{
    struct unwinding *unwinding = context;
    uint32_t i = mapping_of(unwinding, address);
    return i < unwinding->wanted->n ? find_in_mapping(unwinding, i, address, rule)
                                    : find_in_proc(unwinding, address, rule);
}

static bool is_no_file(const struct unwind_file *file)
{
    static const struct unwind_file none;
    return !memcmp(file, &none, sizeof(none));
}

/* The tick said which file it could not unwind: that is the one that pc lies in. */
static void note_file(struct unwinding *unwinding)
{
    const struct record_stack *stack = &unwinding->stack;
    struct tables *tables = unwinding->analyst->tables;
    if (is_no_file(&stack->file))
        return;
    uint32_t i = mapping_of(unwinding, stack->pc - !!stack->is_return);
    struct table *table = i < unwinding->wanted->n ? unwinding->tables[i] : NULL;
    if (table)
        table_is_file(tables, table, &stack->file);
    else
        tables_unreadable(tables, &stack->file);
}

static void load_touched(struct unwinding *unwinding)
{
    for (uint32_t i = 0; i < unwinding->n_touched; i++)
        table_load(unwinding->analyst->tables, unwinding->touched[i].table,
                   unwinding->touched[i].address);
}

static void say(struct analyst *analyst, uint64_t ticket, const struct unwind_frames *frames)
{
    struct analyst_unwound_frame told[UNWIND_FRAMES_MAX];
    for (uint32_t i = 0; i < frames->n; i++)
        told[i] = (struct analyst_unwound_frame){.pc = frames->frames[i].pc,
                                                 .is_return = frames->frames[i].is_return};
    struct analyst_message message = {
        .kind = ANALYST_UNWOUND,
        .unwound = {.ticket = ticket, .end = (uint8_t)frames->end, .n = frames->n, .frames = told}};
    analyst_say(analyst, &message);
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

void analyst_answer_unwind(struct analyst *analyst, const struct analyst_unwind_wanted *wanted)
{
    struct unwinding unwinding = {.analyst = analyst, .wanted = wanted};
    struct unwind_input input;
    struct unwind_frames frames = {.end = UNWIND_END_UNKNOWN};
    if (take_stack(&unwinding, &input)) {
        analyst_ledger_enter(analyst->settings.ledger, wanted->pid);
        unwind(&input, &frames);
        note_file(&unwinding);
        load_touched(&unwinding);
        analyst_ledger_leave(analyst->settings.ledger);
    }
    say(analyst, wanted->ticket, &frames);
}

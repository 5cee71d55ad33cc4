/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JVM fills its heaps' list and its interpreter a moment after its library is mapped: until then
 * their pointers are NULL.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_attach.h"
#include "agent-bpf/runtimes/hotspot/hotspot_fetch.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/files/elf_symtab.h"
#include "agent-bpf/runtimes/hotspot/hotspot_interpreter.h"
#include "agent-bpf/runtimes/hotspot/hotspot_layout.h"

#define MAJOR_MIN         8
#define MAJOR_MAX         99
#define STUB_LIST_SINCE   9 /* as hotspot_stubs.c reads it */
#define SEGMENT_SHIFT_MIN 5
#define SEGMENT_SHIFT_MAX 16
#define HEAP_BYTES_MAX    (UINT64_C(1) << 32)
#define INTERPRETER_MAX   (UINT64_C(8) << 20)
#define OBJECT_BYTES      512 /* read of CodeHeap, StubQueue */

static const char barrier_name[] = "_ZN12StubRoutines19_cont_returnBarrierE";
static const char thread_name[] = "_ZN6Thread12_thr_currentE";
static const char stub_list_name[] = "_ZN12StubCodeDesc5_listE";

/* The dynamic linker writes the number of the module where a relocation without a symbol is. */
static bool take_module(void *context, const Elf64_Rela *relocation)
{
    struct hotspot_constants *constants = context;
    if (ELF64_R_TYPE(relocation->r_info) != R_X86_64_DTPMOD64 || ELF64_R_SYM(relocation->r_info))
        return false;
    constants->thread_module = relocation->r_offset;
    return true;
}

static int thread_find(const struct elf *elf, struct hotspot_constants *constants)
{
    struct elf_symbol symbol;
    struct elf_dynamic dynamic;
    if (elf_symtab_find(elf, thread_name, STT_TLS, &symbol) || symbol.symbol.st_value > UINT16_MAX)
        return 0;
    constants->thread = (uint16_t)symbol.symbol.st_value;
    int error = elf_dynamic_open(elf, &dynamic);
    return error ? error : elf_dynamic_relocations(&dynamic, take_module, constants);
}

int hotspot_open(const struct elf *elf, struct hotspot_constants *constants)
{
    struct elf_symbol symbol;
    memset(constants, 0, sizeof(*constants));
    int error = hotspot_exports_find(elf, &constants->exports);
    if (!error && !elf_symtab_find(elf, barrier_name, STT_OBJECT, &symbol))
        constants->return_barrier = symbol.symbol.st_value;
    if (!error && !elf_symtab_find(elf, stub_list_name, STT_OBJECT, &symbol))
        constants->stub_list = symbol.symbol.st_value;
    return error ? error : thread_find(elf, constants);
}

/* ---- reading ---- */

struct attaching {
    struct runtime_memory *memory;
    struct hotspot_process *process;
    struct hotspot_statics statics;
    uint64_t heaps[HOTSPOT_HEAPS]; /* of CodeHeaps */
    uint32_t n_heaps;
};

static int attaching_read(struct attaching *attaching, uint64_t address, void *out, uint32_t size)
{
    struct reader_range range = {address, out, size, 0};
    int error = hotspot_memory_read(attaching->memory, &range, 1);
    return error ? error : range.error;
}

static uint64_t bytes_word(const uint8_t *bytes, uint32_t at)
{
    uint64_t word;
    memcpy(&word, bytes + at, sizeof(word));
    return word;
}

static uint32_t bytes_int(const uint8_t *bytes, uint32_t at)
{
    uint32_t value;
    memcpy(&value, bytes + at, sizeof(value));
    return value;
}

/* The variables that are looked at: those without an address read as 0. */
static int attaching_read_variables(struct attaching *attaching, uint64_t return_barrier,
                                    uint64_t *values, const uint64_t *addresses, size_t n)
{
    struct reader_range ranges[8];
    size_t n_ranges = 0;
    for (size_t i = 0; i < n; i++)
        if (addresses[i])
            ranges[n_ranges++] = (struct reader_range){addresses[i], &values[i], 8, 0};
    if (return_barrier)
        ranges[n_ranges++] = (struct reader_range){
            return_barrier, &attaching->process->return_barrier, sizeof(uint64_t), 0};
    int error = hotspot_memory_read(attaching->memory, ranges, n_ranges);
    for (size_t i = 0; !error && i < n_ranges; i++)
        error = ranges[i].error;
    return error;
}

/* ---- code heaps ---- */

static int attaching_list_heaps(struct attaching *attaching, uint64_t list, uint64_t heap)
{
    const struct hotspot_statics *statics = &attaching->statics;
    uint64_t data;
    int32_t length;
    if (!list) {
        attaching->heaps[0] = heap;
        attaching->n_heaps = 1;
        return heap ? 0 : -EAGAIN;
    }
    if (statics->array_length == HOTSPOT_NONE || statics->array_data == HOTSPOT_NONE)
        return -ENOTSUP;
    int error = attaching_read(attaching, list + statics->array_length, &length, sizeof(length));
    if (!error)
        error = attaching_read(attaching, list + statics->array_data, &data, sizeof(data));
    if (error)
        return error;
    if (length < 0 || length > HOTSPOT_HEAPS)
        return -ENOTSUP;
    attaching->n_heaps = (uint32_t)length;
    return length && data ? attaching_read(attaching, data, attaching->heaps,
                                           (uint32_t)length * (uint32_t)sizeof(uint64_t))
                          : -EAGAIN;
}

static int attaching_read_heap(struct attaching *attaching, uint32_t i)
{
    const struct hotspot_statics *statics = &attaching->statics;
    struct hotspot_process *process = attaching->process;
    struct hotspot_heap *heap = &process->heaps[i];
    uint64_t at = attaching->heaps[i];
    uint32_t shift = 0;
    struct reader_range ranges[] = {
        {at + statics->heap_memory + statics->space_low, &heap->low, 8, 0},
        {at + statics->heap_memory + statics->space_high, &heap->high, 8, 0},
        {at + statics->heap_segmap + statics->space_low, &heap->segmap, 8, 0},
        {at + statics->heap_log2_segment, &shift, sizeof(shift), 0},
    };
    if (!at)
        return -EAGAIN;
    int error = hotspot_memory_read(attaching->memory, ranges, 4);
    for (int range = 0; !error && range < 4; range++)
        error = ranges[range].error;
    if (error)
        return error;
    if (!heap->low || !heap->segmap)
        return -EAGAIN;
    if (heap->high <= heap->low || heap->high - heap->low > HEAP_BYTES_MAX ||
        shift < SEGMENT_SHIFT_MIN || shift > SEGMENT_SHIFT_MAX ||
        (i && shift != process->segment_shift))
        return -ENOTSUP;
    process->segment_shift = shift;
    return 0;
}

static int attaching_read_heaps(struct attaching *attaching, uint64_t list, uint64_t heap)
{
    int error = attaching_list_heaps(attaching, list, heap);
    for (uint32_t i = 0; !error && i < attaching->n_heaps; i++)
        error = attaching_read_heap(attaching, i);
    return error;
}

/* ---- interpreter ---- */

static int attaching_read_interpreter(struct attaching *attaching, uint64_t queue)
{
    const struct hotspot_statics *statics = &attaching->statics;
    struct hotspot_process *process = attaching->process;
    uint8_t bytes[OBJECT_BYTES];
    if (!queue)
        return -EAGAIN;
    if (statics->queue_buffer > OBJECT_BYTES - 8 || statics->queue_limit > OBJECT_BYTES - 8 ||
        statics->queue_stubs > OBJECT_BYTES - 8)
        return -ENOTSUP;
    uint32_t end = statics->queue_stubs;
    end = statics->queue_buffer > end ? statics->queue_buffer : end;
    end = statics->queue_limit > end ? statics->queue_limit : end;
    int error = attaching_read(attaching, queue, bytes, end + 8);
    if (error)
        return error;
    uint64_t start = bytes_word(bytes, statics->queue_buffer);
    uint32_t size = bytes_int(bytes, statics->queue_limit);
    if (!start || !bytes_int(bytes, statics->queue_stubs))
        return -EAGAIN;
    if (!size || size > INTERPRETER_MAX)
        return -ENOTSUP;
    process->interpreter = start;
    process->interpreter_end = start + size;
    const struct hotspot_codelets codelets = {
        .size = statics->codelet_size,
        .description = statics->codelet_description,
        .header_bytes = statics->codelet_bytes,
        .n = bytes_int(bytes, statics->queue_stubs),
    };
    return hotspot_interpreter_find_entries(&codelets, attaching->memory, process);
}

/* ---- all ---- */

static int attaching_set_version(struct attaching *attaching, uint64_t jdk, uint64_t vm)
{
    unsigned major = attaching->statics.jdk_version ? jdk & 0xff : (uint32_t)vm;
    if (!major)
        return -EAGAIN;
    if (major < MAJOR_MIN || major > MAJOR_MAX)
        return -ENOTSUP;
    hotspot_layout_set_major(attaching->process, major);
    return 0;
}

static int attaching_find(struct attaching *attaching, uint64_t return_barrier)
{
    enum { HEAPS, HEAP, INTERPRETER, CALL_STUB, JDK_VERSION, VM_VERSION, VARIABLES };
    const struct hotspot_statics *statics = &attaching->statics;
    const uint64_t addresses[VARIABLES] = {
        [HEAPS] = statics->heaps,
        [HEAP] = statics->heap,
        [INTERPRETER] = statics->interpreter,
        [CALL_STUB] = statics->call_stub_return,
        [JDK_VERSION] = statics->jdk_version,
        [VM_VERSION] = statics->vm_version,
    };
    uint64_t values[VARIABLES] = {0};
    int error = attaching_read_variables(attaching, return_barrier, values, addresses, VARIABLES);
    if (!error)
        error = attaching_set_version(attaching, values[JDK_VERSION], values[VM_VERSION]);
    if (!error && !values[CALL_STUB])
        error = -EAGAIN;
    if (!error)
        error = attaching_read_heaps(attaching, values[HEAPS], values[HEAP]);
    attaching->process->call_stub_return = values[CALL_STUB];
    return error ? error : attaching_read_interpreter(attaching, values[INTERPRETER]);
}

/* Without it frames behind native code that cannot be unwound are missing. */
static void attaching_find_thread(struct attaching *attaching,
                                  const struct hotspot_constants *constants, uint64_t load_bias)
{
    struct hotspot_thread_layout *thread = &attaching->process->thread;
    uint64_t module = 0;
    bool known = constants->thread_module && thread->anchor != HOTSPOT_NONE &&
                 thread->anchor_sp != HOTSPOT_NONE && thread->anchor_pc != HOTSPOT_NONE &&
                 thread->anchor_fp != HOTSPOT_NONE;
    if (known &&
        !attaching_read(attaching, constants->thread_module + load_bias, &module, sizeof(module)) &&
        module <= UINT16_MAX)
        thread->module = (uint16_t)module;
    thread->variable = constants->thread;
}

static enum runtime_refusal refusal_of(int error)
{
    switch (error) {
    case 0:
        return RUNTIME_REFUSAL_NONE;
    case -EAGAIN:
        return RUNTIME_REFUSAL_NOT_READY;
    default:
        return RUNTIME_REFUSAL_UNKNOWN_LAYOUT;
    }
}

int hotspot_attach(const struct hotspot_constants *constants, uint64_t load_bias,
                   struct runtime_memory *memory, struct hotspot_process *process,
                   enum runtime_refusal *why)
{
    struct attaching attaching = {.memory = memory, .process = process};
    struct hotspot_tables *tables;
    memset(process, 0, sizeof(*process));
#if defined(__x86_64__)
    int error = hotspot_tables_open(&constants->exports, load_bias, memory, &tables);
    if (!error)
        error = hotspot_layout_find(tables, process, &attaching.statics);
    hotspot_tables_close(tables);
    uint64_t barrier = constants->return_barrier, stubs = constants->stub_list;
    if (!error)
        error = attaching_find(&attaching, barrier ? barrier + load_bias : 0);
    if (!error && stubs && process->names.major >= STUB_LIST_SINCE)
        process->stub_list = stubs + load_bias;
    if (!error)
        attaching_find_thread(&attaching, constants, load_bias);
    if (error == -EBADMSG)
        error = -ENOTSUP;
#else
    int error = -ENOTSUP; /* frames of other processors are not known */
#endif
    *why = refusal_of(error);
    return error;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_layout.h"
#include <errno.h>

#define OFFSET_MAX        4096 /* of objects other than CodeBlobs */
#define PC_DESC_BYTES_MAX 64

enum need { NEEDED, OPTIONAL };

struct row { /* the first row of a place that there is a field for counts */
    size_t place;
    const char *type;
    const char *name;
    enum need need; /* of the last row of a place */
};

struct layout { /* all places are in it, so that one table fills them */
    struct hotspot_process process;
    struct hotspot_statics statics;
};

#define BLOB(field)   offsetof(struct layout, process.blob.field)
#define METHOD(field) offsetof(struct layout, process.method.field)
#define THREAD(field) offsetof(struct layout, process.thread.field)
#define NAMES(field)  offsetof(struct layout, process.names.field)
#define STATIC(field) offsetof(struct layout, statics.field)

static const struct row fields[] = {
    {BLOB(block_length), "HeapBlock::Header", "_length", NEEDED},
    {BLOB(block_used), "HeapBlock::Header", "_used", NEEDED},
    {BLOB(name), "CodeBlob", "_name", NEEDED},
    {BLOB(size), "CodeBlob", "_size", NEEDED},
    {BLOB(header_size), "CodeBlob", "_header_size", NEEDED},
    {BLOB(frame_size), "CodeBlob", "_frame_size", NEEDED},
    {BLOB(frame_complete), "CodeBlob", "_frame_complete_offset", NEEDED},
    {BLOB(code_begin), "CodeBlob", "_code_begin", OPTIONAL},
    {BLOB(code_begin), "CodeBlob", "_code_offset", NEEDED},
    {BLOB(code_end), "CodeBlob", "_code_end", OPTIONAL},
    {BLOB(code_end), "CodeBlob", "_data_offset", NEEDED},
    {BLOB(compile_id), "nmethod", "_compile_id", NEEDED},
    {BLOB(level), "nmethod", "_comp_level", NEEDED},
    {BLOB(original_pc), "nmethod", "_orig_pc_offset", NEEDED},
    {BLOB(deopt), "CompiledMethod", "_deopt_handler_begin", OPTIONAL},
    {BLOB(deopt), "nmethod", "_deopt_handler_offset", OPTIONAL},
    {BLOB(deopt), "nmethod", "_deopt_handler_entry_offset", OPTIONAL}, /* 26 */
    {BLOB(deopt), "nmethod", "_deoptimize_offset", NEEDED},            /* 8 */
    {BLOB(deopt_method_handle), "CompiledMethod", "_deopt_mh_handler_begin", OPTIONAL},
    {BLOB(deopt_method_handle), "nmethod", "_deopt_mh_handler_offset", OPTIONAL},
    {METHOD(const_method), "Method", "_constMethod", NEEDED},
    {METHOD(code_size), "ConstMethod", "_code_size", NEEDED},
    {THREAD(anchor), "JavaThread", "_anchor", OPTIONAL},
    {THREAD(anchor_sp), "JavaFrameAnchor", "_last_Java_sp", OPTIONAL},
    {THREAD(anchor_pc), "JavaFrameAnchor", "_last_Java_pc", OPTIONAL},
    {THREAD(anchor_fp), "JavaFrameAnchor", "_last_Java_fp", OPTIONAL},
    {NAMES(method), "CompiledMethod", "_method", OPTIONAL},
    {NAMES(method), "nmethod", "_method", NEEDED},
    {NAMES(metadata), "nmethod", "_metadata_offset", OPTIONAL},
    {NAMES(metadata), "CodeBlob", "_relocation_size", NEEDED}, /* 25: behind the relocations */
    {NAMES(scopes_data_base), "CompiledMethod", "_scopes_data_begin", OPTIONAL},
    {NAMES(scopes_data_base), "nmethod", "_immutable_data", OPTIONAL},
    {NAMES(scopes_data), "nmethod", "_scopes_data_offset", OPTIONAL},
    {NAMES(scopes_data_end), "nmethod", "_immutable_data_size", OPTIONAL},
    {NAMES(scopes_pcs_base), "nmethod", "_immutable_data", OPTIONAL},
    {NAMES(scopes_pcs), "nmethod", "_scopes_pcs_offset", NEEDED},
    {NAMES(scopes_pcs_end), "nmethod", "_dependencies_offset", OPTIONAL},
    {NAMES(scopes_pcs_end), "nmethod", "_scopes_data_offset", NEEDED},
    {NAMES(pc_desc_pc), "PcDesc", "_pc_offset", NEEDED},
    {NAMES(pc_desc_scope), "PcDesc", "_scope_decode_offset", NEEDED},
    {NAMES(const_method_constants), "ConstMethod", "_constants", NEEDED},
    {NAMES(const_method_size), "ConstMethod", "_constMethod_size", NEEDED},
    {NAMES(const_method_flags), "ConstMethod", "_flags", OPTIONAL},
    {NAMES(const_method_flags), "ConstMethod", "_flags._flags", NEEDED}, /* 21 */
    {NAMES(const_method_name), "ConstMethod", "_name_index", NEEDED},
    {NAMES(const_method_signature), "ConstMethod", "_signature_index", NEEDED},
    {NAMES(pool_holder), "ConstantPool", "_pool_holder", NEEDED},
    {NAMES(pool_source_file), "ConstantPool", "_source_file_name_index", OPTIONAL},
    {NAMES(klass_source_file), "InstanceKlass", "_source_file_name_index", OPTIONAL},
    {NAMES(klass_name), "Klass", "_name", NEEDED},
    {NAMES(klass_constants), "InstanceKlass", "_constants", NEEDED},
    {NAMES(klass_next), "Klass", "_next_link", NEEDED},
    {NAMES(klass_loader_data), "Klass", "_class_loader_data", NEEDED},
    {NAMES(loader_classes), "ClassLoaderData", "_klasses", NEEDED},
    {NAMES(loader_kind), "ClassLoaderData", "_has_class_mirror_holder", OPTIONAL},
    {NAMES(loader_kind), "ClassLoaderData", "_is_unsafe_anonymous", OPTIONAL}, /* 12 to 16 */
    {NAMES(loader_kind), "ClassLoaderData", "_is_anonymous", OPTIONAL},        /* 8, 11 */
    {NAMES(symbol_length), "Symbol", "_length", OPTIONAL},
    {NAMES(symbol_length), "Symbol", "_length_and_refcount", NEEDED},     /* 12 to 15 */
    {NAMES(symbol_references), "Symbol", "_hash_and_refcount", OPTIONAL}, /* the low half */
    {NAMES(symbol_references), "Symbol", "_length_and_refcount", OPTIONAL},
    {NAMES(symbol_references), "Symbol", "_refcount", OPTIONAL},
    {NAMES(symbol_body), "Symbol", "_body", OPTIONAL},
    {NAMES(symbol_body), "Symbol", "_body[0]", NEEDED},
    {STATIC(array_length), "GrowableArrayBase", "_len", OPTIONAL},
    {STATIC(array_length), "GenericGrowableArray", "_len", OPTIONAL},
    {STATIC(array_data), "GrowableArray<int>", "_data", OPTIONAL},
    {STATIC(heap_memory), "CodeHeap", "_memory", NEEDED},
    {STATIC(heap_segmap), "CodeHeap", "_segmap", NEEDED},
    {STATIC(heap_log2_segment), "CodeHeap", "_log2_segment_size", NEEDED},
    {STATIC(space_low), "VirtualSpace", "_low_boundary", NEEDED},
    {STATIC(space_high), "VirtualSpace", "_high_boundary", NEEDED},
    {STATIC(queue_buffer), "StubQueue", "_stub_buffer", NEEDED},
    {STATIC(queue_limit), "StubQueue", "_buffer_limit", NEEDED},
    {STATIC(queue_stubs), "StubQueue", "_number_of_stubs", NEEDED},
    {STATIC(codelet_size), "InterpreterCodelet", "_size", NEEDED},
    {STATIC(codelet_description), "InterpreterCodelet", "_description", NEEDED},
};

static const struct row variables[] = {
    {STATIC(heaps), "CodeCache", "_heaps", OPTIONAL},
    {STATIC(heap), "CodeCache", "_heap", OPTIONAL},
    {STATIC(interpreter), "AbstractInterpreter", "_code", NEEDED},
    {STATIC(call_stub_return), "StubRoutines", "_call_stub_return_address", NEEDED},
    {STATIC(jdk_version), "JDK_Version", "_current", OPTIONAL},
    {STATIC(vm_version), "Abstract_VM_Version", "_vm_major_version", OPTIONAL},
};

static const struct row sizes[] = {
    {BLOB(block_bytes), "HeapBlock", NULL, NEEDED},
    {BLOB(nmethod_bytes), "nmethod", NULL, NEEDED},
    {METHOD(bytecodes), "ConstMethod", NULL, NEEDED},
    {NAMES(pc_desc_bytes), "PcDesc", NULL, NEEDED},
    {NAMES(pool_bytes), "ConstantPool", NULL, NEEDED},
    {STATIC(codelet_bytes), "InterpreterCodelet", NULL, NEEDED},
};

#define N(array) (sizeof(array) / sizeof(*(array)))

static uint16_t *layout_place(struct layout *layout, size_t place)
{
    return (uint16_t *)(void *)((uint8_t *)layout + place);
}

static int layout_set_fields(struct layout *layout, const struct hotspot_tables *tables)
{
    for (size_t i = 0; i < N(fields); i++)
        *layout_place(layout, fields[i].place) = HOTSPOT_NONE;
    for (size_t i = 0; i < N(fields); i++) {
        struct hotspot_field field;
        uint16_t *place = layout_place(layout, fields[i].place);
        if (*place == HOTSPOT_NONE &&
            hotspot_tables_field(tables, fields[i].type, fields[i].name, &field)) {
            if (field.is_static || field.place >= OFFSET_MAX)
                return -ENOTSUP;
            *place = (uint16_t)field.place;
        }
        if (*place == HOTSPOT_NONE && fields[i].need == NEEDED)
            return -ENOTSUP;
    }
    return 0;
}

static int layout_set_sizes(struct layout *layout, const struct hotspot_tables *tables)
{
    for (size_t i = 0; i < N(sizes); i++) {
        uint64_t size;
        if (!hotspot_tables_size(tables, sizes[i].type, &size) || size >= OFFSET_MAX || !size)
            return -ENOTSUP;
        *layout_place(layout, sizes[i].place) = (uint16_t)size;
    }
    return 0;
}

static int layout_set_variables(struct layout *layout, const struct hotspot_tables *tables)
{
    for (size_t i = 0; i < N(variables); i++) {
        struct hotspot_field field;
        uint64_t address = 0;
        if (hotspot_tables_field(tables, variables[i].type, variables[i].name, &field) &&
            field.is_static)
            address = field.place;
        memcpy((uint8_t *)layout + variables[i].place, &address, sizeof(address));
        if (!address && variables[i].need == NEEDED)
            return -ENOTSUP;
    }
    return layout->statics.heaps || layout->statics.heap ? 0 : -ENOTSUP;
}

/* The width of a field, from its type. */
static uint8_t width_of(const struct hotspot_tables *tables, const char *type, const char *name,
                        uint8_t otherwise)
{
    struct hotspot_field field;
    if (!hotspot_tables_field(tables, type, name, &field))
        return otherwise;
    if (!strcmp(field.type, "u2") || !strcmp(field.type, "int16_t") ||
        !strcmp(field.type, "uint16_t"))
        return 2;
    if (!strcmp(field.type, "int") || !strcmp(field.type, "uint32_t"))
        return 4;
    return !strcmp(field.type, "size_t") ? 8 : otherwise;
}

static void layout_set_widths(struct layout *layout, const struct hotspot_tables *tables)
{
    struct hotspot_blob_layout *blob = &layout->process.blob;
    struct hotspot_names_layout *names = &layout->process.names;
    struct hotspot_field field;
    blob->has_offsets = !hotspot_tables_field(tables, "CodeBlob", "_code_begin", &field);
    blob->deopt_is_offset =
        !hotspot_tables_field(tables, "CompiledMethod", "_deopt_handler_begin", &field);
    blob->length_bytes = width_of(tables, "HeapBlock::Header", "_length", 8);
    blob->header_size_bytes = width_of(tables, "CodeBlob", "_header_size", 4);
    blob->frame_complete_bytes = width_of(tables, "CodeBlob", "_frame_complete_offset", 4);
    blob->level_bytes = width_of(tables, "nmethod", "_comp_level", 1);
    names->metadata_bytes = width_of(tables, "nmethod", "_metadata_offset", 4);
    names->symbol_length_shift = hotspot_tables_field(tables, "Symbol", "_length", &field) ? 0 : 16;
}

/* Where an nmethod has its metadata and scopes has moved with every generation. */
static void layout_set_bases(struct layout *layout, const struct hotspot_tables *tables)
{
    struct hotspot_names_layout *names = &layout->process.names;
    struct hotspot_field field;
    names->metadata_base = names->metadata_more = HOTSPOT_NONE;
    if (hotspot_tables_field(tables, "CodeBlob", "_mutable_data", &field)) /* 25 */
        names->metadata_base = (uint16_t)field.place;
    else if (names->metadata_bytes == 2) /* 23, 24: behind the start of the data */
        names->metadata_more = layout->process.blob.code_end;
    if (names->scopes_pcs_base == HOTSPOT_NONE) { /* up to 22 */
        if (names->scopes_data_base != HOTSPOT_NONE)
            names->scopes_data = HOTSPOT_NONE;
        names->scopes_data_end = HOTSPOT_NONE;
    }
}

/* What the walk reads of a CodeBlob is there and aligned. */
static bool blob_is_bounded(const struct hotspot_blob_layout *blob)
{
    const uint16_t words[] = {
        blob->name, blob->code_begin, blob->code_end, blob->deopt,
        blob->deopt_method_handle == HOTSPOT_NONE ? blob->deopt : blob->deopt_method_handle};
    const uint16_t ints[] = {blob->size,           blob->header_size, blob->frame_size,
                             blob->frame_complete, blob->compile_id,  blob->original_pc};
    uint16_t word = blob->has_offsets && blob->deopt_is_offset ? 4 : 8;
    for (size_t i = 0; i < N(words); i++)
        if (words[i] % 4 || words[i] + word + blob->block_bytes > HOTSPOT_BLOB_BYTES)
            return false;
    for (size_t i = 0; i < N(ints); i++)
        if (ints[i] % 2 || ints[i] + 4 + blob->block_bytes > HOTSPOT_BLOB_BYTES)
            return false;
    return blob->block_bytes <= 64 && blob->block_bytes % 8 == 0 &&
           blob->level + 4 + blob->block_bytes <= HOTSPOT_BLOB_BYTES &&
           blob->block_length + blob->length_bytes <= blob->block_bytes &&
           blob->block_used < blob->block_bytes && blob->nmethod_bytes <= HOTSPOT_BLOB_BYTES;
}

bool hotspot_layout_is_bounded(const struct hotspot_process *process)
{
    const struct hotspot_names_layout *names = &process->names;
    bool counts = names->symbol_references != HOTSPOT_NONE;
    return blob_is_bounded(&process->blob) && names->pc_desc_bytes <= PC_DESC_BYTES_MAX &&
           names->pc_desc_pc + sizeof(int32_t) <= names->pc_desc_bytes &&
           names->pc_desc_scope + sizeof(int32_t) <= names->pc_desc_bytes &&
           names->symbol_length + sizeof(uint32_t) <= HOTSPOT_SYMBOL_HEAD &&
           (!counts || names->symbol_references + sizeof(uint16_t) <= HOTSPOT_SYMBOL_HEAD);
}

int hotspot_layout_find(const struct hotspot_tables *tables, struct hotspot_process *process,
                        struct hotspot_statics *statics)
{
    struct layout layout = {0};
    int error = layout_set_fields(&layout, tables);
    if (!error)
        error = layout_set_sizes(&layout, tables);
    if (!error)
        error = layout_set_variables(&layout, tables);
    if (error)
        return error;
    layout_set_widths(&layout, tables);
    layout_set_bases(&layout, tables);
    if (!hotspot_layout_is_bounded(&layout.process))
        return -ENOTSUP;
    *process = layout.process;
    *statics = layout.statics;
    return 0;
}

void hotspot_layout_set_major(struct hotspot_process *process, unsigned major)
{
    process->names.major = (uint8_t)major;
    process->names.unsigned5_excluded = major >= 20;
    process->method.bcp_slot = major == 8 ? 56 : 64;
}

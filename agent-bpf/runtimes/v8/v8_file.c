/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the ints hold the type that V8's sources give a field, which changes more often than
 * the field. So each has all spellings of Node 16 to 26, and the first that is there counts.
 */
#include "agent-bpf/runtimes/v8/v8_file.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/runtimes/v8/v8_builtins.h"
#include <errno.h>

#define INT_NAME_MAX 128
#define PREFIX       "v8dbg_"
#define VERSION      "_ZN2v88internal7Version6"
#define NONE         (-1)

struct v8_int {
    const char *names; /* separated by spaces */
    uint16_t field;    /* offset in struct v8_file */
    int16_t otherwise; /* the value if no name is there; NONE: it is needed */
};

#define INT(names, field, otherwise)                                                               \
    {                                                                                              \
        names, offsetof(struct v8_file, field), otherwise                                          \
    }

static const struct v8_int v8_ints[] = {
    INT("class_Map__instance_type__uint16_t", map_type, NONE),
    INT("class_JSFunction__shared__SharedFunctionInfo", process.function_shared, NONE),
    INT("class_SharedFunctionInfo__function_data__Object", shared_data, 8),
    INT("class_SharedFunctionInfo__name_or_scope_info__Object "
        "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_ "
        "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
        shared_name, NONE),
    INT("class_SharedFunctionInfo__script_or_debug_info__HeapObject "
        "class_SharedFunctionInfo__script__Tagged_HeapObject_ "
        "class_SharedFunctionInfo__raw_script__Tagged_Object_",
        process.shared_script, NONE),
    INT("class_SharedFunctionInfo__flags__int", process.shared_literal, NONE),
    INT("scopeinfo_idx_first_vars", scope_first, 3),
    INT("class_BytecodeArray__data__uintptr_t", process.bytecode_data, 54),
    INT("CodeKindFieldMask", kind_mask, 15),
    INT("CodeKindBaseline", kind_baseline, 11),
    INT("class_Code__instruction_size__int", code_size, 56),
    INT("class_Code__flags__uint32_t", code_flags, 48),
    INT("DeoptimizationDataLiteralArrayIndex", deopt_literals, 2),
    INT("DeoptimizationDataSharedFunctionInfoIndex "
        "DeoptimizationDataWrappedSharedFunctionInfoIndex",
        deopt_shared, 6),
    INT("DeoptimizationDataInliningPositionsIndex", deopt_inlining, 7),
    INT("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", types.shared_function_info, NONE),
    INT("type_ScopeInfo__SCOPE_INFO_TYPE", types.scope_info, NONE),
    INT("type_Script__SCRIPT_TYPE", types.script, NONE),
    INT("type_BytecodeArray__BYTECODE_ARRAY_TYPE", types.bytecode_array, NONE),
    INT("type_InterpreterData__INTERPRETER_DATA_TYPE", types.interpreter_data, 0),
    INT("type_BaselineData__BASELINE_DATA_TYPE", types.baseline_data, 0),
    INT("type_Code__CODE_TYPE", types.code, NONE),
    INT("type_InstructionStream__INSTRUCTION_STREAM_TYPE", types.instruction_stream, 0),
    INT("type_ByteArray__BYTE_ARRAY_TYPE", types.byte_array, NONE),
    INT("type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE", types.trusted_byte_array, 0),
    INT("type_FixedArray__FIXED_ARRAY_TYPE", types.fixed_array, NONE),
    INT("type_ProtectedFixedArray__PROTECTED_FIXED_ARRAY_TYPE", types.protected_fixed_array, 0),
    INT("type_TrustedFixedArray__TRUSTED_FIXED_ARRAY_TYPE", types.trusted_fixed_array, 0),
    INT("type_WeakFixedArray__WEAK_FIXED_ARRAY_TYPE", types.weak_fixed_array, 0),
    INT("type_TrustedWeakFixedArray__TRUSTED_WEAK_FIXED_ARRAY_TYPE", types.trusted_weak_fixed_array,
        0),
    INT("type_ProtectedWeakFixedArray__PROTECTED_WEAK_FIXED_ARRAY_TYPE",
        types.protected_weak_fixed_array, 0),
    INT("type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE",
        types.shared_function_info_wrapper, 0),
    INT("FirstNonstringType", types.first_nonstring, NONE),
};

/* What must have this value: frames, and tags of pointers, numbers and strings. */
static const struct v8_fixed {
    const char *name;
    int32_t value;
    bool needed;
} v8_fixed[] = {
    {"SmiTag", 0, true},
    {"SmiTagMask", 1, true},
    {"SmiShiftSize", 31, true},
    {"SmiValueShift", 1, true},
    {"HeapObjectTag", 1, true},
    {"HeapObjectTagMask", 3, true},
    {"class_HeapObject__map__Map", 0, false},
    {"off_fp_context", -8, true},
    {"off_fp_function", -16, true},
    {"off_fp_bytecode_array", -32, false},
    {"off_fp_bytecode_offset", -40, false},
    {"StringRepresentationMask", 7, true},
    {"SeqStringTag", 0, true},
    {"ConsStringTag", 1, true},
    {"ExternalStringTag", 2, true},
    {"SlicedStringTag", 3, true},
    {"ThinStringTag", 5, false},
    {"OneByteStringTag", 8, true},
    {"class_String__length__int32_t", 12, true},
    {"class_SeqOneByteString__chars__char", 16, true},
    {"class_ConsString__first__String", 16, true},
    {"class_FixedArrayBase__length__SMI", 8, true},
    {"class_FixedArray__data__uintptr_t", 16, true},
    {"class_Script__name__Object", 16, true},
    {"class_Script__line_ends__Object", 56, true},
    {"InterpreterBytecodeOffsetRegister", 9, false},
    {"InterpreterBytecodeArrayRegister", 12, false},
};

/* Frames between native code and JavaScript: of neither. */
static const char *const hidden_frames[] = {
    "frametype_EntryFrame",       "frametype_ConstructEntryFrame", "frametype_ExitFrame",
    "frametype_BuiltinExitFrame", "frametype_ConstructFrame",      "frametype_FastConstructFrame",
    "frametype_InternalFrame"};

/* What the version alone tells. */
static const struct v8_layout {
    uint32_t since;
    uint16_t code_start, code_header, code_data, code_table, code_align;
} v8_layouts[] = {
    {V8_VERSION(9, 4), 0, 96, 16, 24, 32},
    {V8_VERSION(10, 0), 0, 128, 16, 24, 64},
    {V8_VERSION(11, 3), 40, 16, 16, 24, 64},
    {V8_VERSION(12, 4), 40, 32, 8, 16, 64},
};

/* An int of the file: 0, or ELF_MISSING. */
static int file_int(const struct elf_dynamic *dynamic, const char *name, int32_t *value)
{
    struct elf_symbol found;
    uint64_t offset;
    int error = elf_dynamic_find(dynamic, name, &found);
    if (error)
        return error;
    *value = 0;
    if (!elf_offset_of_address(dynamic->elf, found.symbol.st_value, &offset))
        return 0; /* it is 0, which needs no room in the file */
    return elf_read(dynamic->elf, offset, value, sizeof(*value));
}

static int debug_int(const struct elf_dynamic *dynamic, struct bytes name, int32_t *value)
{
    char full[INT_NAME_MAX] = PREFIX;
    if (name.len >= sizeof(full) - strlen(PREFIX))
        return ELF_MISSING;
    memcpy(full + strlen(PREFIX), name.data, name.len);
    return file_int(dynamic, full, value);
}

static int read_int(const struct elf_dynamic *dynamic, const struct v8_int *row,
                    struct v8_file *file)
{
    int32_t value = row->otherwise;
    int error = ELF_MISSING;
    const char *names = row->names;
    for (size_t length; *names && error == ELF_MISSING; names += length + (names[length] == ' ')) {
        length = strcspn(names, " ");
        error = debug_int(dynamic, BYTES(names, length), &value);
    }
    if (error == ELF_MISSING)
        value = row->otherwise;
    else if (error)
        return error < 0 ? error : V8_FILE_UNKNOWN_LAYOUT;
    if (value < 0 || value > UINT16_MAX)
        return V8_FILE_UNKNOWN_LAYOUT;
    uint16_t number = (uint16_t)value;
    memcpy((uint8_t *)file + row->field, &number, sizeof(number));
    return 0;
}

static int check_fixed(const struct elf_dynamic *dynamic)
{
    for (size_t i = 0; i < sizeof(v8_fixed) / sizeof(*v8_fixed); i++) {
        int32_t value;
        int error = debug_int(dynamic, BYTES_STR(v8_fixed[i].name), &value);
        if (error < 0)
            return error;
        if (error ? v8_fixed[i].needed : value != v8_fixed[i].value)
            return V8_FILE_UNKNOWN_LAYOUT;
    }
    return 0;
}

/* The size of a pointer in the heap is 8 in Node.js; browsers and Electron compress them to 4. */
static int read_version(const struct elf_dynamic *dynamic, struct v8_file *file)
{
    int32_t major, minor, tagged;
    if (file_int(dynamic, VERSION "major_E", &major) ||
        file_int(dynamic, VERSION "minor_E", &minor))
        return V8_FILE_NONE;
    if (major < 0 || major > 99 || minor < 0 || minor > 99)
        return V8_FILE_UNKNOWN_LAYOUT;
    file->version = V8_VERSION(major, minor);
    if (debug_int(dynamic, BYTES_LIT("TaggedSize"), &tagged))
        return V8_FILE_UNKNOWN_LAYOUT;
    if (tagged != 8)
        return V8_FILE_COMPRESSED_POINTERS;
    return file->version < V8_VERSION_FIRST || file->version > V8_VERSION_LAST
               ? V8_FILE_UNKNOWN_LAYOUT
               : 0;
}

static void use_layout(const struct elf_dynamic *dynamic, struct v8_file *file)
{
    const struct v8_layout *layout = v8_layouts;
    int32_t value;
    for (size_t i = 0; i < sizeof(v8_layouts) / sizeof(*v8_layouts); i++)
        if (file->version >= v8_layouts[i].since)
            layout = &v8_layouts[i];
    file->code_start = layout->code_start;
    file->code_header = layout->code_header;
    file->code_data = layout->code_data;
    file->code_table = layout->code_table;
    file->code_align = layout->code_align;
    const char *header = layout->code_start
                             ? "class_InstructionStream__instruction_start__uintptr_t"
                             : "class_Code__instruction_start__uintptr_t";
    if (!debug_int(dynamic, BYTES_STR(header), &value) && value > 0 && value <= 256)
        file->code_header = (uint16_t)value;
    if (layout->code_start &&
        !debug_int(dynamic, BYTES_LIT("class_Code__instruction_start__Address"), &value) &&
        value > 0 && value <= 256)
        file->code_start = (uint16_t)value;
    file->deopt_wrapped =
        !debug_int(dynamic, BYTES_LIT("DeoptimizationDataWrappedSharedFunctionInfoIndex"), &value);
}

static void use_frame_types(const struct elf_dynamic *dynamic, struct v8_file *file)
{
    for (size_t i = 0; i < sizeof(hidden_frames) / sizeof(*hidden_frames); i++) {
        int32_t type;
        if (!debug_int(dynamic, BYTES_STR(hidden_frames[i]), &type) && type > 0 && type < 64)
            file->process.hidden_frames |= UINT64_C(1) << type;
    }
}

/* Objects are read in one go, and the kernel reads a fixed number of bytes of them. */
static bool layout_is_plausible(struct v8_file *file)
{
    struct v8_process *process = &file->process;
    process->shared_literal = (uint16_t)(process->shared_literal + 4); /* behind the flags */
    file->shared_end = (uint16_t)(process->shared_literal + 4);
    return file->map_type <= 64 && file->map_type >= 8 && process->function_shared <= 64 &&
           process->function_shared % 8 == 0 && file->shared_end <= 64 &&
           process->shared_literal % 8 == 4 && process->shared_script % 8 == 0 &&
           process->shared_script < 64 && file->shared_name % 8 == 0 && file->shared_name < 64 &&
           file->shared_data == 8 && file->scope_first >= 3 && file->scope_first <= 8 &&
           process->bytecode_data >= 40 && process->bytecode_data <= 128 &&
           file->code_size <= 128 && file->code_flags <= 128 && file->deopt_literals < 32 &&
           file->deopt_shared < 32 && file->deopt_inlining < 32;
}

int v8_file_read(const struct elf *elf, struct v8_file *file)
{
    struct elf_dynamic dynamic;
    memset(file, 0, sizeof(*file));
    if (elf_dynamic_open(elf, &dynamic))
        return V8_FILE_NONE;
    int error = read_version(&dynamic, file);
    if (!error)
        error = check_fixed(&dynamic);
    for (size_t i = 0; !error && i < sizeof(v8_ints) / sizeof(*v8_ints); i++)
        error = read_int(&dynamic, &v8_ints[i], file);
    if (error)
        return error;
    use_layout(&dynamic, file);
    use_frame_types(&dynamic, file);
    if (elf->machine != EM_X86_64 || !layout_is_plausible(file))
        return V8_FILE_UNKNOWN_LAYOUT;
    return v8_builtins_find(&dynamic, file);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are relative to the start of the code. Before Go 1.26 the table's header has that
 * address; since then, and in position independent programs, only the runtime's moduledata has it,
 * which is found by its first words: pointers to the table and to its names.
 */
#include "agent-bpf/go/go_symbols.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/files/elf_search.h"
#include "agent-bpf/go/go_buildinfo.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define HEADER_WORDS    9
#define MODULE_NAMES    8   /* offsets in moduledata, the same since Go 1.16 */
#define MODULE_TEXT     176 /* runtime.text */
#define PCDATA_INLINE   2   /* index of a function's table of inlined calls */
#define NOT_INLINED     (-1)
#define NO_FILE         UINT32_MAX
#define VALUES_AT_ONCE  1024
#define FUNCTION_FIELDS 10
#define KNOWN_NAME_MAX  24

/* What changed between the forms; the magic number is 0xffffff00 + magic. */
static const struct form {
    uint8_t magic;
    uint8_t address_size; /* in the table of functions: addresses, or offsets from the text */
    bool has_units;       /* files are found through compilation units */
    uint8_t first_word;   /* of the header that holds an offset, names; 0 = offsets are its own */
    uint8_t pcdata;       /* where a function's pcdata begins, behind its address */
    uint8_t flags;        /* field whose second byte has them; 0 = none (1.16 writes a zero) */
    bool all_flagged;     /* all that should be */
} forms[] = {
    {0xfb, 8, false, 0, 32, 0, false}, /* Go 1.2 */
    {0xfa, 8, true, 3, 36, 8, false},  /* Go 1.16 */
    {0xf0, 4, true, 4, 36, 8, false},  /* Go 1.18 */
    {0xf1, 4, true, 4, 40, 9, true},   /* Go 1.20 */
};

struct go_symbols {
    struct elf elf; /* with a descriptor of our own */
    const struct form *form;
    uint64_t offset; /* of the table in the file */
    uint64_t vaddr;
    uint64_t size;
    uint64_t text;
    uint64_t n_functions;
    uint8_t quantum;                                 /* bytes of the smallest instruction */
    uint64_t names, units, files, values, functions; /* in the table */
};

/* A function's entry, behind its address. */
enum {
    FIELD_NAME = 0,
    FIELD_STACK = 3,
    FIELD_FILES = 4,
    FIELD_LINES = 5,
    FIELD_N_PCDATA = 6,
    FIELD_UNIT = 7,
};

struct function {
    uint64_t entry; /* ELF address */
    uint64_t at;    /* of its entry in the table */
    uint32_t fields[FUNCTION_FIELDS];
};

static int read_table(const struct go_symbols *symbols, uint64_t at, void *out, uint64_t size)
{
    if (at > symbols->size || size > symbols->size - at)
        return ELF_MALFORMED;
    return elf_read(&symbols->elf, symbols->offset + at, out, size);
}

/* Adds numbers from the file; an overflow gives an offset outside of the table. */
static uint64_t symbols_sum(uint64_t a, uint64_t b)
{
    uint64_t total;
    return __builtin_add_overflow(a, b, &total) ? UINT64_MAX : total;
}

static int read_text(const struct go_symbols *symbols, uint64_t at, char out[FUNCTION_NAME_MAX])
{
    uint8_t raw[FUNCTION_NAME_MAX];
    if (at >= symbols->size)
        return ELF_MALFORMED;
    uint64_t left = symbols->size - at;
    size_t now = left < sizeof(raw) ? (size_t)left : sizeof(raw);
    int error = read_table(symbols, at, raw, now);
    if (error)
        return error;
    bytes_sanitize(BYTES(raw, strnlen((const char *)raw, now)), out, FUNCTION_NAME_MAX);
    return 0;
}

/* Opening */

static const struct form *form_of(const uint8_t header[8])
{
    if (header[1] != 0xff || header[2] != 0xff || header[3] != 0xff || header[4] || header[5] ||
        (header[6] != 1 && header[6] != 4) || header[7] != sizeof(uint64_t))
        return NULL;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (forms[i].magic == header[0])
            return &forms[i];
    return NULL;
}

static uint64_t entry_size(const struct go_symbols *symbols)
{
    return 2 * (uint64_t)symbols->form->address_size;
}

static int take_header(struct go_symbols *symbols)
{
    uint64_t words[HEADER_WORDS];
    int error = read_table(symbols, 0, words, sizeof(words));
    symbols->form = error ? NULL : form_of((const uint8_t *)words);
    if (!symbols->form)
        return error ? error : ELF_MALFORMED;
    symbols->quantum = ((const uint8_t *)words)[6];
    symbols->n_functions = words[1];
    if (symbols->n_functions > symbols->size / entry_size(symbols))
        return ELF_MALFORMED;
    uint8_t first = symbols->form->first_word;
    if (!first) {
        uint32_t files = 0;
        symbols->functions = 2 * sizeof(*words);
        uint64_t end = symbols->functions + symbols->n_functions * entry_size(symbols);
        error = read_table(symbols, symbols_sum(end, 8), &files, sizeof(files));
        symbols->files = files;
        return error;
    }
    symbols->text = symbols->form->address_size == 4 ? words[first - 1] : 0;
    symbols->names = words[first];
    symbols->units = words[first + 1];
    symbols->files = words[first + 2];
    symbols->values = words[first + 3];
    symbols->functions = words[first + 4];
    return 0;
}

/* The address of a function by its place in the table; that behind the last one is the end. */
static int address_at(const struct go_symbols *symbols, uint64_t index, uint64_t *address)
{
    *address = 0;
    int error = read_table(symbols, symbols_sum(symbols->functions, index * entry_size(symbols)),
                           address, symbols->form->address_size);
    *address += symbols->text;
    return error;
}

static int read_word(const struct elf *elf, uint64_t vaddr, uint64_t *word)
{
    uint64_t offset;
    return elf_offset_of_address(elf, vaddr, &offset) ? elf_read(elf, offset, word, sizeof(*word))
                                                      : ELF_MALFORMED;
}

static bool take_module(void *context, uint64_t vaddr, const uint8_t *match)
{
    struct go_symbols *symbols = context;
    uint64_t names, text;
    (void)match;
    if (read_word(&symbols->elf, vaddr + MODULE_NAMES, &names) ||
        names != symbols_sum(symbols->vaddr, symbols->names) ||
        read_word(&symbols->elf, vaddr + MODULE_TEXT, &text) || !text)
        return false;
    symbols->text = text;
    return true;
}

struct module {
    const struct go_symbols *symbols;
    uint64_t vaddr; /* of moduledata; 0 = not found yet */
    bool names;
    uint64_t text;
};

static bool take_relocated(void *context, const Elf64_Rela *relocation)
{
    struct module *module = context;
    uint64_t value = (uint64_t)relocation->r_addend;
    if (!module->vaddr) {
        if (value == module->symbols->vaddr)
            module->vaddr = relocation->r_offset;
        return module->vaddr;
    }
    if (relocation->r_offset == module->vaddr + MODULE_NAMES)
        module->names = value == symbols_sum(module->symbols->vaddr, module->symbols->names);
    if (relocation->r_offset == module->vaddr + MODULE_TEXT)
        module->text = value;
    return module->names && module->text;
}

static int text_of_relocations(struct go_symbols *symbols)
{
    struct elf_dynamic dynamic;
    struct module module = {.symbols = symbols};
    int error = elf_dynamic_open(&symbols->elf, &dynamic);
    for (int pass = 0; pass < 2 && !error; pass++)
        error = elf_dynamic_relocations(&dynamic, take_relocated, &module);
    symbols->text = module.text;
    return error < 0 ? error : module.names && module.text ? 0 : ELF_MISSING;
}

static int find_text(struct go_symbols *symbols)
{
    struct elf_search search = {
        .segment_flags = PF_W,
        .needle = BYTES(&symbols->vaddr, sizeof(symbols->vaddr)),
        .align = sizeof(uint64_t),
        .bytes_max = GO_SYMBOLS_SEARCH_MAX,
        .take = take_module,
        .context = symbols,
    };
    int error = elf_search(&symbols->elf, &search);
    return error == ELF_MISSING ? text_of_relocations(symbols) : error;
}

static bool take_table(void *context, uint64_t vaddr, const uint8_t *match)
{
    struct go_symbols *symbols = context;
    if (!form_of(match) || !elf_offset_of_address(&symbols->elf, vaddr, &symbols->offset))
        return false;
    symbols->vaddr = vaddr;
    symbols->size = symbols->elf.size - symbols->offset;
    return !take_header(symbols) && symbols->n_functions && symbols->names < symbols->size &&
           symbols->functions < symbols->size;
}

/* For Go files without sections, or with those of the C linker. */
static int search_table(struct go_symbols *symbols)
{
    char version[GO_VERSION_MAX];
    int error = go_buildinfo_version(&symbols->elf, version);
    for (size_t i = sizeof(forms) / sizeof(*forms); i-- > 0 && !error;) {
        const uint8_t magic[] = {forms[i].magic, 0xff, 0xff, 0xff, 0, 0};
        struct elf_search search = {
            .segment_flags = PF_R,
            .needle = BYTES(magic, sizeof(magic)),
            .align = 8,
            .bytes_max = GO_SYMBOLS_SEARCH_MAX,
            .take = take_table,
            .context = symbols,
        };
        error = elf_search(&symbols->elf, &search);
        if (!error)
            break;
        error = error == ELF_MISSING && i ? 0 : error;
    }
    return error;
}

static int locate_table(struct go_symbols *symbols)
{
    Elf64_Shdr section;
    int error = elf_section_named(&symbols->elf, ".gopclntab", &section);
    if (error == ELF_MISSING)
        error = elf_section_named(&symbols->elf, ".data.rel.ro.gopclntab", &section);
    if (error)
        return error < 0 ? error : search_table(symbols);
    if (section.sh_type == SHT_NOBITS || section.sh_offset > symbols->elf.size ||
        section.sh_size > symbols->elf.size - section.sh_offset)
        return ELF_MALFORMED;
    symbols->offset = section.sh_offset;
    symbols->vaddr = section.sh_addr;
    symbols->size = section.sh_size;
    return 0;
}

static int go_symbols_load(struct go_symbols *symbols)
{
    uint64_t first;
    int error = locate_table(symbols);
    error = error ? error : take_header(symbols);
    if (!error && symbols->form->address_size == 4 && !symbols->text)
        error = find_text(symbols);
    error = error ? error : address_at(symbols, 0, &first);
    return error ? error : first && symbols->n_functions ? 0 : ELF_MISSING;
}

int go_symbols_open(const struct elf *elf, struct go_symbols **out)
{
    struct go_symbols *symbols = calloc(1, sizeof(*symbols));
    if (!symbols)
        return -ENOMEM;
    symbols->elf = *elf;
    symbols->elf.fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 0);
    int error = symbols->elf.fd < 0 ? -errno : go_symbols_load(symbols);
    if (error) {
        go_symbols_close(symbols);
        return error;
    }
    *out = symbols;
    return 0;
}

void go_symbols_close(struct go_symbols *symbols)
{
    if (!symbols)
        return;
    if (symbols->elf.fd >= 0)
        close(symbols->elf.fd);
    free(symbols);
}

/* Finding */

static int read_function(const struct go_symbols *symbols, uint64_t index,
                         struct function *function)
{
    uint64_t offset = 0;
    uint8_t size = symbols->form->address_size;
    int error = address_at(symbols, index, &function->entry);
    if (!error)
        error = read_table(symbols, symbols->functions + index * entry_size(symbols) + size,
                           &offset, size);
    uint64_t from = symbols->form->has_units ? symbols->functions : 0;
    function->at = symbols_sum(symbols_sum(from, offset), size);
    return error ? error
                 : read_table(symbols, function->at, function->fields, sizeof(function->fields));
}

/* *index: how many functions begin at the address or before it. */
static int functions_up_to(const struct go_symbols *symbols, uint64_t vaddr, uint64_t *index)
{
    uint64_t low = 0, high = symbols->n_functions + 1, address;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int error = address_at(symbols, middle, &address);
        if (error)
            return error;
        if (address <= vaddr)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low;
    return 0;
}

static int find_function(const struct go_symbols *symbols, uint64_t vaddr,
                         struct function *function)
{
    uint64_t index;
    int error = functions_up_to(symbols, vaddr, &index);
    if (!error && (!index || index > symbols->n_functions))
        return ELF_MISSING; /* before the first or behind the last */
    error = error ? error : read_function(symbols, index - 1, function);
    return error ? error : function->entry <= vaddr ? 0 : ELF_MALFORMED;
}

struct values { /* read piece by piece */
    const struct go_symbols *symbols;
    uint64_t pc;
    uint32_t value;
    bool first;
    uint64_t at, end;
    size_t n, used;
    uint8_t bytes[VALUES_AT_ONCE];
};

static int next_byte(struct values *values, uint8_t *byte)
{
    if (values->used == values->n) {
        uint64_t left = values->end - values->at;
        size_t now = left < VALUES_AT_ONCE ? (size_t)left : VALUES_AT_ONCE;
        int error =
            now ? read_table(values->symbols, values->at, values->bytes, now) : ELF_MALFORMED;
        if (error)
            return error;
        values->at += now;
        values->n = now;
        values->used = 0;
    }
    *byte = values->bytes[values->used++];
    return 0;
}

static int next_varint(struct values *values, uint32_t *number)
{
    uint8_t byte = 0x80;
    *number = 0;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        int error = shift < 35 ? next_byte(values, &byte) : ELF_MALFORMED;
        if (error)
            return error;
        *number |= (uint32_t)(byte & 0x7f) << shift;
    }
    return 0;
}

/* A function's table: pairs of how much the value changes, and how far it holds. */
static int values_open(struct values *values, const struct go_symbols *symbols, uint32_t table,
                       const struct function *function)
{
    *values = (struct values){.symbols = symbols,
                              .at = symbols_sum(symbols->values, table),
                              .pc = function->entry,
                              .value = UINT32_MAX,
                              .first = true};
    if (!table || values->at >= symbols->size)
        return ELF_MISSING;
    uint64_t left = symbols->size - values->at;
    values->end = values->at + (left < GO_SYMBOLS_VALUES_MAX ? left : GO_SYMBOLS_VALUES_MAX);
    return 0;
}

/* values->value holds up to values->pc. ELF_MISSING: that was the last. */
static int values_next(struct values *values)
{
    uint32_t change, distance;
    int error = next_varint(values, &change);
    if (!error && !change && !values->first)
        return ELF_MISSING;
    error = error ? error : next_varint(values, &distance);
    if (error)
        return error;
    values->first = false;
    values->value += change & 1 ? ~(change >> 1) : change >> 1;
    values->pc += (uint64_t)distance * values->symbols->quantum;
    return 0;
}

static int value_at(const struct go_symbols *symbols, uint32_t table,
                    const struct function *function, uint64_t vaddr, int32_t *value)
{
    struct values values;
    int error = values_open(&values, symbols, table, function);
    do
        error = error ? error : values_next(&values);
    while (!error && vaddr >= values.pc);
    *value = (int32_t)values.value;
    return error;
}

static bool is_inlined(const struct go_symbols *symbols, const struct function *function,
                       uint64_t vaddr)
{
    uint32_t table = 0;
    int32_t index = NOT_INLINED;
    if (function->fields[FIELD_N_PCDATA] <= PCDATA_INLINE ||
        read_table(symbols, function->at + symbols->form->pcdata + 4 * PCDATA_INLINE, &table,
                   sizeof(table)))
        return false;
    return !value_at(symbols, table, function, vaddr, &index) && index != NOT_INLINED;
}

static int find_file(const struct go_symbols *symbols, const struct function *function,
                     uint64_t vaddr, struct function_name *name)
{
    int32_t number;
    uint32_t offset = 0;
    int error = value_at(symbols, function->fields[FIELD_FILES], function, vaddr, &number);
    if (error || number < 0)
        return error ? error : ELF_MISSING;
    if (!symbols->form->has_units) {
        error = read_table(symbols, symbols_sum(symbols->files, 4 * (uint64_t)number), &offset, 4);
        return error ? error : read_text(symbols, offset, name->file);
    }
    uint64_t unit = (uint64_t)function->fields[FIELD_UNIT] + (uint64_t)number;
    error = read_table(symbols, symbols_sum(symbols->units, 4 * unit), &offset, sizeof(offset));
    if (error || offset == NO_FILE)
        return error ? error : ELF_MISSING;
    return read_text(symbols, symbols_sum(symbols->files, offset), name->file);
}

int go_symbols_find(const struct go_symbols *symbols, uint64_t vaddr, struct function_name *name)
{
    struct function function;
    int32_t line;
    memset(name, 0, sizeof(*name));
    int error = find_function(symbols, vaddr, &function);
    if (!error)
        error = read_text(symbols, symbols_sum(symbols->names, function.fields[FIELD_NAME]),
                          name->function);
    if (error || !*name->function)
        return error ? error : ELF_MISSING;
    bool inlined = is_inlined(symbols, &function, vaddr);
    if (find_file(symbols, &function, inlined ? function.entry : vaddr, name) || inlined ||
        value_at(symbols, function.fields[FIELD_LINES], &function, vaddr, &line))
        return 0;
    name->line = line > 0 ? (uint32_t)line : 0;
    return 0;
}

/* Stacks */

struct stretch {
    uint64_t start, end;
    size_t left; /* calls */
    int (*call)(void *context, const struct go_stack *stack);
    void *context;
};

static int tell_stack(struct stretch *stretch, const struct go_stack *stack)
{
    struct go_stack cut = *stack;
    cut.start = cut.start > stretch->start ? cut.start : stretch->start;
    cut.end = cut.end < stretch->end ? cut.end : stretch->end;
    if (cut.start >= cut.end)
        return 0;
    return stretch->left-- ? stretch->call(stretch->context, &cut) : ELF_MALFORMED;
}

/* Flags that are missing in some versions, and all of them before Go 1.17. mcall never returns to
 * its goroutine, which may already run on another thread; sigtramp has no caller. */
static uint8_t flags_by_name(const struct go_symbols *symbols, const struct function *function)
{
    static const struct {
        char name[KNOWN_NAME_MAX];
        uint8_t flags;
    } known[] = {
        {"runtime.mcall", GO_FUNCTION_OUTERMOST},
        {"runtime.sigtramp", GO_FUNCTION_OUTERMOST},
        {"runtime.goexit", GO_FUNCTION_OUTERMOST},
        {"runtime.mstart", GO_FUNCTION_OUTERMOST},
        {"runtime.rt0_go", GO_FUNCTION_OUTERMOST},
        {"runtime.gogo", GO_FUNCTION_WRITES_SP},
        {"runtime.systemstack", GO_FUNCTION_WRITES_SP},
        {"runtime.morestack", GO_FUNCTION_WRITES_SP},
        {"runtime.asmcgocall", GO_FUNCTION_WRITES_SP},
    };
    char name[KNOWN_NAME_MAX];
    if (read_table(symbols, symbols_sum(symbols->names, function->fields[FIELD_NAME]), name,
                   sizeof(name)))
        return 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strncmp(name, known[i].name, sizeof(name)))
            return known[i].flags;
    return 0;
}

static uint8_t flags_of(const struct go_symbols *symbols, const struct function *function)
{
    uint8_t field = symbols->form->flags;
    uint8_t flags = field ? (uint8_t)(function->fields[field] >> 8) : 0;
    if (!symbols->form->all_flagged || flags & GO_FUNCTION_WRITES_SP)
        flags |= flags_by_name(symbols, function);
    return flags;
}

static int tell_function(const struct go_symbols *symbols, const struct function *function,
                         uint64_t end, struct stretch *stretch)
{
    struct values values;
    struct go_stack stack = {.end = function->entry, .flags = flags_of(symbols, function)};
    int error = values_open(&values, symbols, function->fields[FIELD_STACK], function);
    while (!error && stack.end < stretch->end && stack.end < end) {
        error = values_next(&values);
        stack.start = stack.end;
        stack.end = values.pc < end ? values.pc : end;
        stack.depth = values.value;
        if (!error && (int32_t)stack.depth >= 0)
            error = tell_stack(stretch, &stack);
    }
    return error < 0 ? error : 0; /* a malformed table costs only its function */
}

int go_symbols_stacks(const struct go_symbols *symbols, uint64_t start, uint64_t end,
                      int (*call)(void *context, const struct go_stack *stack), void *context)
{
    struct stretch stretch = {start, end, GO_SYMBOLS_STACKS_MAX, call, context};
    uint64_t index = 0, next;
    int error = functions_up_to(symbols, start, &index);
    for (index = index ? index - 1 : 0; !error && index < symbols->n_functions; index++) {
        struct function function;
        error = read_function(symbols, index, &function);
        error = error ? error : address_at(symbols, index + 1, &next);
        if (error || function.entry >= end)
            break;
        if (next > function.entry)
            error = tell_function(symbols, &function, next, &stretch);
    }
    return error;
}

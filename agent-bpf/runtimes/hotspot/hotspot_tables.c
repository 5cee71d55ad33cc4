/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrays are read page by page up to the entry without a name. Then the pages of all names are
 * read: HotSpot's compiler lays them close together, so some 40 pages have them.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_tables.h"
#include "agent-bpf/runtimes/hotspot/hotspot_fetch.h"
#include "agent-bpf/files/elf_dynamic.h"
#include <stdlib.h>

#define PAGE_BYTES  4096
#define CALL_PAGES  15 /* with what a first page lacks within READER_BYTES_MAX */
#define STRIDE_MAX  256
#define ENTRIES_MAX 8192

static const char *const export_names[HOTSPOT_EXPORTS] = {
    [HOTSPOT_STRUCTS] = "gHotSpotVMStructs",
    [HOTSPOT_STRUCT_TYPE] = "gHotSpotVMStructEntryTypeNameOffset",
    [HOTSPOT_STRUCT_FIELD] = "gHotSpotVMStructEntryFieldNameOffset",
    [HOTSPOT_STRUCT_TYPE_STRING] = "gHotSpotVMStructEntryTypeStringOffset",
    [HOTSPOT_STRUCT_IS_STATIC] = "gHotSpotVMStructEntryIsStaticOffset",
    [HOTSPOT_STRUCT_OFFSET] = "gHotSpotVMStructEntryOffsetOffset",
    [HOTSPOT_STRUCT_ADDRESS] = "gHotSpotVMStructEntryAddressOffset",
    [HOTSPOT_STRUCT_STRIDE] = "gHotSpotVMStructEntryArrayStride",
    [HOTSPOT_TYPES] = "gHotSpotVMTypes",
    [HOTSPOT_TYPE_NAME] = "gHotSpotVMTypeEntryTypeNameOffset",
    [HOTSPOT_TYPE_SIZE] = "gHotSpotVMTypeEntrySizeOffset",
    [HOTSPOT_TYPE_STRIDE] = "gHotSpotVMTypeEntryArrayStride",
};

struct table { /* an array as it is in memory */
    uint8_t *bytes;
    uint32_t stride;
    uint32_t n;
};

struct page {
    uint64_t address;
    bool is_read;
};

struct hotspot_tables {
    uint64_t values[HOTSPOT_EXPORTS]; /* of the exported variables */
    struct table structs;
    struct table types;
    size_t n_pages; /* sorted by address */
    struct page pages[HOTSPOT_TEXT_PAGES_MAX];
    uint8_t bytes[HOTSPOT_TEXT_PAGES_MAX][PAGE_BYTES]; /* of each page */
};

int hotspot_exports_find(const struct elf *elf, struct hotspot_exports *exports)
{
    struct elf_dynamic dynamic;
    int error = elf_dynamic_open(elf, &dynamic);
    for (int i = 0; !error && i < HOTSPOT_EXPORTS; i++) {
        struct elf_symbol symbol;
        error = elf_dynamic_find(&dynamic, export_names[i], &symbol);
        exports->of[i] = symbol.symbol.st_value;
    }
    return error > 0 ? -ENOENT : error;
}

/* ---- reading ---- */

static int tables_read_values(struct hotspot_tables *tables, const struct hotspot_exports *exports,
                              uint64_t load_bias, struct runtime_memory *memory)
{
    struct reader_range ranges[HOTSPOT_EXPORTS];
    for (int i = 0; i < HOTSPOT_EXPORTS; i++)
        ranges[i] = (struct reader_range){
            .address = load_bias + exports->of[i],
            .out = &tables->values[i],
            .size = sizeof(tables->values[i]),
        };
    int error = hotspot_memory_read(memory, ranges, HOTSPOT_EXPORTS);
    for (int i = 0; !error && i < HOTSPOT_EXPORTS; i++)
        error = ranges[i].error;
    return error;
}

static uint64_t table_word(const struct table *table, uint32_t entry, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, table->bytes + (size_t)entry * table->stride + offset, sizeof(word));
    return word;
}

/* Reads on behind `size` bytes: how many more there are, 0 at the end of the mapping. */
static int table_read_more(struct table *table, uint64_t address, uint32_t size,
                           struct runtime_memory *memory, uint32_t *more)
{
    struct reader_range ranges[CALL_PAGES];
    uint32_t at = size;
    size_t n = 0;
    for (; n < CALL_PAGES && at < HOTSPOT_TABLE_BYTES_MAX; n++) {
        uint32_t bytes = PAGE_BYTES - (uint32_t)((address + at) % PAGE_BYTES);
        if (bytes > HOTSPOT_TABLE_BYTES_MAX - at)
            bytes = HOTSPOT_TABLE_BYTES_MAX - at;
        ranges[n] = (struct reader_range){address + at, table->bytes + at, bytes, 0};
        at += bytes;
    }
    int error = hotspot_memory_read(memory, ranges, n);
    *more = 0;
    for (size_t i = 0; !error && i < n && !ranges[i].error; i++)
        *more += ranges[i].size;
    return error;
}

/* An array up to the entry whose word at `name` is 0. */
static int table_read(struct table *table, uint64_t address, uint64_t name,
                      struct runtime_memory *memory)
{
    uint32_t size = 0, more;
    table->bytes = malloc(HOTSPOT_TABLE_BYTES_MAX);
    if (!table->bytes)
        return -ENOMEM;
    do {
        int error = table_read_more(table, address, size, memory, &more);
        if (error)
            return error;
        size += more;
        for (; table->n < size / table->stride; table->n++)
            if (!table_word(table, table->n, name))
                return 0;
    } while (more && table->n < ENTRIES_MAX);
    return -EBADMSG;
}

static bool stride_set(struct table *table, uint64_t stride, const uint64_t *offsets, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (offsets[i] > STRIDE_MAX || offsets[i] + sizeof(uint64_t) > stride)
            return false;
    table->stride = (uint32_t)stride;
    return stride <= STRIDE_MAX;
}

static int tables_read_arrays(struct hotspot_tables *tables, struct runtime_memory *memory)
{
    const uint64_t *values = tables->values;
    if (!stride_set(&tables->structs, values[HOTSPOT_STRUCT_STRIDE], &values[HOTSPOT_STRUCT_TYPE],
                    HOTSPOT_STRUCT_STRIDE - HOTSPOT_STRUCT_TYPE) ||
        !stride_set(&tables->types, values[HOTSPOT_TYPE_STRIDE], &values[HOTSPOT_TYPE_NAME],
                    HOTSPOT_TYPE_STRIDE - HOTSPOT_TYPE_NAME))
        return -EBADMSG;
    int error =
        table_read(&tables->structs, values[HOTSPOT_STRUCTS], values[HOTSPOT_STRUCT_TYPE], memory);
    return error ? error
                 : table_read(&tables->types, values[HOTSPOT_TYPES], values[HOTSPOT_TYPE_NAME],
                              memory);
}

/* ---- names ---- */

static struct page *page_find(struct hotspot_tables *tables, uint64_t address, bool add)
{
    uint64_t start = address & ~(uint64_t)(PAGE_BYTES - 1);
    size_t low = 0, high = tables->n_pages;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (tables->pages[middle].address < start)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < tables->n_pages && tables->pages[low].address == start)
        return &tables->pages[low];
    if (!add || tables->n_pages == HOTSPOT_TEXT_PAGES_MAX)
        return NULL;
    memmove(&tables->pages[low + 1], &tables->pages[low],
            (tables->n_pages - low) * sizeof(*tables->pages));
    tables->n_pages++;
    tables->pages[low].address = start;
    tables->pages[low].is_read = false;
    return &tables->pages[low];
}

static void pages_want_text(struct hotspot_tables *tables, uint64_t address)
{
    if (!address)
        return;
    page_find(tables, address, true);
    page_find(tables, address + HOTSPOT_TEXT_MAX - 1, true);
}

static int pages_read(struct hotspot_tables *tables, struct runtime_memory *memory)
{
    for (size_t first = 0; first < tables->n_pages; first += CALL_PAGES) {
        struct reader_range ranges[CALL_PAGES];
        size_t n = tables->n_pages - first < CALL_PAGES ? tables->n_pages - first : CALL_PAGES;
        for (size_t i = 0; i < n; i++)
            ranges[i] = (struct reader_range){tables->pages[first + i].address,
                                              tables->bytes[first + i], PAGE_BYTES, 0};
        int error = hotspot_memory_read(memory, ranges, n);
        if (error)
            return error;
        for (size_t i = 0; i < n; i++)
            tables->pages[first + i].is_read = !ranges[i].error;
    }
    return 0;
}

static int tables_read_names(struct hotspot_tables *tables, struct runtime_memory *memory)
{
    const uint64_t *values = tables->values;
    for (uint32_t i = 0; i < tables->structs.n; i++) {
        pages_want_text(tables, table_word(&tables->structs, i, values[HOTSPOT_STRUCT_TYPE]));
        pages_want_text(tables, table_word(&tables->structs, i, values[HOTSPOT_STRUCT_FIELD]));
        pages_want_text(tables,
                        table_word(&tables->structs, i, values[HOTSPOT_STRUCT_TYPE_STRING]));
    }
    for (uint32_t i = 0; i < tables->types.n; i++)
        pages_want_text(tables, table_word(&tables->types, i, values[HOTSPOT_TYPE_NAME]));
    return pages_read(tables, memory);
}

/* What is there of the page that the address lies in, from it on. */
static bool page_bytes(const struct hotspot_tables *tables, uint64_t address, const uint8_t **bytes,
                       size_t *n)
{
    const struct page *page = page_find((struct hotspot_tables *)tables, address, false);
    if (!page || !page->is_read)
        return false;
    *bytes = tables->bytes[page - tables->pages] + address % PAGE_BYTES;
    *n = PAGE_BYTES - address % PAGE_BYTES;
    return true;
}

/* True: the text at this address is `text`; it may lie across two pages. */
static bool text_is(const struct hotspot_tables *tables, uint64_t address, const char *text)
{
    size_t size = strlen(text) + 1;
    while (size) {
        const uint8_t *bytes;
        size_t n;
        if (!page_bytes(tables, address, &bytes, &n))
            return false;
        if (n > size)
            n = size;
        if (memcmp(bytes, text, n) != 0)
            return false;
        address += n;
        text += n;
        size -= n;
    }
    return true;
}

/* ---- public ---- */

int hotspot_tables_open(const struct hotspot_exports *exports, uint64_t load_bias,
                        struct runtime_memory *memory, struct hotspot_tables **tables)
{
    struct hotspot_tables *made = calloc(1, sizeof(*made));
    *tables = made;
    if (!made)
        return -ENOMEM;
    int error = tables_read_values(made, exports, load_bias, memory);
    if (!error)
        error = tables_read_arrays(made, memory);
    if (!error)
        error = tables_read_names(made, memory);
    return error;
}

void hotspot_tables_close(struct hotspot_tables *tables)
{
    if (!tables)
        return;
    free(tables->structs.bytes);
    free(tables->types.bytes);
    free(tables);
}

static const char *field_type(const struct hotspot_tables *tables, uint64_t address)
{
    static const char *const known[] = {"int16_t", "u2", "uint16_t", "int", "uint32_t", "size_t"};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (address && text_is(tables, address, known[i]))
            return known[i];
    return "";
}

bool hotspot_tables_field(const struct hotspot_tables *tables, const char *type, const char *name,
                          struct hotspot_field *field)
{
    const uint64_t *values = tables->values;
    const struct table *table = &tables->structs;
    for (uint32_t i = 0; i < table->n; i++) {
        if (!text_is(tables, table_word(table, i, values[HOTSPOT_STRUCT_FIELD]), name) ||
            !text_is(tables, table_word(table, i, values[HOTSPOT_STRUCT_TYPE]), type))
            continue;
        field->is_static = (int32_t)table_word(table, i, values[HOTSPOT_STRUCT_IS_STATIC]) != 0;
        field->place = table_word(
            table, i, values[field->is_static ? HOTSPOT_STRUCT_ADDRESS : HOTSPOT_STRUCT_OFFSET]);
        field->type = field_type(tables, table_word(table, i, values[HOTSPOT_STRUCT_TYPE_STRING]));
        return true;
    }
    return false;
}

bool hotspot_tables_size(const struct hotspot_tables *tables, const char *type, uint64_t *size)
{
    const uint64_t *values = tables->values;
    for (uint32_t i = 0; i < tables->types.n; i++) {
        if (!text_is(tables, table_word(&tables->types, i, values[HOTSPOT_TYPE_NAME]), type))
            continue;
        *size = table_word(&tables->types, i, values[HOTSPOT_TYPE_SIZE]);
        return true;
    }
    return false;
}

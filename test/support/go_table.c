/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/go_table.h"
#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define TABLE_VADDR   0x500000
#define DATA_VADDR    0x600000
#define MODULE        (DATA_VADDR + 0x100)
#define INFO          (DATA_VADDR + 0x80)
#define DYNAMIC       (DATA_VADDR + 0x200)
#define RELOCATIONS   (DATA_VADDR + 0x280)
#define DATA_SIZE     0x400
#define DATA_OFFSET   0x400
#define NAMES_OFFSET  0x380
#define TABLE_OFFSET  0x800
#define N_RELOCATIONS 3

/* Places in the table, the same in each form. */
enum {
    FUNCTIONS = 0x50,
    FIRST = 0xa0,
    SECOND = 0x100,
    NAMES = 0x160,
    UNITS = 0x190,
    FILES = 0x1a0,
    VALUES = 0x1e0
};

struct writer {
    uint8_t *table;
    uint64_t base; /* what the table of functions counts from */
    bool old;      /* addresses instead of offsets; 0xfb: everything counts from the table */
    bool oldest;
};

static void put(uint8_t *at, uint64_t value, size_t size)
{
    memcpy(at, &value, size); /* little-endian */
}

/* 0 is no table. */
enum {
    LINES_FIRST = 1,
    FILE_A = 10,
    LINES_SECOND = 20,
    FILES_SECOND = 30,
    INLINED = 40,
    STACK_FIRST = 50,
    STACK_SECOND = 60,
};

static const struct {
    uint8_t at, bytes[8];
} values[] = {
    {LINES_FIRST, {22, 0x20, 4, 0x20, 0}},          /* -1 + 11 = 10, then + 2 */
    {FILE_A, {2, 0xc0, 1, 0}},                      /* -1 + 1 = 0, for 0xc0 */
    {LINES_SECOND, {62, 0xc0, 1, 0}},               /* -1 + 31 = 30 */
    {FILES_SECOND, {2, 0x80, 1, 2, 0x10, 1, 0x30}}, /* 0, from 0x80 on 1, from 0x90 on 0 again */
    {INLINED, {0, 0x80, 1, 2, 0x10, 1, 0x30}},      /* -1, 0, -1 */
    {STACK_FIRST, {2, 8, 64, 0x30, 63, 8, 0}},      /* 0, 0x20, 0 */
    {STACK_SECOND, {2, 4, 32, 0xbc, 1, 0}},         /* 0, 0x10 */
};

static void put_function(const struct writer *writer, uint64_t at, const uint64_t *words,
                         uint32_t inlined)
{
    size_t size = writer->old ? 8 : 4;
    uint8_t *field = writer->table + at;
    put(field, words[0], size);
    field += size;
    uint32_t base = writer->oldest ? VALUES : 0;
    put(field + 0, words[1], 4);
    put(field + 12, base + words[4], 4);
    put(field + 16, base + words[2], 4);
    put(field + 20, base + words[3], 4);
    put(field + 24, 3, 4); /* npcdata */
    size_t pcdata = writer->oldest ? 32 : writer->table[0] == 0xf1 ? 40 : 36;
    put(field + pcdata + 8, inlined ? base + inlined : 0, 4);
}

static void put_texts(const struct writer *writer, const struct go_table_form *form)
{
    const char *second = form->second ? form->second : "main.second";
    memcpy(writer->table + NAMES, "main.first", 11);
    memcpy(writer->table + NAMES + 11, second, strlen(second) + 1);
    memcpy(writer->table + FILES + 0x10, "/src/a.go\0/src/b.go", 20);
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        memcpy(writer->table + VALUES + values[i].at, values[i].bytes, sizeof(values[i].bytes));
    if (writer->oldest) { /* a table by number; numbers count from 1 in Go, from 0 in ours */
        put(writer->table + FILES, FILES + 0x10, 4);
        put(writer->table + FILES + 4, FILES + 0x1a, 4);
    } else {
        put(writer->table + UNITS, 0x10, 4);
        put(writer->table + UNITS + 4, 0x1a, 4);
    }
}

static void put_header(const struct writer *writer, const struct go_table_form *form)
{
    const uint8_t start[] = {form->magic, 0xff, 0xff, 0xff, 0, 0, 1, 8};
    const uint64_t places[] = {NAMES, UNITS, FILES, VALUES, FUNCTIONS};
    memcpy(writer->table, start, sizeof(start));
    put(writer->table + 8, 2, 8);
    if (writer->oldest)
        return;
    uint8_t *word = writer->table + 24;
    put(writer->table + 16, 2, 8); /* files */
    if (!writer->old) {
        put(word, form->text_word, 8);
        word += 8;
    }
    memcpy(word, places, sizeof(places));
}

void go_table_make(const struct go_table_form *form, uint8_t table[GO_TABLE_SIZE])
{
    struct writer writer = {.table = table,
                            .old = form->magic == 0xfb || form->magic == 0xfa,
                            .oldest = form->magic == 0xfb};
    memset(table, 0, GO_TABLE_SIZE);
    put_header(&writer, form);
    put_texts(&writer, form);
    uint64_t text = writer.old ? GO_TABLE_TEXT : 0, names = writer.oldest ? NAMES : 0;
    uint64_t functions = writer.oldest ? 16 : FUNCTIONS, base = writer.oldest ? 0 : FUNCTIONS;
    size_t size = writer.old ? 8 : 4;
    const uint64_t index[] = {text,          FIRST - base, text + 0x40,
                              SECOND - base, text + 0x100, writer.oldest ? FILES : 0};
    for (size_t i = 0; i < 6; i++)
        put(table + functions + i * size, index[i], size);
    const uint64_t first[] = {text, names, FILE_A, LINES_FIRST, STACK_FIRST};
    const uint64_t second[] = {text + 0x40, names + 11, FILES_SECOND, LINES_SECOND, STACK_SECOND};
    put_function(&writer, FIRST, first, 0);
    put_function(&writer, SECOND, second, INLINED);
    if (!writer.oldest) /* behind funcID, in front of the pcdata */
        table[SECOND + size + (form->magic == 0xf1 ? 37 : 33)] = form->flags;
}

/* The file */

static void put_sections(uint8_t *file, Elf64_Ehdr *header, size_t table_size)
{
    static const char names[] = "\0.gopclntab\0.shstrtab";
    const Elf64_Shdr sections[] = {
        {.sh_type = SHT_NULL},
        {.sh_name = 1,
         .sh_type = SHT_PROGBITS,
         .sh_addr = TABLE_VADDR,
         .sh_offset = TABLE_OFFSET,
         .sh_size = table_size},
        {.sh_name = 12, .sh_type = SHT_STRTAB, .sh_offset = NAMES_OFFSET, .sh_size = sizeof(names)},
    };
    header->e_shoff = 0x200;
    header->e_shentsize = sizeof(*sections);
    header->e_shnum = 3;
    header->e_shstrndx = 2;
    memcpy(file + header->e_shoff, sections, sizeof(sections));
    memcpy(file + NAMES_OFFSET, names, sizeof(names));
}

static void put_segments(uint8_t *file, Elf64_Ehdr *header, size_t table_size)
{
    const Elf64_Phdr segments[] = {
        {.p_type = PT_LOAD,
         .p_flags = PF_R,
         .p_offset = TABLE_OFFSET,
         .p_vaddr = TABLE_VADDR,
         .p_filesz = table_size,
         .p_memsz = table_size},
        {.p_type = PT_LOAD,
         .p_flags = PF_R | PF_W,
         .p_offset = DATA_OFFSET,
         .p_vaddr = DATA_VADDR,
         .p_filesz = DATA_SIZE,
         .p_memsz = DATA_SIZE},
        {.p_type = PT_DYNAMIC,
         .p_offset = DATA_OFFSET + (DYNAMIC - DATA_VADDR),
         .p_filesz = 5 * sizeof(Elf64_Dyn)},
    };
    header->e_phoff = sizeof(*header);
    header->e_phentsize = sizeof(*segments);
    header->e_phnum = 3;
    memcpy(file + header->e_phoff, segments, sizeof(segments));
}

static void put_module(uint8_t *data, uint64_t names, enum go_table_module module)
{
    const uint64_t values_of[][2] = {
        {MODULE, TABLE_VADDR}, {MODULE + 8, TABLE_VADDR + names}, {MODULE + 176, GO_TABLE_TEXT}};
    const Elf64_Dyn dynamic[] = {
        {.d_tag = DT_SYMTAB, .d_un.d_ptr = DATA_VADDR},
        {.d_tag = DT_STRTAB, .d_un.d_ptr = DATA_VADDR},
        {.d_tag = DT_RELA, .d_un.d_ptr = RELOCATIONS},
        {.d_tag = DT_RELASZ, .d_un.d_val = N_RELOCATIONS * sizeof(Elf64_Rela)},
        {.d_tag = DT_NULL},
    };
    memcpy(data + (DYNAMIC - DATA_VADDR), dynamic, sizeof(dynamic));
    for (size_t i = 0; i < N_RELOCATIONS && module == GO_TABLE_RELOCATED; i++) {
        Elf64_Rela relocation = {.r_offset = values_of[i][0],
                                 .r_addend = (Elf64_Sxword)values_of[i][1]};
        memcpy(data + (RELOCATIONS - DATA_VADDR) + i * sizeof(relocation), &relocation,
               sizeof(relocation));
    }
    for (size_t i = 0; i < N_RELOCATIONS && module == GO_TABLE_MODULE; i++)
        put(data + (values_of[i][0] - DATA_VADDR), values_of[i][1], 8);
}

static void put_build_info(uint8_t *data)
{
    uint8_t *info = data + (INFO - DATA_VADDR);
    memcpy(info, "\xff Go buildinf:\x08\x02", 16);
    memcpy(info + 32, "\x08go1.26.8", 9);
}

int go_table_file(struct bytes table, enum go_table_module module, bool sections)
{
    uint8_t *file = calloc(1, TABLE_OFFSET + table.len + 1);
    uint64_t names = NAMES;
    Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = EM_X86_64,
    };
    int fd = memfd_create("go", MFD_CLOEXEC);
    if (!file || fd < 0)
        abort();
    put_segments(file, &header, table.len);
    if (sections)
        put_sections(file, &header, table.len);
    memcpy(file, &header, sizeof(header));
    put_module(file + DATA_OFFSET, names, module);
    put_build_info(file + DATA_OFFSET);
    if (table.len)
        memcpy(file + TABLE_OFFSET, table.data, table.len);
    if (write(fd, file, TABLE_OFFSET + table.len) != (ssize_t)(TABLE_OFFSET + table.len))
        abort();
    free(file);
    return fd;
}

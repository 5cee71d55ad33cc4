/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/go_file.h"
#include <assert.h>
#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT_OFFSET     0x200
#define DATA_OFFSET     0x400
#define DATA_SIZE       0x400
#define SECTIONS_OFFSET 0x800
#define NAMES_OFFSET    0x900
#define STRING_HEADER   (GO_FILE_DATA + 0x180)
#define STRING          (GO_FILE_DATA + 0x1c0)
#define DYNAMIC         (GO_FILE_DATA + 0x200)
#define DYNAMIC_SIZE    (7 * sizeof(Elf64_Dyn))
#define RELOCATIONS     (GO_FILE_DATA + 0x280)
#define N_RELOCATIONS   3

static const char section_names[] = "\0.text\0.go.buildinfo\0.shstrtab";

static void *data_at(struct go_file *file, uint64_t vaddr)
{
    return file->bytes + DATA_OFFSET + (vaddr - GO_FILE_DATA);
}

static void put_word(struct go_file *file, uint64_t vaddr, uint64_t word)
{
    memcpy(data_at(file, vaddr), &word, sizeof(word));
}

static void make_segments(struct go_file *file, Elf64_Ehdr *header)
{
    bool dynamic = file->pie_flag || file->form == GO_FILE_RELOCATIONS;
    const Elf64_Phdr list[] = {
        {.p_type = PT_LOAD,
         .p_flags = PF_R | PF_X,
         .p_offset = TEXT_OFFSET,
         .p_vaddr = GO_FILE_TEXT,
         .p_filesz = GO_FILE_CODE_ROOM,
         .p_memsz = GO_FILE_CODE_ROOM},
        {.p_type = PT_LOAD,
         .p_flags = PF_R | PF_W,
         .p_offset = DATA_OFFSET,
         .p_vaddr = GO_FILE_DATA,
         .p_filesz = DATA_SIZE,
         .p_memsz = DATA_SIZE},
        {.p_type = file->interpreter ? PT_INTERP : PT_NULL},
        {.p_type = dynamic ? PT_DYNAMIC : PT_NULL,
         .p_filesz = DYNAMIC_SIZE,
         .p_offset = DATA_OFFSET + (DYNAMIC - GO_FILE_DATA)},
    };
    header->e_phoff = sizeof(*header);
    header->e_phentsize = sizeof(*list);
    header->e_phnum = sizeof(list) / sizeof(*list);
    memcpy(file->bytes + header->e_phoff, list, sizeof(list));
}

static void make_sections(struct go_file *file, Elf64_Ehdr *header)
{
    const Elf64_Shdr list[] = {
        {.sh_type = SHT_NULL},
        {.sh_name = 1,
         .sh_type = SHT_PROGBITS,
         .sh_addr = GO_FILE_TEXT,
         .sh_offset = TEXT_OFFSET,
         .sh_size = GO_FILE_CODE_ROOM},
        {.sh_name = file->version ? 7 : 1,
         .sh_type = SHT_PROGBITS,
         .sh_addr = GO_FILE_INFO,
         .sh_offset = DATA_OFFSET + (GO_FILE_INFO - GO_FILE_DATA),
         .sh_size = 0x100},
        {.sh_name = 21,
         .sh_type = SHT_STRTAB,
         .sh_offset = NAMES_OFFSET,
         .sh_size = sizeof(section_names)},
    };
    header->e_shoff = SECTIONS_OFFSET;
    header->e_shentsize = sizeof(*list);
    header->e_shnum = sizeof(list) / sizeof(*list);
    header->e_shstrndx = 3;
    memcpy(file->bytes + SECTIONS_OFFSET, list, sizeof(list));
    memcpy(file->bytes + NAMES_OFFSET, section_names, sizeof(section_names));
}

static void make_info(struct go_file *file)
{
    size_t len = strlen(file->version);
    uint8_t *info = data_at(file, GO_FILE_INFO);
    memcpy(info, "\xff Go buildinf:", 14);
    info[14] = 8;
    if (file->form == GO_FILE_INLINE) {
        info[15] = 2;
        info[32] = (uint8_t)len;
        memcpy(info + 33, file->version, len);
        return;
    }
    memcpy(data_at(file, STRING), file->version, len);
    put_word(file, STRING_HEADER + 8, len);
    if (file->form == GO_FILE_POINTERS) {
        put_word(file, GO_FILE_INFO + 16, STRING_HEADER);
        put_word(file, STRING_HEADER, STRING);
    }
}

static void make_dynamic(struct go_file *file)
{
    const Elf64_Rela relocations[N_RELOCATIONS] = {
        {.r_offset = GO_FILE_DATA, .r_addend = GO_FILE_TEXT},
        {.r_offset = STRING_HEADER, .r_addend = STRING},
        {.r_offset = GO_FILE_INFO + 16, .r_addend = STRING_HEADER},
    };
    const Elf64_Dyn dynamic[] = {
        {.d_tag = DT_SYMTAB, .d_un.d_ptr = GO_FILE_DATA},
        {.d_tag = DT_STRTAB, .d_un.d_ptr = GO_FILE_DATA},
        {.d_tag = DT_RELA, .d_un.d_ptr = RELOCATIONS},
        {.d_tag = DT_RELASZ, .d_un.d_val = sizeof(relocations)},
        {.d_tag = DT_FLAGS_1, .d_un.d_val = file->pie_flag ? DF_1_NOW | DF_1_PIE : DF_1_NOW},
        {.d_tag = DT_NULL},
    };
    memcpy(data_at(file, DYNAMIC), dynamic, sizeof(dynamic));
    if (file->form == GO_FILE_RELOCATIONS)
        memcpy(data_at(file, RELOCATIONS), relocations, sizeof(relocations));
}

void go_file_make(struct go_file *file)
{
    assert(file->code_at + file->code.len <= GO_FILE_CODE_ROOM);
    memset(file->bytes, 0, sizeof(file->bytes));
    Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = file->type,
        .e_machine = file->machine,
    };
    make_segments(file, &header);
    if (!file->no_sections)
        make_sections(file, &header);
    if (file->version)
        make_info(file);
    make_dynamic(file);
    *(uint8_t *)data_at(file, GO_FILE_CGO) = file->cgo;
    if (file->code.len)
        memcpy(file->bytes + TEXT_OFFSET + file->code_at, file->code.data, file->code.len);
    memcpy(file->bytes, &header, sizeof(header));
}

int go_file_open(const struct go_file *file)
{
    int fd = memfd_create("go", MFD_CLOEXEC);
    if (fd < 0 || write(fd, file->bytes, sizeof(file->bytes)) != (ssize_t)sizeof(file->bytes))
        abort();
    return fd;
}

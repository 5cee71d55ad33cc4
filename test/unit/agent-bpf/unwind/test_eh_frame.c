/* SPDX-License-Identifier: Apache-2.0 */
/* Small files made here, good and bad, and single programs of instructions. Real files are compared
 * with what readelf says by eh_frame_compare. */
#include "agent-bpf/unwind/eh_cfa.h"
#include "agent-bpf/unwind/eh_frame.h"
#include "base/buf.h"
#include "test/support/fixtures/cpu_time.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define CODE 0x10000 /* address of the first function */

/* ---- instructions ---- */

struct seen {
    uint64_t starts[16], ends[16];
    struct unwind_rule rules[16];
    const struct eh_machine *machine;
    unsigned n;
};

static int note(void *context, uint64_t start, uint64_t end, const struct eh_state *state)
{
    struct seen *seen = context;
    assert_true(seen->n < 16 && start < end);
    seen->starts[seen->n] = start;
    seen->ends[seen->n] = end;
    eh_rule(state, seen->machine, 0, &seen->rules[seen->n++]);
    return 0;
}

static int run(uint16_t machine, struct bytes code, struct seen *seen)
{
    struct eh_state state;
    *seen = (struct seen){.machine = eh_machine_of(machine)};
    eh_state_init(&state, seen->machine);
    if (machine == EM_X86_64) { /* as compilers begin: CFA = rsp + 8, return address at CFA - 8 */
        state.in_register = (struct eh_cfa){.how = UNWIND_REGISTER, .base = 7, .offset = 8};
        state.slots[UNWIND_RA] = (struct eh_slot){UNWIND_AT_CFA, -8};
    }
    struct eh_state initial = state;
    struct eh_program program = {
        .machine = seen->machine,
        .instructions = code,
        .code_align = machine == EM_X86_64 ? 1 : 4,
        .data_align = -8,
        .start = 0x1000,
        .end = 0x1100,
        .initial = &initial,
        .emit = note,
        .context = seen,
    };
    return eh_cfa_run(&program, &state);
}

#define RUN(machine, seen, ...)                                                                    \
    run(machine, BYTES(((uint8_t[]){__VA_ARGS__}), sizeof((uint8_t[]){__VA_ARGS__})), seen)

static void assert_slot(const struct unwind_rule *rule, unsigned slot, int place, int offset)
{
    assert_int_equal(UNWIND_PLACE(rule, slot), place);
    assert_int_equal(rule->offsets[slot], offset);
}

static void usual_function(void **state)
{
    (void)state;
    struct seen seen;
    /* push rbp; mov rsp, rbp; ...; remember; pop; ret; restore */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x20, 0x0a,
                         0x0c, 7, 8, 0xc6, 0x41, 0x0b),
                     0);
    assert_int_equal(seen.n, 5);
    assert_int_equal(seen.starts[0], 0x1000);
    assert_int_equal(seen.starts[1], 0x1001);
    assert_int_equal(seen.starts[2], 0x1004);
    assert_int_equal(seen.starts[3], 0x1024);
    assert_int_equal(seen.starts[4], 0x1025);
    assert_int_equal(seen.ends[4], 0x1100);
    assert_int_equal(seen.rules[0].cfa_offset, 8);
    assert_slot(&seen.rules[0], UNWIND_FP, UNWIND_IN_REGISTER, 6);
    assert_int_equal(seen.rules[1].cfa_offset, 16);
    assert_slot(&seen.rules[1], UNWIND_FP, UNWIND_AT_CFA, -2);
    assert_slot(&seen.rules[1], UNWIND_RA, UNWIND_AT_CFA, -1);
    assert_int_equal(seen.rules[2].base, 6);
    assert_int_equal(seen.rules[3].base, 7);
    assert_slot(&seen.rules[3], UNWIND_FP, UNWIND_IN_REGISTER, 6);
    assert_memory_equal(&seen.rules[4], &seen.rules[2], sizeof(seen.rules[0]));
}

static void expressions(void **state)
{
    (void)state;
    struct seen seen;
    const struct unwind_rule *rule = &seen.rules[0];
    /* PLT: breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus */
    assert_int_equal(
        RUN(EM_X86_64, &seen, 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22),
        0);
    assert_int_equal(rule->cfa, UNWIND_PLT);
    assert_int_equal(rule->cfa_offset, 8);
    assert_int_equal(rule->cfa_add, 11);
    /* realigned: CFA breg6 -40; deref. rbp: breg6 0. rbx: breg6 -48 */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0f, 3, 0x76, 0x58, 0x06, 0x10, 6, 2, 0x76, 0, 0x10, 3,
                         2, 0x76, 0x50),
                     0);
    assert_int_equal(rule->cfa, UNWIND_DEREF);
    assert_int_equal(rule->base, 6);
    assert_int_equal(rule->cfa_offset, -40);
    assert_int_equal(rule->cfa_add, 0);
    assert_slot(rule, UNWIND_FP, UNWIND_AT_FP, 0);
    assert_slot(rule, UNWIND_THIRD, UNWIND_AT_FP, -6);
    /* breg7 152; deref; plus_uconst 8 */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0f, 6, 0x77, 0x98, 0x01, 0x06, 0x23, 8), 0);
    assert_int_equal(rule->cfa, UNWIND_DEREF);
    assert_int_equal(rule->cfa_offset, 152);
    assert_int_equal(rule->cfa_add, 8);
    /* breg7 8; breg9 0; lit8; mul; plus; deref; plus_uconst 16 */
    assert_int_equal(
        RUN(EM_X86_64, &seen, 0x0f, 10, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 16), 0);
    assert_int_equal(rule->cfa, UNWIND_INDEXED);
    assert_int_equal(rule->base, 7);
    assert_int_equal(rule->cfa_offset, 8);
    assert_int_equal(UNWIND_INDEX(rule), 9);
    assert_int_equal(UNWIND_INDEXED_ADD(rule), 16);
    /* the same by words of 4 bytes; with 256 added */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0f, 8, 0x77, 8, 0x79, 0, 0x34, 0x1e, 0x22, 0x06), 0);
    assert_int_equal(rule->cfa, UNWIND_UNKNOWN);
    assert_int_equal(
        RUN(EM_X86_64, &seen, 0x0f, 11, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 0x80, 2),
        0);
    assert_int_equal(rule->cfa, UNWIND_UNKNOWN);
    /* return address by an expression that is none of ours */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x10, 16, 1, 0x06), 0);
    assert_int_equal(rule->cfa, UNWIND_UNKNOWN);
}

static void places(void **state)
{
    (void)state;
    struct seen seen;
    const struct unwind_rule *rule = &seen.rules[0];
    assert_int_equal(RUN(EM_X86_64, &seen, 0x07, 16), 0); /* outermost */
    assert_slot(rule, UNWIND_RA, UNWIND_IN_REGISTER, UNWIND_LOST);
    assert_int_equal(RUN(EM_X86_64, &seen, 0x09, 16, 2, 0x09, 6, 9, 0x14, 3, 1), 0);
    assert_slot(rule, UNWIND_RA, UNWIND_IN_REGISTER, 2);
    assert_slot(rule, UNWIND_FP, UNWIND_IN_REGISTER, 9);
    assert_slot(rule, UNWIND_THIRD, UNWIND_IN_REGISTER, UNWIND_LOST); /* a value, no place */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x08, 16), 0); /* unchanged: no way to the caller */
    assert_int_equal(rule->cfa, UNWIND_UNKNOWN);
    /* what does not fit: CFA = rsp + 2^40; rbp at CFA - 2^40 */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20), 0);
    assert_int_equal(rule->cfa, UNWIND_UNKNOWN);
    assert_int_equal(RUN(EM_X86_64, &seen, 0x86, 0x80, 0x80, 0x80, 0x80, 0x80, 0x04), 0);
    assert_int_equal(rule->cfa, UNWIND_REGISTER);
    assert_slot(rule, UNWIND_FP, UNWIND_IN_REGISTER, UNWIND_LOST);
}

static void aarch64(void **state)
{
    (void)state;
    struct seen seen;
    /* paciasp; stp x29, x30, [sp, -32]!; mov x29, sp */
    assert_int_equal(
        RUN(EM_AARCH64, &seen, 0x41, 0x2d, 0x41, 0x0e, 32, 0x9d, 4, 0x9e, 3, 0x41, 0x0d, 29), 0);
    assert_int_equal(seen.n, 4);
    assert_int_equal(seen.starts[1], 0x1004);
    assert_int_equal(seen.rules[0].cfa, UNWIND_REGISTER);
    assert_int_equal(seen.rules[0].base, 31);
    assert_int_equal(seen.rules[0].cfa_offset, 0);
    assert_slot(&seen.rules[0], UNWIND_RA, UNWIND_IN_REGISTER, 30);
    assert_memory_equal(&seen.rules[0], &seen.rules[1], sizeof(seen.rules[0]));
    assert_slot(&seen.rules[2], UNWIND_RA, UNWIND_AT_CFA, -3);
    assert_slot(&seen.rules[2], UNWIND_FP, UNWIND_AT_CFA, -4);
    assert_int_equal(seen.rules[3].base, 29);
}

static void bad_instructions(void **state)
{
    (void)state;
    struct seen seen;
    uint8_t remember[EH_REMEMBERED_MAX + 1];
    memset(remember, 0x0a, sizeof(remember));
    assert_int_equal(run(EM_X86_64, BYTES(remember, sizeof(remember)), &seen), ELF_MALFORMED);
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0b), ELF_MALFORMED);    /* nothing remembered */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x3f), ELF_MALFORMED);    /* no such instruction */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0c, 7), ELF_MALFORMED); /* cut short */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0f, 0x7f, 0x77), ELF_MALFORMED); /* block too long */
    assert_int_equal(
        RUN(EM_X86_64, &seen, 0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02),
        ELF_MALFORMED); /* 65 bits */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                         0x80, 0x80, 0x80, 0x00),
                     ELF_MALFORMED);                         /* endless */
    assert_int_equal(RUN(EM_X86_64, &seen, 0x0c, 17, 8), 0); /* no such register */
    assert_int_equal(seen.rules[0].cfa, UNWIND_UNKNOWN);
    assert_int_equal(RUN(EM_X86_64, &seen, 0x04, 0xff, 0xff, 0xff, 0xff, 0x41), 0);
    assert_int_equal(seen.ends[0], 0x1100); /* no further than the function */
}

/* ---- files ---- */

enum index { BY_TABLE, BY_SCAN, BY_DEBUG_FRAME };

#define FDES_MAX 4

struct file {
    enum index index;
    struct {
        uint32_t start, size; /* from CODE on */
        struct bytes instructions;
    } fdes[FDES_MAX];
    unsigned n_fdes;
    const char *augmentation;  /* "zR" */
    uint8_t cie_pointer_error; /* added to each */
    struct buf bytes;
    size_t cie_at, fdes_at[FDES_MAX + 1], table_at;
};

static void put(struct file *file, const void *data, size_t size)
{
    assert_int_equal(buf_append(&file->bytes, data, size), 0);
}

static void put_u8(struct file *file, uint8_t value)
{
    put(file, &value, 1);
}

static void put_u32(struct file *file, uint64_t value)
{
    uint32_t word = (uint32_t)value;
    put(file, &word, 4);
}

static void set_u32(struct file *file, size_t at, uint64_t value)
{
    uint32_t word = (uint32_t)value;
    memcpy(file->bytes.data + at, &word, 4);
}

static void put_cie(struct file *file)
{
    bool debug = file->index == BY_DEBUG_FRAME;
    const char *augmentation = debug ? "" : file->augmentation ? file->augmentation : "zR";
    static const uint8_t aligns[] = {1, 0x78, 16}, augmented[] = {1, 0x1b};
    static const uint8_t instructions[] = {0x0c, 7, 8, 0x90, 1};
    file->cie_at = file->bytes.len;
    put_u32(file, 0);
    put_u32(file, debug ? UINT32_MAX : 0);
    put_u8(file, 1);
    put(file, augmentation, strlen(augmentation) + 1);
    put(file, aligns, sizeof(aligns));
    if (!debug)
        put(file, augmented, sizeof(augmented));
    put(file, instructions, sizeof(instructions));
    set_u32(file, file->cie_at, file->bytes.len - file->cie_at - 4);
}

static void put_fde(struct file *file, unsigned i)
{
    bool debug = file->index == BY_DEBUG_FRAME;
    size_t at = file->fdes_at[i] = file->bytes.len;
    uint64_t address[2] = {CODE + file->fdes[i].start, file->fdes[i].size};
    put_u32(file, 0);
    put_u32(file, debug ? 0 : at + 4 - file->cie_at + file->cie_pointer_error);
    if (debug) {
        put(file, address, sizeof(address));
    } else {
        put_u32(file, address[0] - (at + 8));
        put_u32(file, address[1]);
        put_u8(file, 0);
    }
    put(file, file->fdes[i].instructions.data, file->fdes[i].instructions.len);
    set_u32(file, at, file->bytes.len - at - 4);
}

static void put_table(struct file *file)
{
    static const uint8_t encodings[] = {1, 0x1b, 0x03, 0x3b};
    file->table_at = file->bytes.len;
    put(file, encodings, sizeof(encodings));
    put_u32(file, file->cie_at - (file->table_at + 4));
    put_u32(file, file->n_fdes);
    for (unsigned i = 0; i < file->n_fdes; i++) {
        put_u32(file, CODE + file->fdes[i].start - file->table_at);
        put_u32(file, file->fdes_at[i] - file->table_at);
    }
}

/* Addresses are offsets in the file; the code itself is not there. */
static void make(struct file *file)
{
    static const char names[] = "\0.shstrtab\0.eh_frame\0.debug_frame";
    bool table = file->index == BY_TABLE, debug = file->index == BY_DEBUG_FRAME;
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_phoff = sizeof(header),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = table ? 2 : 1,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shstrndx = 1};
    Elf64_Phdr segments[2] = {{.p_type = PT_LOAD}, {.p_type = PT_GNU_EH_FRAME}};
    Elf64_Shdr sections[3] = {
        {.sh_type = SHT_NULL},
        {.sh_type = SHT_STRTAB, .sh_name = 1, .sh_size = sizeof(names)},
        {.sh_type = SHT_PROGBITS, .sh_name = debug ? 21 : 11},
    };
    file->bytes = BUF_INIT(0);
    put(file, &header, sizeof(header));
    put(file, segments, sizeof(segments));
    sections[2].sh_offset = sections[2].sh_addr = file->bytes.len;
    put_cie(file);
    for (unsigned i = 0; i < file->n_fdes; i++)
        put_fde(file, i);
    file->fdes_at[file->n_fdes] = file->bytes.len;
    sections[2].sh_size = file->bytes.len - sections[2].sh_offset;
    if (debug) { /* CIE pointers count from the section's beginning */
        sections[2].sh_addr = 0;
    }
    if (table) {
        put_table(file);
        segments[1].p_offset = segments[1].p_vaddr = file->table_at;
        segments[1].p_filesz = file->bytes.len - file->table_at;
    } else {
        sections[1].sh_offset = file->bytes.len;
        put(file, names, sizeof(names));
        header.e_shoff = file->bytes.len;
        header.e_shnum = 3;
        put(file, sections, sizeof(sections));
    }
    segments[0].p_filesz = file->bytes.len;
    memcpy(file->bytes.data, &header, sizeof(header));
    memcpy(file->bytes.data + sizeof(header), segments, sizeof(segments));
}

/* The page of the code. */
static int read_page(const struct file *file, size_t size, struct unwind_page *page)
{
    struct elf elf;
    struct eh_frame *frame = NULL;
    int fd = memfd_create("elf", MFD_CLOEXEC);
    assert_int_equal(write(fd, file->bytes.data, size), size);
    int error = elf_open(fd, &elf);
    error = error ? error : eh_frame_open(&elf, &frame);
    close(fd); /* it keeps its own */
    error = error ? error : eh_frame_page(frame, CODE + 5, page);
    eh_frame_close(frame);
    return error;
}

#define INSTRUCTIONS(...) BYTES(((uint8_t[]){__VA_ARGS__}), sizeof((uint8_t[]){__VA_ARGS__}))

static const uint8_t pushes[] = {0x42, 0x0e, 16, 0x42, 0x0e, 24}; /* after 2 and 4 bytes */

static struct file two_functions(enum index index)
{
    struct file file = {.index = index, .n_fdes = 2};
    file.fdes[0].start = 0x20;
    file.fdes[0].size = 0x10;
    file.fdes[0].instructions = BYTES(pushes, sizeof(pushes));
    file.fdes[1].start = 0x40;
    file.fdes[1].size = 8;
    return file;
}

static void assert_row(const struct unwind_page *page, uint32_t i, uint16_t low, uint8_t cfa,
                       int32_t offset)
{
    assert_true(i < page->n_rows && page->rows[i].rule < page->n_rules);
    const struct unwind_rule *rule = &page->rules[page->rows[i].rule];
    assert_int_equal(page->rows[i].low, low);
    assert_int_equal(rule->cfa, cfa);
    assert_int_equal(rule->cfa_offset, offset);
}

static void each_index(void **state)
{
    (void)state;
    for (int index = BY_TABLE; index <= BY_DEBUG_FRAME; index++) {
        struct file file = two_functions((enum index)index);
        struct unwind_page page;
        make(&file);
        assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
        assert_int_equal(page.start, CODE);
        assert_int_equal(page.n_rows, 7);
        assert_row(&page, 0, 0, UNWIND_NO_INFO, 0);
        assert_row(&page, 1, 0x20, UNWIND_REGISTER, 8);
        assert_row(&page, 2, 0x22, UNWIND_REGISTER, 16);
        assert_row(&page, 3, 0x24, UNWIND_REGISTER, 24);
        assert_row(&page, 4, 0x30, UNWIND_NO_INFO, 0);
        assert_row(&page, 5, 0x40, UNWIND_REGISTER, 8);
        assert_row(&page, 6, 0x48, UNWIND_NO_INFO, 0);
        assert_int_equal(page.rows[1].rule, page.rows[5].rule);
        assert_int_equal(unwind_page_find(&page, CODE + 0x23)->cfa_offset, 16);
        assert_int_equal(unwind_page_find(&page, CODE + 0xffff)->cfa, UNWIND_NO_INFO);
        assert_int_equal(page.damaged, 0);
        unwind_page_close(&page);
        buf_close(&file.bytes);
    }
}

/* A function that reaches through the page, and those that overlap, touch, or are empty. */
static void functions_meet(void **state)
{
    (void)state;
    struct file file = {.index = BY_TABLE, .n_fdes = 4};
    struct unwind_page page;
    file.fdes[0].start = (uint32_t)-0x100; /* in the page before */
    file.fdes[0].size = 0x20000;
    file.fdes[0].instructions = BYTES(pushes, sizeof(pushes));
    file.fdes[1].start = 0x10; /* empty */
    file.fdes[2].start = 0x10;
    file.fdes[2].size = 0x10;
    file.fdes[3].start = 0x20;
    file.fdes[3].size = 0x20000;
    make(&file);
    assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
    assert_int_equal(page.n_rows, 2);
    assert_row(&page, 0, 0, UNWIND_REGISTER, 24);
    assert_row(&page, 1, 0x10, UNWIND_REGISTER, 8); /* equal neighbours are one */
    assert_int_equal(page.damaged, 0);
    unwind_page_close(&page);
    buf_close(&file.bytes);
}

static void bad_entries_cost_themselves(void **state)
{
    (void)state;
    struct file file = two_functions(BY_TABLE);
    struct unwind_page page;
    file.fdes[0].instructions = INSTRUCTIONS(0x42, 0x0e, 16, 0x3f);
    make(&file);
    assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
    assert_int_equal(page.damaged, 1);
    assert_row(&page, 1, 0x20, UNWIND_UNKNOWN, 0);
    assert_row(&page, 3, 0x40, UNWIND_REGISTER, 8);
    unwind_page_close(&page);
    static const uint64_t lengths[] = {UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 11, 1 << 28};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        set_u32(&file, file.fdes_at[0], UINT32_MAX); /* in 64 bits */
        memcpy(file.bytes.data + file.fdes_at[0] + 4, &lengths[i], 8);
        assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
        assert_int_equal(page.damaged, 1);
        assert_row(&page, 1, 0x40, UNWIND_REGISTER, 8);
        unwind_page_close(&page);
    }
    buf_close(&file.bytes);
}

static void bad_cies(void **state)
{
    (void)state;
    static const char *const augmentations[] = {"", "zQ", "R", "zRRRRRRRRRRRRRRRRRRRRRRRRRRR",
                                                "eh"};
    struct unwind_page page;
    for (size_t i = 0; i < sizeof(augmentations) / sizeof(*augmentations); i++) {
        struct file file = two_functions(BY_TABLE);
        file.augmentation = augmentations[i];
        make(&file);
        assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
        assert_int_equal(page.damaged, 2);
        assert_int_equal(page.n_rows, 1);
        unwind_page_close(&page);
        buf_close(&file.bytes);
    }
    struct file file = two_functions(BY_TABLE);
    file.cie_pointer_error = 1;
    make(&file);
    for (uint32_t pointer = 0; pointer < 64; pointer++) { /* also to itself, and to the other FDE */
        if (pointer == 4 + file.fdes_at[0] - file.cie_at || pointer == 0)
            continue;
        set_u32(&file, file.fdes_at[0] + 4, pointer);
        assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
        assert_int_equal(page.damaged, 2);
        assert_int_equal(page.n_rows, 1);
        unwind_page_close(&page);
    }
    buf_close(&file.bytes);
}

static void bad_table(void **state)
{
    (void)state;
    struct file file = two_functions(BY_TABLE);
    struct unwind_page page;
    uint8_t swapped[8];
    make(&file);
    size_t entries = file.table_at + 12;
    memcpy(swapped, file.bytes.data + entries, 8); /* out of order */
    memmove(file.bytes.data + entries, file.bytes.data + entries + 8, 8);
    memcpy(file.bytes.data + entries + 8, swapped, 8);
    assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
    assert_int_equal(page.damaged, 1);
    unwind_page_close(&page);
    set_u32(&file, entries + 4, 0x7fffffff); /* of an FDE that is nowhere */
    set_u32(&file, entries + 12, 3);
    assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
    assert_int_equal(page.n_rows, 1);
    assert_true(page.damaged > 0);
    unwind_page_close(&page);
    set_u32(&file, file.table_at + 8, 0x10000000); /* a count beyond the segment */
    assert_int_equal(read_page(&file, file.bytes.len, &page), ELF_MISSING);
    buf_close(&file.bytes);
}

static void cut_anywhere(void **state)
{
    (void)state;
    for (int index = BY_TABLE; index <= BY_DEBUG_FRAME; index++) {
        struct file file = two_functions((enum index)index);
        make(&file);
        for (size_t size = 0; size < file.bytes.len; size++) {
            struct unwind_page page = {0};
            int error = read_page(&file, size, &page);
            assert_true(error == ELF_MALFORMED || error == ELF_MISSING || !error);
            unwind_page_close(&page);
        }
        buf_close(&file.bytes);
    }
}

/* The same long FDE over and over, and as many different rules as there are addresses. */
static void work_is_bounded(void **state)
{
    (void)state;
    enum { FDES = 100000, ROWS = 60000 };
    struct file file = two_functions(BY_TABLE);
    _cleanup_buf_ struct buf code = BUF_INIT(0);
    struct unwind_page page;
    for (unsigned i = 0; i < ROWS; i++) {
        uint8_t row[] = {0x41, 0x0e, (uint8_t)(0x80 | i), (uint8_t)(0x80 | i >> 7),
                         (uint8_t)(i >> 14)};
        assert_int_equal(buf_append(&code, row, sizeof(row)), 0);
    }
    file.n_fdes = 1;
    file.fdes[0].start = 0x20;
    file.fdes[0].size = 0xf000;
    file.fdes[0].instructions = buf_bytes(&code);
    make(&file);
    set_u32(&file, file.table_at + 8, FDES);
    uint8_t entry[8];
    memcpy(entry, file.bytes.data + file.table_at + 12, sizeof(entry));
    for (unsigned i = 1; i < FDES; i++)
        put(&file, entry, sizeof(entry));
    Elf64_Phdr *segments = (void *)(file.bytes.data + sizeof(Elf64_Ehdr));
    segments[0].p_filesz = file.bytes.len;
    segments[1].p_filesz = file.bytes.len - file.table_at;
    uint64_t began_ns = cpu_time_ns();
    assert_int_equal(read_page(&file, file.bytes.len, &page), 0);
    uint64_t spent_ns = cpu_time_ns() - began_ns;
    print_message("%.1f ms\n", (double)spent_ns / 1e6);
    assert_true(spent_ns < UINT64_C(5000000000)); /* also with sanitizers */
    assert_true(page.damaged > 0 && page.unknown > 0);
    assert_int_equal(page.n_rules, UNWIND_RULES_MAX);
    assert_true(page.n_rows <= UNWIND_ROWS_MAX);
    unwind_page_close(&page);
    buf_close(&file.bytes);
}

static void page_of_own_code(void **state)
{
    (void)state;
    struct elf elf;
    struct eh_frame *frame;
    FILE *self = fopen("/proc/self/exe", "re");
    uint64_t first, next;
    assert_int_equal(elf_open(fileno(self), &elf), 0);
    assert_int_equal(eh_frame_open(&elf, &frame), 0);
    fclose(self);
    assert_int_equal(eh_frame_next(frame, 0, &first), 0);
    assert_int_equal(eh_frame_next(frame, first, &next), 0);
    assert_int_equal(first, next);
    assert_int_equal(eh_frame_next(frame, first + 1, &next), 0);
    assert_true(next > first);
    assert_int_equal(eh_frame_next(frame, UINT64_MAX, &next), ELF_MISSING);
    assert_true(eh_frame_bytes(frame) < 32 * 1024);
    eh_frame_close(frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_function),   cmocka_unit_test(expressions),
        cmocka_unit_test(places),           cmocka_unit_test(aarch64),
        cmocka_unit_test(bad_instructions), cmocka_unit_test(each_index),
        cmocka_unit_test(functions_meet),   cmocka_unit_test(bad_entries_cost_themselves),
        cmocka_unit_test(bad_cies),         cmocka_unit_test(bad_table),
        cmocka_unit_test(cut_anywhere),     cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(page_of_own_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

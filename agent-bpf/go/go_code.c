/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms seen, by how a program was linked (1.13 to 1.27, linkers of Go and GNU):
 *
 * x86-64   mov %fs:offset,%rax                           fixed address
 *          mov $offset,%rcx; mov %fs:(%rcx),%rax         position independent
 *          mov word(%rip),%rcx; mov %fs:(%rcx),%rax      not relaxed by the linker
 * aarch64  where iscgo is: adrp xN, page; ldrsb w0, [xN, #low]
 *                        | adrp xN, page; add xN, xN, #low; ldrsb x0, [xN]    to 1.19
 *          cbz x0, no    | cmp x0, xzr; b.eq no                               to 1.14
 *          mrs x0, tpidr_el0
 *          mov x27, #offset | movz x27, #high, lsl #16; movk x27, #low
 *                           | adrp x27, page; ldr x27, [x27, #word]           not relaxed
 *          ldr x28, [x0, x27] | add x0, x0, x27; ldr x28, [x0]                to 1.15
 *
 * runtime.iscgo is set by the linker and never changes, so the file's value counts.
 */
#include "agent-bpf/go/go_code.h"
#include "agent-bpf/files/elf_search.h"

#define A64_MRS_TP   0xd53bd040u /* mrs x0, tpidr_el0 */
#define A64_LDR_G    0xf87b681cu /* ldr x28, [x0, x27] */
#define A64_ADD_TP   0x8b1b0000u /* add x0, x0, x27 */
#define A64_LDR_G_AT 0xf940001cu /* ldr x28, [x0] */
#define A64_CMP_ZERO 0xeb1f001fu /* cmp x0, xzr */
#define A64_PAGE     UINT64_C(4096)

struct finder {
    const struct elf *elf;
    struct go_g *g;
    int error; /* from reading */
};

static uint32_t word_at(const uint8_t *code)
{
    uint32_t word;
    memcpy(&word, code, sizeof(word));
    return word;
}

/* stackcheck compares sp with both ends of g's stack: cmp %rsp,8(%rax); ja; call abort;
 * cmp (%rax),%rsp; ja; call abort; ret. */
static bool x86_take(void *context, uint64_t vaddr, const uint8_t *cmp)
{
    struct go_g *g = ((struct finder *)context)->g;
    static const uint8_t second_cmp[] = {0x48, 0x3b, 0x20, 0x77, 0x05, 0xe8};
    static const uint8_t load_direct[] = {0x64, 0x48, 0x8b, 0x04, 0x25};
    static const uint8_t load_by_rcx[] = {0x64, 0x48, 0x8b, 0x01};
    static const uint8_t rcx_immediate[] = {0x48, 0xc7, 0xc1};
    static const uint8_t rcx_word[] = {0x48, 0x8b, 0x0d};
    if (memcmp(cmp + 11, second_cmp, sizeof(second_cmp)) != 0 || cmp[21] != 0xc3)
        return false;
    int32_t near = (int32_t)word_at(cmp - 4), far = (int32_t)word_at(cmp - 8);
    bool by_rcx = !memcmp(cmp - 4, load_by_rcx, sizeof(load_by_rcx));
    if (!memcmp(cmp - 9, load_direct, sizeof(load_direct)))
        *g = (struct go_g){.place = GO_G_AT_OFFSET, .offset = near};
    else if (by_rcx && !memcmp(cmp - 11, rcx_immediate, sizeof(rcx_immediate)))
        *g = (struct go_g){.place = GO_G_AT_OFFSET, .offset = far};
    else if (by_rcx && !memcmp(cmp - 11, rcx_word, sizeof(rcx_word)))
        *g = (struct go_g){.place = GO_G_IN_WORD, .vaddr = vaddr - 4 + (uint64_t)(int64_t)far};
    else
        return false;
    return true;
}

static bool a64_is_adrp(uint32_t word, unsigned *reg)
{
    *reg = word & 31;
    return (word & 0x9f000000u) == 0x90000000u;
}

/* The page that an adrp at vaddr names. */
static uint64_t a64_page(uint32_t word, uint64_t vaddr)
{
    uint64_t pages = ((word >> 5 & 0x7ffff) << 2) | (word >> 29 & 3);
    if (pages & 0x100000)
        pages |= ~UINT64_C(0x1fffff);
    return (vaddr & ~(A64_PAGE - 1)) + pages * A64_PAGE;
}

/* A place in the code. */
struct a64 {
    const uint8_t *code;
    uint64_t vaddr;
};

static struct a64 a64_back(struct a64 at, unsigned n_words)
{
    return (struct a64){at.code - n_words * 4, at.vaddr - n_words * 4};
}

/* ldrsb or ldrb of [xN, #offset] at `load`, and in front of it what puts the address into xN: the
 * byte's address; 0 = it is something else. */
static uint64_t a64_byte_address(struct a64 load)
{
    uint32_t word = word_at(load.code), before = word_at(load.code - 4);
    uint32_t opcode = word & 0xffc00000u;
    unsigned base = word >> 5 & 31, reg;
    uint64_t low = word >> 10 & 0xfff;
    struct a64 adrp = a64_back(load, 1);
    if (opcode != 0x39800000u && opcode != 0x39c00000u && opcode != 0x39400000u)
        return 0;
    if ((before & 0xffc003ffu) == (0x91000000u | base << 5 | base)) { /* add xN, xN, #low */
        low += before >> 10 & 0xfff;
        adrp = a64_back(load, 2);
    }
    if (!a64_is_adrp(word_at(adrp.code), &reg) || reg != base)
        return 0;
    return a64_page(word_at(adrp.code), adrp.vaddr) + low;
}

/* The byte by which is decided whether mrs is reached at all; 0 = there is no such test. */
static uint64_t a64_iscgo(struct a64 mrs)
{
    uint32_t branch = word_at(mrs.code - 4);
    if ((branch & 0x7f00001fu) == 0x34000000u) /* cbz x0 */
        return a64_byte_address(a64_back(mrs, 2));
    if ((branch & 0xff00001fu) == 0x54000000u && word_at(mrs.code - 8) == A64_CMP_ZERO) /* b.eq */
        return a64_byte_address(a64_back(mrs, 3));
    return 0;
}

static bool a64_loads_g(const uint8_t *code)
{
    return word_at(code) == A64_LDR_G ||
           (word_at(code) == A64_ADD_TP && word_at(code + 4) == A64_LDR_G_AT);
}

/* What is put into x27, by the words behind mrs. */
static bool a64_offset(const uint8_t *code, size_t n_words, uint64_t vaddr, struct go_g *g)
{
    uint32_t first = word_at(code), second = n_words > 1 ? word_at(code + 4) : 0;
    unsigned reg;
    if (n_words == 1 && (first & 0xffe0001fu) == 0xd280001bu) /* movz x27, #imm */
        *g = (struct go_g){.place = GO_G_AT_OFFSET, .offset = first >> 5 & 0xffff};
    else if (n_words == 2 && (first & 0xffe0001fu) == 0xd2a0001bu && /* movz x27, #imm, lsl #16 */
             (second & 0xffe0001fu) == 0xf280001bu)                  /* movk x27, #imm */
        *g = (struct go_g){.place = GO_G_AT_OFFSET,
                           .offset =
                               (int64_t)((first >> 5 & 0xffff) << 16 | (second >> 5 & 0xffff))};
    else if (n_words == 2 && a64_is_adrp(first, &reg) && reg == 27 &&
             (second & 0xffc003ffu) == 0xf940037bu) /* ldr x27, [x27, #imm] */
        *g = (struct go_g){.place = GO_G_IN_WORD,
                           .vaddr = a64_page(first, vaddr) + (second >> 10 & 0xfff) * 8};
    else
        return false;
    return true;
}

/* A byte beyond what the file has of its segment is zero. */
static bool a64_is_cgo(struct finder *finder, uint64_t vaddr)
{
    uint64_t offset;
    uint8_t byte = 0;
    if (elf_offset_of_address(finder->elf, vaddr, &offset)) {
        int error = elf_read(finder->elf, offset, &byte, 1);
        finder->error = error < 0 ? error : 0;
    }
    return byte != 0;
}

static bool a64_take(void *context, uint64_t vaddr, const uint8_t *mrs)
{
    struct finder *finder = context;
    uint64_t iscgo = a64_iscgo((struct a64){mrs, vaddr});
    if (!iscgo)
        return false;
    for (unsigned n_words = 1; n_words <= 2; n_words++) {
        if (!a64_loads_g(mrs + 4 + n_words * 4) ||
            !a64_offset(mrs + 4, n_words, vaddr + 4, finder->g))
            continue;
        if (!a64_is_cgo(finder, iscgo))
            *finder->g = (struct go_g){.place = GO_G_IN_REGISTER};
        return true;
    }
    return false;
}

int go_code_find_g(const struct elf *elf, struct go_g *g)
{
    static const uint8_t first_cmp[] = {0x48, 0x39, 0x60, 0x08, 0x77, 0x05, 0xe8};
    static const uint32_t mrs = A64_MRS_TP;
    bool x86 = elf->machine == EM_X86_64;
    struct finder finder = {.elf = elf, .g = g};
    struct elf_search search = {
        .segment_flags = PF_X,
        .needle = x86 ? BYTES(first_cmp, sizeof(first_cmp)) : BYTES(&mrs, sizeof(mrs)),
        .align = x86 ? 1 : 4,
        .bytes_max = GO_CODE_BYTES_MAX,
        .take = x86 ? x86_take : a64_take,
        .context = &finder,
    };
    int error = elf_search(elf, &search);
    return finder.error ? finder.error : error;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/ruby/ruby_code.h"
#include "agent-bpf/runtimes/runtime_evaluation.h"
#include <stdlib.h>

#define CODE_MAX        65536 /* bytes looked at of a function */
#define CURRENT_CODE    128   /* the same, for the variable */
#define TARGETS_MAX     64    /* functions that one calls */
#define LOOKUPS_MAX     4096  /* of what may be a call; seen: some hundred */
#define INTERPRETER_MIN 8192  /* bytes of code: seen 13,000 and more */
#define LOAD_AFTER      16    /* bytes behind a call that its result is used in */

static bool image_read(const struct elf *elf, uint64_t address, void *out, size_t size)
{
    uint64_t at;
    return elf_offset_of_address(elf, address, &at) && !elf_read(elf, at, out, size);
}

static int64_t offset_at(const uint8_t *code)
{
    int32_t offset;
    memcpy(&offset, code, sizeof(offset));
    return offset;
}

/* mov x(%base), %register of 64 bits; base: DWARF's and the encoding's number, 0 is rax. */
static bool is_load(const uint8_t *code, uint8_t mode, uint8_t base)
{
    return (code[0] & 0xf8) == 0x48 && code[1] == 0x8b && (code[2] & 0xc7) == (mode << 6 | base);
}

/* The offset in what __tls_get_addr() has returned. */
static bool current_load(const uint8_t *code, size_t size, int64_t *offset)
{
    for (size_t i = 0; i + 7 <= size && i < LOAD_AFTER; i++) {
        if (is_load(code + i, 0, 0))
            *offset = 0;
        else if (is_load(code + i, 1, 0))
            *offset = (int8_t)code[i + 3];
        else if (is_load(code + i, 2, 0))
            *offset = offset_at(code + i + 3);
        else
            continue;
        return true;
    }
    return false;
}

/* By the instructions that compilers emit (x86-64 psABI, "Thread-Local Storage"); at: address of
 * the code. */
static bool current_decode(const uint8_t *code, size_t size, uint64_t at,
                           struct ruby_constants *constants)
{
    static const uint8_t general[] = {0x66, 0x48, 0x8d, 0x3d}; /* lea x@tlsgd(%rip), %rdi */
    static const uint8_t local[] = {0x48, 0x8d, 0x3d};         /* lea x@tlsld(%rip), %rdi */
    for (size_t i = 0; i + 24 <= size; i++) {
        const uint8_t *here = code + i;
        bool is_general = !memcmp(here, general, sizeof(general));
        size_t end = i + 7 + is_general;
        constants->current_at = at + end + (uint64_t)offset_at(code + end - 4);
        if (is_general) {
            constants->current = RUBY_CURRENT_MODULE;
            return true;
        }
        if (!memcmp(here, local, sizeof(local)) && here[7] == 0xe8 &&
            current_load(here + 12, size - i - 12, &constants->current_offset)) {
            constants->current = RUBY_CURRENT_IN_MODULE;
            return true;
        }
        if (is_load(here, 0, 5) && here[7] == 0x64 && is_load(here + 8, 0, here[10] & 7)) {
            constants->current = RUBY_CURRENT_OFFSET; /* mov x@gottpoff(%rip); mov %fs:(...) */
            return true;
        }
        if (here[0] == 0x64 && is_load(here + 1, 0, 4) && here[4] == 0x25) {
            constants->current = RUBY_CURRENT_FIXED; /* mov %fs:x@tpoff */
            constants->current_offset = offset_at(here + 5);
            return true;
        }
    }
    return false;
}

bool ruby_code_current(const struct elf *elf, const Elf64_Sym *function,
                       struct ruby_constants *constants)
{
    uint8_t code[CURRENT_CODE];
    size_t size = function->st_size < sizeof(code) ? (size_t)function->st_size : sizeof(code);
    return image_read(elf, function->st_value, code, size) &&
           current_decode(code, size, function->st_value, constants);
}

struct targets {
    struct runtime_range of[TARGETS_MAX];
    size_t n;
};

static bool targets_hold(const struct targets *targets, uint64_t start)
{
    for (size_t i = 0; i < targets->n; i++)
        if (targets->of[i].start == start)
            return true;
    return false;
}

/* Functions that the code calls or jumps to: where one begins. */
static void targets_find(const struct elf *elf, const struct runtime_range *function,
                         struct targets *targets)
{
    size_t size = (size_t)(function->end - function->start);
    size = size < CODE_MAX ? size : CODE_MAX;
    uint8_t *code = malloc(size + 1);
    bool can = code && image_read(elf, function->start, code, size);
    size_t n_lookups = 0;
    targets->n = 0;
    for (size_t i = 0; can && i + 5 <= size && targets->n < TARGETS_MAX; i++) {
        struct runtime_range part;
        if (code[i] != 0xe8 && code[i] != 0xe9)
            continue;
        uint64_t to = function->start + i + 5 + (uint64_t)offset_at(code + i + 1);
        if (to >= function->start && to < function->end)
            continue;
        if (n_lookups++ == LOOKUPS_MAX)
            break;
        if (runtime_evaluation_part(elf, to, &part) && part.start == to &&
            !targets_hold(targets, to))
            targets->of[targets->n++] = part;
    }
    free(code);
}

bool ruby_code_common(const struct elf *elf, const Elf64_Sym *first, const Elf64_Sym *second,
                      struct runtime_range *common)
{
    struct targets of_first, of_second;
    size_t n = 0;
    targets_find(elf, &(struct runtime_range){first->st_value, first->st_value + first->st_size},
                 &of_first);
    targets_find(elf, &(struct runtime_range){second->st_value, second->st_value + second->st_size},
                 &of_second);
    for (size_t i = 0; i < of_first.n; i++) {
        if (!targets_hold(&of_second, of_first.of[i].start))
            continue;
        *common = of_first.of[i];
        n++;
    }
    return n == 1;
}

bool ruby_code_largest(const struct elf *elf, const struct runtime_range *function,
                       struct runtime_range *largest)
{
    struct targets targets;
    *largest = (struct runtime_range){0};
    targets_find(elf, function, &targets);
    for (size_t i = 0; i < targets.n; i++)
        if (targets.of[i].end - targets.of[i].start > largest->end - largest->start)
            *largest = targets.of[i];
    return largest->end - largest->start >= INTERPRETER_MIN;
}

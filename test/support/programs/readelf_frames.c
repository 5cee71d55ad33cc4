/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows are printed by `readelf --debug-dump=frames-interp`. There an expression is "exp" only;
 * `--debug-dump=frames` prints it, but not for which rows. If all of an FDE for one register are
 * the same, a row's is that one.
 *
 * FDEs of .debug_frame count where none of .eh_frame is about any of their addresses.
 */
#include "test/support/programs/readelf_frames.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 40
#define LINE_MAX_   4096

struct fde {
    uint64_t start, end;
    size_t first_row, n_rows;
    size_t order;
    unsigned long long cie; /* as cie_key() */
    bool is_debug;
    int n_expressions[UNWIND_SLOTS + 1]; /* different ones; the last: of the CFA */
    struct unwind_rule expressions;
};

struct cie {
    unsigned long long key;
    struct unwind_rule rule;
    bool signal;
};

struct reading {
    struct fde *fdes;
    size_t n_fdes;
    struct cie *cies;
    size_t n_cies;
    struct readelf_row *rows;
    size_t n_rows, n_printed;
    char columns[COLUMNS_MAX][8];
    size_t n_columns;
    bool in_cie;
    bool is_debug; /* the section at hand is .debug_frame */
    bool usable;   /* it is that, or .eh_frame */
    bool is_raw;   /* second pass */
    size_t raw_fde;
};

static void *grown(void *array, size_t n, size_t size)
{
    if (n & (n - 1)) /* doubles at powers of two */
        return array;
    void *more = realloc(array, (n ? n * 2 : 1) * size);
    if (!more)
        abort();
    return more;
}

static int register_number(const char *name)
{
    static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    size_t length = strcspn(name, "+-");
    for (int i = 0; i < 16; i++)
        if (strlen(names[i]) == length && !memcmp(names[i], name, length))
            return i;
    return -1;
}

static void put_slot(struct unwind_rule *rule, int slot, int place, long offset)
{
    rule->places = (uint8_t)((rule->places & ~(3 << 2 * slot)) | place << 2 * slot);
    rule->offsets[slot] = (int16_t)offset;
}

static struct unwind_rule initial_rule(void)
{
    struct unwind_rule rule = {.cfa = UNWIND_UNKNOWN};
    put_slot(&rule, UNWIND_RA, UNWIND_IN_REGISTER, UNWIND_LOST);
    put_slot(&rule, UNWIND_FP, UNWIND_IN_REGISTER, 6);
    put_slot(&rule, UNWIND_THIRD, UNWIND_IN_REGISTER, 3);
    return rule;
}

/* text: of a column. False: it is not expressible. */
static bool read_slot(struct readelf_row *row, int slot, const char *text)
{
    static const int own[] = {UNWIND_LOST, 6, 3};
    long reg;
    bool *any = slot == UNWIND_RA   ? &row->any_ra
                : slot == UNWIND_FP ? &row->any_fp
                                    : &row->any_third;
    if (text[0] == 'c' && (text[1] == '+' || text[1] == '-'))
        put_slot(&row->rule, slot, UNWIND_AT_CFA, strtol(text + 1, NULL, 10) / 8);
    else if (!strcmp(text, "u") || !strcmp(text, "s"))
        put_slot(&row->rule, slot, UNWIND_IN_REGISTER, own[slot]);
    else if (!strcmp(text, "exp"))
        *any = true;
    else if (sscanf(text, "r%ld", &reg) == 1) /* and its name, in parentheses */
        put_slot(&row->rule, slot, UNWIND_IN_REGISTER, reg);
    else
        return false;
    return true;
}

static char *next_word(char *line, char **rest)
{
    char *word = strtok_r(line, " \n", rest);
    while (word && *word == '(')
        word = strtok_r(NULL, " \n", rest);
    return word;
}

static bool read_row(const struct reading *reading, char *line, struct readelf_row *row)
{
    char *rest = NULL, *word = next_word(line, &rest);
    *row = (struct readelf_row){.rule = initial_rule()};
    bool known = true;
    for (size_t i = 0; i < reading->n_columns; i++, word = next_word(NULL, &rest)) {
        const char *column = reading->columns[i];
        if (!word)
            return false;
        if (!strcmp(column, "LOC"))
            row->start = strtoull(word, NULL, 16);
        else if (!strcmp(column, "CFA") && !strcmp(word, "exp"))
            row->any_cfa = true;
        else if (!strcmp(column, "CFA") && register_number(word) >= 0) {
            row->rule.cfa = UNWIND_REGISTER;
            row->rule.base = (uint8_t)register_number(word);
            row->rule.cfa_offset = (int32_t)strtol(word + strcspn(word, "+-"), NULL, 10);
        } else if (!strcmp(column, "ra"))
            known &= read_slot(row, UNWIND_RA, word);
        else if (!strcmp(column, "rbp") && !read_slot(row, UNWIND_FP, word))
            put_slot(&row->rule, UNWIND_FP, UNWIND_IN_REGISTER, UNWIND_LOST);
        else if (!strcmp(column, "rbx") && !read_slot(row, UNWIND_THIRD, word))
            put_slot(&row->rule, UNWIND_THIRD, UNWIND_IN_REGISTER, UNWIND_LOST);
    }
    if (!known)
        row->rule = (struct unwind_rule){.cfa = UNWIND_UNKNOWN};
    return true;
}

/* Both sections count from 0. */
static unsigned long long cie_key(const struct reading *reading, unsigned long long offset)
{
    return offset | (unsigned long long)reading->is_debug << 63;
}

static const struct cie *cie_at(const struct reading *reading, unsigned long long key)
{
    for (size_t i = reading->n_cies; i-- > 0;)
        if (reading->cies[i].key == key)
            return &reading->cies[i];
    return NULL;
}

static void take_head(struct reading *reading, const char *line)
{
    const char *fde = strstr(line, " FDE cie="), *cie = strstr(line, " CIE ");
    unsigned long long start, end, of;
    reading->n_columns = 0;
    reading->in_cie = cie != NULL;
    if (cie && !reading->is_raw) {
        const char *quote = strchr(cie, '"'), *end_quote = quote ? strchr(quote + 1, '"') : NULL;
        const char *s = quote ? strchr(quote, 'S') : NULL;
        reading->cies = grown(reading->cies, reading->n_cies, sizeof(*reading->cies));
        reading->cies[reading->n_cies++] =
            (struct cie){.key = cie_key(reading, strtoull(line, NULL, 16)),
                         .signal = s && end_quote && s < end_quote};
    }
    if (!fde || sscanf(fde, " FDE cie=%llx pc=%llx..%llx", &of, &start, &end) != 3)
        return;
    if (reading->is_raw) {
        reading->raw_fde++;
        return;
    }
    reading->fdes = grown(reading->fdes, reading->n_fdes, sizeof(*reading->fdes));
    reading->fdes[reading->n_fdes] = (struct fde){.start = start,
                                                  .end = end,
                                                  .first_row = reading->n_rows,
                                                  .order = reading->n_fdes,
                                                  .cie = cie_key(reading, of),
                                                  .is_debug = reading->is_debug};
    reading->n_fdes++;
}

static void take_columns(struct reading *reading, char *line)
{
    char *rest = NULL;
    for (char *word = strtok_r(line, " \n", &rest); word && reading->n_columns < COLUMNS_MAX;
         word = strtok_r(NULL, " \n", &rest))
        snprintf(reading->columns[reading->n_columns++], sizeof(reading->columns[0]), "%.7s", word);
}

static void take_row(struct reading *reading, char *line)
{
    struct readelf_row row;
    if (!read_row(reading, line, &row))
        return;
    if (reading->in_cie) {
        reading->cies[reading->n_cies - 1].rule = row.rule;
        return;
    }
    reading->rows = grown(reading->rows, reading->n_rows, sizeof(*reading->rows));
    reading->rows[reading->n_rows++] = row;
    reading->fdes[reading->n_fdes - 1].n_rows++;
    reading->n_printed++;
}

/* "DW_OP_breg6 (rbp): -8; ...": register and number. */
static const char *take_breg(const char *text, int *reg, long *offset)
{
    int used = 0;
    return sscanf(text, "DW_OP_breg%d (%*[a-z0-9]): %ld%n", reg, offset, &used) == 2 && used
               ? text + used
               : NULL;
}

static void cfa_expression(const char *text, struct unwind_rule *rule)
{
    int reg, literal, index;
    long offset, add;
    const char *rest = take_breg(text, &reg, &offset);
    if (!rest)
        return;
    rule->base = (uint8_t)reg;
    rule->cfa_offset = (int32_t)offset;
    if (!strncmp(rest, "; DW_OP_deref)", 14))
        rule->cfa = UNWIND_DEREF;
    else if (sscanf(rest, "; DW_OP_deref; DW_OP_plus_uconst: %ld)", &add) == 1) {
        rule->cfa = UNWIND_DEREF;
        rule->cfa_add = (int16_t)add;
    } else if (sscanf(rest,
                      "; DW_OP_breg%d (%*[a-z0-9]): 0; DW_OP_lit8; DW_OP_mul; DW_OP_plus; "
                      "DW_OP_deref; DW_OP_plus_uconst: %ld)",
                      &index, &add) == 2) {
        rule->cfa = UNWIND_INDEXED;
        rule->cfa_add = (int16_t)UNWIND_INDEXED_BY(index, add);
    } else if (sscanf(rest,
                      "; DW_OP_breg16 (rip): 0; DW_OP_lit15; DW_OP_and; DW_OP_lit%d; DW_OP_ge; "
                      "DW_OP_lit3; DW_OP_shl; DW_OP_plus)",
                      &literal) == 1) {
        rule->cfa = UNWIND_PLT;
        rule->cfa_add = (int16_t)literal;
    }
}

static void take_expression(struct reading *reading, const char *line)
{
    struct fde *fde = &reading->fdes[reading->raw_fde - 1];
    struct unwind_rule before = fde->expressions, *rule = &fde->expressions;
    const char *text = strstr(line, "(DW_OP_");
    int reg = -1, from;
    long offset;
    if (!text)
        return;
    text++;
    if (strstr(line, "def_cfa_expression")) {
        rule->cfa = UNWIND_UNKNOWN;
        rule->base = 0;
        rule->cfa_offset = 0;
        rule->cfa_add = 0;
        cfa_expression(text, rule);
        fde->n_expressions[UNWIND_SLOTS] +=
            !fde->n_expressions[UNWIND_SLOTS] || memcmp(&before, rule, sizeof(before)) != 0;
    } else if (sscanf(strstr(line, "DW_CFA_"), "DW_CFA_expression%*[: ]r%d", &reg) == 1 &&
               (reg == 16 || reg == 6 || reg == 3)) {
        int slot = reg == 16 ? UNWIND_RA : reg == 6 ? UNWIND_FP : UNWIND_THIRD;
        if (!strncmp(text, "DW_OP_drop; ", 12))
            text += 12;
        const char *rest = take_breg(text, &from, &offset);
        put_slot(rule, slot, UNWIND_IN_REGISTER, UNWIND_LOST);
        if (rest && *rest == ')' && (from == 6 || from == 7))
            put_slot(rule, slot, from == 6 ? UNWIND_AT_FP : UNWIND_AT_SP, offset / 8);
        fde->n_expressions[slot] +=
            !fde->n_expressions[slot] || memcmp(&before, rule, sizeof(before)) != 0;
    }
}

static void take_line(struct reading *reading, char *line)
{
    if (strstr(line, "Contents of the ")) {
        reading->is_debug = strstr(line, ".debug_frame section");
        reading->usable = reading->is_debug || strstr(line, ".eh_frame section");
        return;
    }
    if (*line == '\n') /* the end of an entry */
        reading->n_columns = 0;
    if (!reading->usable)
        return;
    if (strstr(line, " FDE cie=") || strstr(line, " CIE "))
        take_head(reading, line);
    else if (reading->is_raw && reading->raw_fde && !reading->in_cie && strstr(line, "expression"))
        take_expression(reading, line);
    else if (!reading->is_raw && strstr(line, "   LOC"))
        take_columns(reading, line);
    else if (!reading->is_raw && reading->n_columns)
        take_row(reading, line);
}

static bool pass(struct reading *reading, const char *path, const char *what)
{
    char command[LINE_MAX_], line[LINE_MAX_];
    snprintf(command, sizeof(command),
             "LC_ALL=C readelf -W --debug-dump=%s,no-follow-links '%s' 2>/dev/null", what, path);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return false;
    while (fgets(line, sizeof(line), pipe))
        take_line(reading, line);
    int status = pclose(pipe);
    return status == 0 || status == 256; /* 1: it warned */
}

static int by_start(const void *a, const void *b)
{
    const struct fde *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

static void resolve(struct readelf_row *row, const struct fde *fde)
{
    bool *any[] = {&row->any_ra, &row->any_fp, &row->any_third};
    const struct unwind_rule *from = &fde->expressions;
    if (row->any_cfa && fde->n_expressions[UNWIND_SLOTS] == 1) {
        row->any_cfa = false;
        row->rule.cfa = from->cfa;
        row->rule.base = from->base;
        row->rule.cfa_offset = from->cfa_offset;
        row->rule.cfa_add = from->cfa_add;
    }
    for (int slot = 0; slot < UNWIND_SLOTS; slot++) {
        if (!*any[slot] || fde->n_expressions[slot] != 1)
            continue;
        *any[slot] = false;
        put_slot(&row->rule, slot, UNWIND_PLACE(from, slot), from->offsets[slot]);
    }
    if (row->rule.cfa == UNWIND_UNKNOWN && !row->any_cfa)
        *row = (struct readelf_row){row->start, row->end, {.cfa = UNWIND_UNKNOWN}, 0, 0, 0, 0};
}

static void add_row(struct readelf_frames *frames, const struct readelf_row *row)
{
    if (row->start >= row->end)
        return;
    frames->rows = grown(frames->rows, frames->n, sizeof(*frames->rows));
    frames->rows[frames->n++] = *row;
}

/* Whether one of .eh_frame, sorted, is about some of its addresses. */
static bool is_covered(const struct reading *reading, size_t i, uint64_t covered_to)
{
    const struct fde *fde = &reading->fdes[i];
    if (fde->start < covered_to)
        return true;
    while (++i < reading->n_fdes && reading->fdes[i].start < fde->end)
        if (!reading->fdes[i].is_debug)
            return true;
    return false;
}

static void drop_covered(struct reading *reading)
{
    uint64_t covered_to = 0;
    size_t kept = 0;
    for (size_t i = 0; i < reading->n_fdes; i++) {
        const struct fde *fde = &reading->fdes[i];
        if (fde->is_debug && is_covered(reading, i, covered_to))
            continue;
        if (!fde->is_debug && fde->end > covered_to)
            covered_to = fde->end;
        reading->fdes[kept++] = *fde;
    }
    reading->n_fdes = kept;
}

/* An FDE ends where the next one begins, if not before. */
static void flatten(struct reading *reading, struct readelf_frames *frames)
{
    qsort(reading->fdes, reading->n_fdes, sizeof(*reading->fdes), by_start);
    drop_covered(reading);
    for (size_t i = 0; i < reading->n_fdes; i++) {
        const struct fde *fde = &reading->fdes[i];
        const struct cie *cie = cie_at(reading, fde->cie);
        uint64_t end = fde->end;
        for (size_t j = i + 1; j < reading->n_fdes && reading->fdes[j].start < end; j++)
            if (reading->fdes[j].end > reading->fdes[j].start)
                end = reading->fdes[j].start;
        struct readelf_row whole = {.start = fde->start, .end = end, .rule = cie->rule};
        whole.rule.flags = cie->signal;
        if (!fde->n_rows)
            add_row(frames, &whole);
        for (size_t r = 0; r < fde->n_rows; r++) {
            struct readelf_row row = reading->rows[fde->first_row + r];
            row.end = r + 1 < fde->n_rows ? reading->rows[fde->first_row + r + 1].start : fde->end;
            row.end = row.end < end ? row.end : end;
            row.rule.flags = cie->signal;
            resolve(&row, fde);
            add_row(frames, &row);
        }
    }
}

bool readelf_frames(const char *path, struct readelf_frames *frames)
{
    struct reading reading = {0};
    *frames = (struct readelf_frames){0};
    bool started = pass(&reading, path, "frames-interp");
    bool has_expressions = false;
    for (size_t i = 0; i < reading.n_rows; i++)
        has_expressions |= reading.rows[i].any_cfa | reading.rows[i].any_fp |
                           reading.rows[i].any_third | reading.rows[i].any_ra;
    reading.is_raw = true;
    if (started && has_expressions)
        started = pass(&reading, path, "frames");
    if (started)
        flatten(&reading, frames);
    frames->n_printed = reading.n_printed;
    free(reading.fdes);
    free(reading.cies);
    free(reading.rows);
    return started;
}

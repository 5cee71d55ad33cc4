/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eh_frame_compare [-g] FILE|FOLDER...: the rows of every page of each x86-64 ELF file that can be
 * loaded against what readelf says. Both are functions of the address; they are compared at every
 * address where either may change. Prints the differences (a few) and how much was compared. -g:
 * the rows are those of Go's own table. What Go writes for debuggers tells CFA and return address
 * alone, and knows nothing of changes of stacks: where those are, or the return address has been
 * popped, rows are counted and not compared.
 */
#include "agent-bpf/unwind/eh_frame.h"
#include "agent-bpf/unwind/go_unwind.h"
#include "test/support/programs/readelf_frames.h"
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN_MAX 10

struct ours {
    struct row {
        uint64_t start;
        struct unwind_rule rule;
    } * rows;
    size_t n;
    size_t cap;
    uint64_t unknown;
    uint64_t damaged;
};

static struct {
    uint64_t files, rows, pages, differences, unknown, damaged, ambiguous;
    uint64_t changes; /* of stacks, and outermost functions */
    bool of_go;
} total;

static void add_page(struct ours *ours, const struct unwind_page *page)
{
    for (uint32_t i = 0; i < page->n_rows; i++) {
        if (ours->n == ours->cap) {
            ours->cap = ours->cap ? ours->cap * 2 : 1024;
            ours->rows = realloc(ours->rows, ours->cap * sizeof(*ours->rows));
            if (!ours->rows)
                abort();
        }
        ours->rows[ours->n++] =
            (struct row){page->start + page->rows[i].low, page->rules[page->rows[i].rule]};
    }
    ours->unknown += page->unknown;
    ours->damaged += page->damaged;
}

/* All pages in which an FDE begins, and those that the last function of a page reaches into. */
static int read_all(struct eh_frame *frame, struct ours *ours)
{
    uint64_t at = 0;
    int error = eh_frame_next(frame, 0, &at);
    while (!error) {
        struct unwind_page page;
        error = eh_frame_page(frame, at, &page);
        if (error)
            return error;
        add_page(ours, &page);
        at = page.start + UNWIND_PAGE_BYTES;
        if (page.rules[page.rows[page.n_rows - 1].rule].cfa == UNWIND_NO_INFO)
            error = eh_frame_next(frame, at, &at);
        unwind_page_close(&page);
        total.pages++;
    }
    return error == ELF_MISSING ? 0 : error;
}

/* The pages that readelf knows something of. */
static int read_all_of_go(const struct go_symbols *symbols, const struct readelf_frames *theirs,
                          struct ours *ours)
{
    uint64_t at = 0;
    int error = 0;
    for (size_t i = 0; i < theirs->n && !error; i++) {
        for (; !error && at < theirs->rows[i].end; at += UNWIND_PAGE_BYTES) {
            struct unwind_page page;
            if (at + UNWIND_PAGE_BYTES <= theirs->rows[i].start)
                at = theirs->rows[i].start & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);
            error = unwind_page_init(&page, at);
            error = error ? error : go_unwind_page(symbols, EM_X86_64, &page);
            add_page(ours, &page);
            unwind_page_close(&page);
            total.pages++;
        }
    }
    return error;
}

static bool is_change(const struct unwind_rule *rule)
{
    return rule->flags & UNWIND_OTHER_STACK ||
           (UNWIND_PLACE(rule, UNWIND_RA) == UNWIND_IN_REGISTER &&
            rule->offsets[UNWIND_RA] == UNWIND_LOST);
}

static bool same(const struct unwind_rule *rule, const struct readelf_row *row)
{
    struct unwind_rule other = row->rule;
    bool popped = other.cfa == UNWIND_REGISTER && other.cfa_offset < UNWIND_WORD;
    if (total.of_go && (is_change(rule) || popped)) {
        total.changes++;
        return true;
    }
    if (row->any_cfa) {
        other.cfa = rule->cfa;
        other.base = rule->base;
        other.cfa_offset = rule->cfa_offset;
        other.cfa_add = rule->cfa_add;
    }
    const bool silent = total.of_go && other.cfa != UNWIND_NO_INFO;
    const bool any[] = {row->any_ra, row->any_fp || silent, row->any_third || silent};
    for (int i = 0; i < UNWIND_SLOTS; i++) {
        if (!any[i])
            continue;
        other.offsets[i] = rule->offsets[i];
        other.places = (uint8_t)((other.places & ~(3 << 2 * i)) | (rule->places & 3 << 2 * i));
    }
    return !memcmp(rule, &other, sizeof(other)) || (row->any_cfa && rule->cfa == UNWIND_UNKNOWN);
}

static void print_rule(const char *who, const struct unwind_rule *rule)
{
    printf("    %s: cfa %u base %u %+d %+d", who, rule->cfa, rule->base, rule->cfa_offset,
           rule->cfa_add);
    for (int i = 0; i < UNWIND_SLOTS; i++)
        printf(", %u:%d", UNWIND_PLACE(rule, i), rule->offsets[i]);
    printf(", flags %u\n", rule->flags);
}

static uint64_t compare_rows(const char *path, const struct ours *ours,
                             const struct readelf_frames *theirs)
{
    static const struct readelf_row nothing;
    static const struct unwind_rule no_info;
    uint64_t differences = 0;
    size_t i = 0, j = 0; /* of the rows that begin next */
    for (uint64_t at = 0, next;; at = next) {
        while (i < ours->n && ours->rows[i].start <= at)
            i++;
        while (j < theirs->n && theirs->rows[j].end <= at)
            j++;
        bool inside = j < theirs->n && theirs->rows[j].start <= at;
        const struct readelf_row *row = inside ? &theirs->rows[j] : &nothing;
        const struct unwind_rule *rule = i ? &ours->rows[i - 1].rule : &no_info;
        total.ambiguous += row->any_cfa || row->any_ra || row->any_fp || row->any_third;
        if (!same(rule, row) && ++differences <= SHOWN_MAX) {
            printf("%s: %" PRIx64 "\n", path, at);
            print_rule("ours", rule);
            print_rule("readelf", &row->rule);
        }
        next = UINT64_MAX;
        if (i < ours->n)
            next = ours->rows[i].start;
        if (j < theirs->n && !inside && theirs->rows[j].start < next)
            next = theirs->rows[j].start;
        if (inside && row->end < next)
            next = row->end;
        if (next == UINT64_MAX)
            return differences;
    }
}

/* Opens the file and closes it. What readelf knows of Go code comes first: where to look. */
static int read_ours(const struct elf *elf, const struct readelf_frames *theirs, struct ours *ours)
{
    struct go_symbols *symbols = NULL;
    struct eh_frame *frame = NULL;
    int error = total.of_go ? go_symbols_open(elf, &symbols) : eh_frame_open(elf, &frame);
    if (!error)
        error = symbols ? read_all_of_go(symbols, theirs, ours) : read_all(frame, ours);
    else if (error == ELF_MISSING && !total.of_go)
        error = 0;
    go_symbols_close(symbols);
    eh_frame_close(frame);
    return error;
}

static bool compare(const char *path)
{
    struct elf elf;
    struct readelf_frames theirs = {0};
    struct ours ours = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || elf_open(fd, &elf) || elf.machine != EM_X86_64 || !elf.n_segments) {
        if (fd >= 0)
            close(fd);
        return true;
    }
    bool good = readelf_frames(path, &theirs);
    int error = good ? read_ours(&elf, &theirs, &ours) : 0;
    good = good && !error;
    uint64_t differences = good ? compare_rows(path, &ours, &theirs) : 0;
    if (!good)
        printf("%s: %s (%d)\n", path, error ? "not read" : "readelf failed", error);
    if (differences || ours.damaged)
        printf("%s: %" PRIu64 " differences, %" PRIu64 " damaged\n", path, differences,
               ours.damaged);
    total.files++;
    total.rows += theirs.n;
    total.differences += differences;
    total.unknown += ours.unknown;
    total.damaged += ours.damaged;
    free(ours.rows);
    free(theirs.rows);
    close(fd);
    return good && !differences;
}

int main(int argc, char **argv)
{
    total.of_go = argc > 1 && !strcmp(argv[1], "-g");
    FTS *files =
        argc > 1 ? fts_open(argv + 1 + total.of_go, FTS_PHYSICAL | FTS_COMFOLLOW, NULL) : NULL;
    FTSENT *file;
    bool good = files != NULL;
    while (files && (file = fts_read(files)))
        if (file->fts_info == FTS_F)
            good &= compare(file->fts_accpath);
    if (files)
        fts_close(files);
    printf("%" PRIu64 " files, %" PRIu64 " pages, %" PRIu64 " rows compared, %" PRIu64
           " differences, %" PRIu64 " ambiguous, %" PRIu64 " not expressible, %" PRIu64
           " damaged, %" PRIu64 " changes of stacks\n",
           total.files, total.pages, total.rows, total.differences, total.ambiguous, total.unknown,
           total.damaged, total.changes);
    return good && total.files ? 0 : 1;
}

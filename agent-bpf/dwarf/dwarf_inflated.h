/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Random access to a section that zlib has compressed, without all of it in memory. It is inflated
 * in spans of DWARF_SPAN_BYTES. The decoder's state at the begin of each span that was reached is
 * kept, so a later read begins there, and not at the begin of the section. A state has a sixth of
 * the bytes of its span. The spans of a file's sections are one pool, the least recently read goes
 * first.
 *
 * The file is not trusted: a section that is damaged, or shorter than its header says, cannot be
 * read from there on. Thread: the owner's. Symbolizer only.
 */
#include "base/list.h"
#include <stddef.h>
#include <stdint.h>

#define DWARF_SPAN_BYTES (256u << 10)
#define DWARF_SPANS_MAX  32 /* of a pool */

struct dwarf_inflated;

struct dwarf_spans {
    struct list recent; /* least recently read first */
    size_t n;
};

/* Of len compressed bytes in a file, whose descriptor and spans are borrowed; size: inflated.
 * NULL: no memory. */
struct dwarf_inflated *dwarf_inflated_open(struct dwarf_spans *spans, int fd, uint64_t offset,
                                           uint64_t len, uint64_t size);
void dwarf_inflated_close(struct dwarf_inflated *inflated); /* NULL is fine */
/* Copies what lies from `at` on, as much as one span has of it, at most `size`. 0: at the end, no
 * memory, or it is damaged. */
size_t dwarf_inflated_read(struct dwarf_inflated *inflated, uint64_t at, uint8_t *out, size_t size);
size_t dwarf_inflated_bytes(const struct dwarf_inflated *inflated); /* without spans */

/* Forgets spans until `keep` are left. */
void dwarf_spans_trim(struct dwarf_spans *spans, size_t keep);

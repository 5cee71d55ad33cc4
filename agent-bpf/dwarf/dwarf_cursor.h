/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads numbers and texts of DWARF sections, window by window from the file, or from what of it is
 * decoded if the section is compressed. Reading beyond the end sets `failed` and gives 0, also from
 * then on, so a failure is checked once, after several reads. Thread: the owner's. Source of the
 * format: DWARF 5 sections 7.3 and 7.6.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DWARF_WINDOW_BYTES 8192

struct dwarf_inflated;

struct dwarf_section {
    int fd;                          /* borrowed */
    uint64_t offset;                 /* in the file */
    uint64_t size;                   /* 0: the section is missing */
    uint8_t *decoded;                /* zstd: all of it */
    struct dwarf_inflated *inflated; /* zlib */
};

struct dwarf_cursor {
    const struct dwarf_section *section;
    uint64_t at; /* in the section */
    uint64_t end;
    bool failed;
    const uint8_t *window;
    uint64_t window_at;
    size_t window_len;
    uint8_t buffer[DWARF_WINDOW_BYTES];
};

/* From a position to the section's end. */
void dwarf_cursor_open(struct dwarf_cursor *cursor, const struct dwarf_section *section,
                       uint64_t at);
void dwarf_seek(struct dwarf_cursor *cursor, uint64_t at);
void dwarf_skip(struct dwarf_cursor *cursor, uint64_t size);
uint64_t dwarf_fixed(struct dwarf_cursor *cursor, unsigned size); /* 1, 2, 3, 4 or 8 bytes */
uint64_t dwarf_uleb(struct dwarf_cursor *cursor);
int64_t dwarf_sleb(struct dwarf_cursor *cursor);
void dwarf_skip_text(struct dwarf_cursor *cursor);
/* Cut to fit, with NUL; not sanitized. Returns its length. */
size_t dwarf_text(struct dwarf_cursor *cursor, char *out, size_t size);
/* The length that a unit begins with; sets *offset_size to 4 or 8 and the cursor's end to the
 * unit's. */
void dwarf_unit_length(struct dwarf_cursor *cursor, uint8_t *offset_size);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Converts a file's unwind information to pages of rows (unwind_page.h). Opening reads a header of
 * 12 bytes; a page decodes only the FDEs that reach into it, found by binary search in the file's
 * sorted table (.eh_frame_hdr). A file without such a table is scanned once for its FDEs.
 * .debug_frame, of the file or else of its separate debug file, is used for code that .eh_frame
 * does not describe. It is opened when a page has such code, and decoded into memory if it is
 * compressed. The file is not trusted: everything is read by pread() into own memory; malformed
 * parts are left out and counted in the page. If FDEs overlap, an address belongs to the last one
 * that begins before it, as binary search finds it. An FDE missing in the table is not seen, as by
 * any unwinder (BOLT leaves out a function behind an empty one). Thread: the owner's. Outcomes: 0;
 * ELF_MISSING; ELF_MALFORMED; negative errno.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/unwind/unwind_page.h"

#define EH_FDES_MAX       (1024 * 1024)         /* found by scanning: 16 MiB */
#define EH_SCAN_BYTES_MAX (UINT64_C(256) << 20) /* of a section */
#define EH_DECODED_MAX    (16u << 20)           /* of a compressed section */
#define EH_PAGE_BYTES_MAX (UINT64_C(1) << 20)   /* of entries read for a page; seen: 69 KB */
#define EH_PAGE_FDES_MAX  (2 * UNWIND_PAGE_BYTES)

struct eh_frame;

/* ELF_MISSING: the file has no unwind information. Keeps its own descriptor of the file. */
int eh_frame_open(const struct elf *elf, struct eh_frame **frame);
/* With the debug file that belongs to it (debug_file.h); NULL: none is known. */
int eh_frame_open_with(const struct elf *elf, const struct elf *debug, struct eh_frame **frame);
/* Only .eh_frame: other code is described elsewhere. */
int eh_frame_open_loaded(const struct elf *elf, struct eh_frame **frame);
void eh_frame_close(struct eh_frame *frame); /* NULL is fine */

/* The page that contains the ELF address; *page is then the caller's to close. */
int eh_frame_page(struct eh_frame *frame, uint64_t address, struct unwind_page *page);

/* The lowest address not below `address` that an FDE begins at; ELF_MISSING. For iterating over
 * all. */
int eh_frame_next(struct eh_frame *frame, uint64_t address, uint64_t *start);
size_t eh_frame_bytes(const struct eh_frame *frame); /* of memory */

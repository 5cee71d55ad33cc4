/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Symbols stripped from an executable: a separate file below /usr/lib/debug/.build-id, on the host
 * or in the root of the process that runs it; otherwise its section .gnu_debugdata, xz-compressed.
 * The result is an ELF file with a symbol table and the same build id (.gnu_debugdata has no build
 * id). Symbolizer only. Limits: DEBUG_FILE_DATA_MAX of compressed and DEBUG_FILE_MEMORY_MAX of
 * decoded bytes, DEBUG_FILE_RATIO_MAX between them, DEBUG_FILE_XZ_MEMORY for the decoder. Source of
 * the format: GDB manual, "Separate Debug Files", "MiniDebugInfo".
 */
#include "agent-bpf/files/elf.h"

#define DEBUG_FILE_DATA_MAX   (8u << 20)
#define DEBUG_FILE_MEMORY_MAX (32u << 20)
#define DEBUG_FILE_RATIO_MAX  64 /* beyond the first MiB */
#define DEBUG_FILE_XZ_MEMORY  (80u << 20)

struct debug_file {
    struct elf elf;      /* its fd is the caller's; debug_file_close() */
    size_t memory_bytes; /* 0 = a file on disk */
};

/* pid: a process that maps the executable; 0 = none is known. 0, ELF_MISSING, ELF_MALFORMED,
 * negative errno. */
int debug_file_open(const struct elf *elf, uint32_t pid, struct debug_file *file);
void debug_file_close(struct debug_file *file);
/* Only the separate file; its fd is the caller's. Outcomes as above. */
int debug_file_separate(const struct elf *elf, uint32_t pid, struct elf *debug);
/* The file into which dwz moved what several debug files share: found by its build id, or by the
 * path in .gnu_debugaltlink below /usr/lib/debug. Its fd is the caller's. Outcomes as above. */
int debug_file_shared(const struct elf *debug, uint32_t pid, struct elf *shared);
/* The decoded .gnu_debugdata in a memfd, not checked. 0, ELF_MISSING, ELF_MALFORMED (also: a
 * limit), negative errno. */
int debug_file_decode(const struct elf *elf, int *fd, size_t *size);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the symbolizer knows of executable files, found by the identity of a mapping (process.h). A
 * file is read once; files behind a name that does not prove their content (device and inode) are
 * looked at again after 10 s. Limits: BINARIES_MAX names, OPEN_FILES_MAX descriptors kept open (so
 * that a file can be read after the last process that maps it has ended; others are opened again
 * when they are asked for), SYMBOL_BYTES_MAX and
 * SYMBOL_TABLES_MAX of symbol tables, with what is known of lines; beyond, the
 * longest unused goes.
 * Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/contexts/publishers.h"
#include "agent-bpf/files/elf.h"
#include "agent-bpf/symbols/function_names.h"
#include "base/list.h"
#include "base/map.h"

#define BINARIES_MAX      4096
#define OPEN_FILES_MAX    256
#define SYMBOL_BYTES_MAX  (96u << 20)
#define SYMBOL_TABLES_MAX 128 /* each has up to three descriptors of its own */

struct binary_key { /* which content */
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    uint64_t changed_ns;
};

struct binary {
    struct binary_key key;
    size_t refs; /* names */
    int fd;      /* -1 = closed meanwhile */
    bool is_elf; /* else only the hash is known */
    uint8_t htlhash[16];
    struct elf_build_ids ids;
    uint32_t
        generation; /* of the inode, as the kernel's stream of mappings has it; 0 = not known */
    uint32_t n_segments;
    struct symbolizer_segment segments[SYMBOLIZER_SEGMENTS_MAX];
    struct publishers *publishers; /* NULL: it holds none */
    struct function_names *names;  /* NULL = not loaded */
    size_t names_bytes;            /* as counted */
    struct list open;              /* files with a descriptor, longest unused first */
    struct list loaded;            /* those with names, likewise */
};

struct binaries {
    struct map names;   /* struct binary_name by identity */
    struct map files;   /* struct binary by key */
    struct list recent; /* names, longest unused first */
    struct list open;
    struct list loaded;
    size_t n_open;
    size_t n_loaded;
    size_t symbol_bytes;
    bool lines; /* are looked for */
};

void binaries_init(struct binaries *binaries, bool lines);
void binaries_close(struct binaries *binaries);

/* The file mapped there; NULL if it cannot be read. Borrowed until the next call. Its fd is -1 only
 * if its content is proven, but it cannot be opened any more. */
struct binary *binaries_get(struct binaries *binaries, const uint8_t identity[16], uint32_t pid,
                            const struct process_mapping *mapping);
/* Names of its functions, loaded if need be; NULL: there are none, or the file cannot be read (any
 * more). pid: a process that maps it. */
struct function_names *binaries_names(struct binaries *binaries, struct binary *binary,
                                      uint32_t pid);
/* After they were used: they may have grown, and others have to go. */
void binaries_settle(struct binaries *binaries, struct binary *binary);
/* The ELF address of an offset in the file. */
bool binary_address(const struct binary *binary, uint64_t offset, uint64_t *vaddr);

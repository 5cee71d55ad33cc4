/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Executable files, by the identity of a mapping (process.h). A file is read once. An identity made
 * of device and inode does not prove the content, so its file is checked again after 10 s.
 * Limits, beyond which the least recently used goes: BINARIES_MAX identities; OPEN_FILES_MAX
 * descriptors, which allow reading a file after its last process has ended (a closed file is opened
 * again on request), and SAFE_COPY_MAX bytes of copies; SYMBOL_BYTES_MAX and SYMBOL_TABLES_MAX of
 * symbol tables with their lines. Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/contexts/publishers.h"
#include "agent-bpf/files/elf.h"
#include "agent-bpf/runtimes/runtime_find.h"
#include "agent-bpf/runtimes/runtime_reader.h"
#include "agent-bpf/symbols/function_names.h"
#include "base/list.h"
#include "base/map.h"
#include "base/thread_owner.h"

#define BINARIES_MAX      4096
#define OPEN_FILES_MAX    256
#define SYMBOL_BYTES_MAX  (27u << 20)
#define SYMBOL_TABLES_MAX 128 /* each has up to three descriptors of its own */

struct binary_key { /* which content */
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    uint64_t changed_ns;
};

struct binary {
    struct binary_key key;
    size_t refs;        /* identities that lead to it */
    int fd;             /* -1 = closed */
    bool is_copy;       /* fd is one, in memory */
    bool is_on_overlay; /* safe_open.h */
    bool is_elf;        /* false: only the hash is known */
    bool is_hashed;
    uint8_t htlhash[16]; /* binary_hash() */
    struct elf_build_ids ids;
    uint32_t generation; /* of the inode, as in the kernel's mapping events; 0 = not known */
    uint32_t n_segments;
    struct symbolizer_segment segments[SYMBOLIZER_SEGMENTS_MAX];
    struct publishers *publishers; /* NULL: it has none */
    enum thread_local_libc libc;
    enum runtime runtime;              /* RUNTIME_UNKNOWN: of none */
    struct runtime_file *runtime_file; /* NULL: none whose frames are read */
    struct function_names *names;      /* NULL = not loaded */
    size_t names_bytes;                /* as counted */
    struct list open;                  /* in binaries.open, if fd >= 0 */
    struct list loaded;                /* in binaries.loaded, if names are loaded */
};

struct binaries {
    struct map names;   /* struct binary_name by identity */
    struct map files;   /* struct binary by key */
    struct list recent; /* identities, least recently used first */
    struct list open;   /* files with a descriptor, least recently used first */
    struct list loaded; /* files with names, least recently used first */
    size_t n_open;
    size_t n_loaded;
    size_t symbol_bytes;       /* sum of names_bytes */
    size_t copied_bytes;       /* of open copies (safe_open.h) */
    bool lines;                /* also load line tables */
    struct thread_owner owner; /* the loop */
};

void binaries_init(struct binaries *binaries, bool lines);
void binaries_close(struct binaries *binaries);

/* The file of the mapping; NULL if it cannot be read. Borrowed until the next call. fd is -1 only
 * if the identity proves the content, but the file cannot be opened any more. */
struct binary *binaries_get(struct binaries *binaries, const uint8_t identity[16], uint32_t pid,
                            const struct process_mapping *mapping);
/* Opens, by one request of the reader, those of the files that binaries_get() would open, as far as
 * that is possible. n: up to READER_FILES_MAX. */
void binaries_open_ahead(struct binaries *binaries, uint32_t pid,
                         const struct process_mapping *mappings, size_t n);
/* Names of its functions, loaded if necessary; NULL: it has none, or cannot be read. pid: a process
 * that maps it. */
struct function_names *binaries_names(struct binaries *binaries, struct binary *binary,
                                      uint32_t pid);
/* To be called after its names were used: they may have grown. Unloads others above the limits. */
void binaries_update_size(struct binaries *binaries, struct binary *binary);
/* Computes binary->htlhash, once. False: the file cannot be read any more. */
bool binary_hash(struct binary *binary);
/* The ELF address of an offset in the file. */
bool binary_address(const struct binary *binary, uint64_t offset, uint64_t *vaddr);

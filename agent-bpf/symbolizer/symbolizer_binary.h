/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Executable files, by the identity of a mapping (process.h). A file is read once. An identity made
 * of device and inode does not prove the content, so its file is checked again after 10 s.
 * Limits, of each of which a tenant has its share (base/fair_share.h), so a flood of files loses
 * its own: BINARIES_MAX identities; OPEN_FILES_MAX descriptors, which allow reading a file after
 * its last process has ended (a closed file is opened again on request), and SAFE_COPY_MAX bytes of
 * copies; SYMBOL_BYTES_MAX and SYMBOL_TABLES_MAX of symbol tables with their lines. A file that
 * several tenants use stays while one of them has few. Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/contexts/publishers.h"
#include "agent-bpf/files/elf.h"
#include "agent-bpf/runtimes/runtime_find.h"
#include "agent-bpf/runtimes/runtime_reader.h"
#include "agent-bpf/symbols/function_names.h"
#include "base/fair_share.h"
#include "base/map.h"
#include "base/thread_owner.h"

#define BINARIES_MAX      4096
#define OPEN_FILES_MAX    256
#define SYMBOL_BYTES_MAX  (27u << 20)
#define SYMBOL_TABLES_MAX 256 /* each has up to three descriptors of its own */
/* What a small one counts for, so that there are no more. */
#define SYMBOL_TABLE_BYTES (SYMBOL_BYTES_MAX / SYMBOL_TABLES_MAX)

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
    struct fair_entry open;            /* kept if fd >= 0 */
    struct fair_entry copied;          /* kept if it is a copy, too */
    struct fair_entry loaded;          /* kept if names are loaded */
};

struct binaries {
    struct map names;          /* struct binary_name by identity */
    struct map files;          /* struct binary by key */
    struct fair_lru known;     /* identities */
    struct fair_lru open;      /* files with a descriptor */
    struct fair_lru copied;    /* bytes of open copies (safe_open.h) */
    struct fair_lru loaded;    /* bytes of names; of each file SYMBOL_TABLE_BYTES at least */
    size_t symbol_bytes;       /* sum of names_bytes */
    bool lines;                /* also load line tables */
    struct thread_owner owner; /* the loop */
};

int binaries_init(struct binaries *binaries, bool lines); /* negative errno of getrandom() */
void binaries_close(struct binaries *binaries);

struct binary_user {
    uint32_t pid;    /* a process that maps the file */
    uint64_t tenant; /* whose share it counts for, unless one who has less uses it, too */
    bool reads;      /* its content, so it has to be open */
};

/* The file of the mapping; NULL if it cannot be read. Borrowed until the next call. fd is -1 if the
 * user does not read it; else only if the file cannot be opened any more. */
struct binary *binaries_get(struct binaries *binaries, const uint8_t identity[16],
                            struct binary_user user, const struct process_mapping *mapping);
/* Opens, by one request of the reader, those of the files that binaries_get() would open, as far as
 * that is possible. n: up to READER_FILES_MAX. */
void binaries_open_ahead(struct binaries *binaries, struct binary_user user,
                         const struct process_mapping *mappings, size_t n);
/* Names of its functions, loaded if necessary; NULL: it has none, or cannot be read. */
struct function_names *binaries_names(struct binaries *binaries, struct binary *binary,
                                      struct binary_user user);
/* To be called after its names were used: they may have grown. Unloads others above the limits. */
void binaries_update_size(struct binaries *binaries, struct binary *binary);
/* Computes binary->htlhash, once. False: the file cannot be read any more. */
bool binary_hash(struct binary *binary);
/* The ELF address of an offset in the file. */
bool binary_address(const struct binary *binary, uint64_t offset, uint64_t *vaddr);

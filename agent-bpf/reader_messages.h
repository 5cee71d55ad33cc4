/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Messages between the symbolizer and the reader: the process that touches what strangers may
 * withhold for ever (memory backed by FUSE or userfaultfd, look-ups on foreign file systems), and
 * that may be lost at any time. One message per datagram of a SOCK_SEQPACKET socketpair. The
 * symbolizer has one request under way at a time; each gets one answer with its ticket (TEXT: one
 * or more; FILE: one for each file). The reader keeps nothing between requests, so a lost one is
 * replaced by another.
 *
 * Not trusted: the reader parses no foreign bytes, but copies them. Decoding checks every length
 * and count, and never reads outside of the datagram.
 *
 * For those who read more of a process (interpreters): all ranges of one step go into one
 * READER_MEMORY_WANTED. They are read in their order, so a seqlock is {time, payload, time}.
 *
 * Format (private: both ends are the same program): kind u8, ticket u64, then the fields of that
 * kind in the order of their struct, as in message_io.h. Nothing may follow. Descriptors come with
 * the datagram, as many as the kind names. Thread: any; READER_SEND and RECEIVE the socket's.
 */
#include "agent-bpf/message_io.h"
#include "agent-bpf/process_event.h"
#include <sys/types.h>

#define READER_MESSAGE_MAX (64 * 1024 + 16 * 1024) /* bytes of a datagram */
#define READER_RANGES_MAX  256
#define READER_BYTES_MAX   (64 * 1024 + 4096) /* of all ranges of a request; of a part of a text */
#define READER_PATH_MAX    4096
#define READER_FILES_MAX   32         /* of a request */
#define READER_COPY_MAX    (4u << 20) /* bytes of one READER_COPY_WANTED */
#define READER_FDS_MAX     2

enum reader_kind {
    /* symbolizer -> reader */
    READER_MEMORY_WANTED = 1, /* memory_wanted */
    READER_TEXT_WANTED,       /* text_wanted: of /proc */
    READER_FILES_WANTED,      /* files_wanted: files, opened */
    READER_COPY_WANTED,       /* copy_wanted; with 2 descriptors: O_PATH of a file, a memfd */
    /* reader -> symbolizer */
    READER_MEMORY = 64, /* memory */
    READER_TEXT,        /* text */
    READER_FILE,        /* file; with a descriptor if error is 0 and it was not a socket */
    READER_COPIED,      /* copied */
};

struct reader_span {
    uint64_t address;
    uint32_t size;
};

struct reader_memory_wanted {
    uint32_t pid;
    uint32_t n;
    struct reader_span *spans; /* at most READER_BYTES_MAX in all */
};

enum reader_text_kind {
    READER_MAPS, /* its lock the process may hold */
    READER_MOUNTS,
    READER_STAT,
    READER_STATUS,
    READER_CGROUP,
    READER_EXE,          /* where the link leads */
    READER_PIDS,         /* of all processes: a line each */
    READER_KERNEL_NOTES, /* as in an ELF file */
    READER_TEXTS
};

struct reader_text_wanted {
    uint32_t pid;
    uint32_t kinds; /* bits 1 << enum reader_text_kind; answered in their order */
};

enum reader_how {
    READER_BY_PATH,
    READER_PLAIN,  /* and a symbolic link anywhere in the path is an error */
    READER_MAPPED, /* by path or by its mapping: the file that is mapped */
    READER_SOCKET, /* by path; only where it lies */
    READER_HOWS
};

struct reader_files_wanted {
    uint32_t pid; /* in its root; 0 = in ours */
    uint8_t how;
    uint32_t n;
    struct process_mapping *mappings; /* READER_MAPPED: all of each; else the path */
};

struct reader_copy_wanted {
    uint64_t offset; /* in both files */
    uint32_t size;   /* at most READER_COPY_MAX */
};

struct reader_content {
    uint32_t error; /* 0 or a (positive) errno: then data is empty */
    struct bytes data;
};

struct reader_memory {
    uint32_t n;
    struct reader_content *contents; /* one for each span; as long as the span, or with an error */
};

struct reader_text {
    uint8_t kind;
    uint8_t more;   /* a further part of it follows */
    uint32_t error; /* 0 or a (positive) errno; EFBIG: longer than the limit */
    struct bytes text;
};

struct reader_file {
    uint32_t error; /* 0, a (positive) errno, or READER_OUTCOME + enum of safe_open.h */
    uint8_t place;  /* enum file_place. Not FILE_PLACE_LOCAL: the descriptor is O_PATH */
    uint8_t is_on_overlay;
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    uint64_t changed_ns;
};

#define READER_OUTCOME 4096

struct reader_copied {
    uint32_t error;
    uint32_t size; /* less than wanted at the end of the file */
};

struct reader_message {
    enum reader_kind kind;
    uint64_t ticket;
    union {
        struct reader_memory_wanted memory_wanted;
        struct reader_text_wanted text_wanted;
        struct reader_files_wanted files_wanted;
        struct reader_copy_wanted copy_wanted;
        struct reader_memory memory;
        struct reader_text text;
        struct reader_file file;
        struct reader_copied copied;
    };
};

/* Appends one datagram. 0, BUF_FULL, -ENOMEM. */
int reader_message_encode(const struct reader_message *message, struct buf *out);
/* Byte ranges are borrowed from `datagram`, lists and paths lie in the arena. 0,
 * MESSAGE_MALFORMED, -ENOMEM (also: the arena's limit). */
int reader_message_decode(struct bytes datagram, struct arena *arena,
                          struct reader_message *message);

struct reader_fds {
    size_t n;
    int fds[READER_FDS_MAX];
};

void reader_fds_close(struct reader_fds *fds);
/* fds: NULL = none; they stay the caller's. 0 or negative errno. */
int reader_send(int socket, struct bytes datagram, const struct reader_fds *fds);
/* Into a buffer of READER_MESSAGE_MAX bytes. Its size; 0: the other end is closed; negative errno
 * (-EAGAIN). The descriptors are the caller's. */
ssize_t reader_receive(int socket, uint8_t *datagram, struct reader_fds *fds);

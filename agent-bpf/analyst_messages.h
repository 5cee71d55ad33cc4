/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What service and analyst say to each other: one message a datagram of a SOCK_SEQPACKET
 * socketpair. The analyst parses what strangers wrote, so the service trusts no byte that comes
 * from it: decoding checks every length and count, and never reads outside of the datagram. Thread:
 * any, pure.
 *
 * Format (ours, both ends are the same program): kind u8, then the fields of that kind in the order
 * of their struct, integers little-endian in their size, bytes as u32 length + bytes, lists as u32
 * count + elements; nothing may follow.
 */
#include "agent-bpf/process_event.h"
#include "agent-bpf/record.h"
#include "base/arena.h"
#include "base/buf.h"

#define ANALYST_MESSAGE_MAX   (64 * 1024 + 4096) /* bytes of a datagram */
#define ANALYST_PATH_MAX      4096
#define ANALYST_NAMES_MAX     40 /* addresses or names in one message */
#define ANALYST_NAME_BYTES    512
#define ANALYST_KEYS_MAX      256
#define ANALYST_CONTAINER_MAX 128
#define ANALYST_SEGMENTS_MAX  8
#define ANALYST_MAPPINGS_MAX  64 /* of one stack to be unwound */
#define ANALYST_ANCESTORS_MAX 4

enum analyst_kind {
    /* service -> analyst */
    ANALYST_SCAN_WANTED = 1,     /* nothing else: every process of /proc, again */
    ANALYST_PROCESS_WANTED,      /* process: details, and its contexts looked for */
    ANALYST_CONTEXT_WANTED,      /* process: its contexts looked for, also if it has some */
    ANALYST_PROCESS_LEFT,        /* process */
    ANALYST_EXECUTABLE_WANTED,   /* executable_ref */
    ANALYST_NAMES_WANTED,        /* names_wanted */
    ANALYST_KERNEL_NAMES_WANTED, /* names_wanted: addresses are offsets from _text */
    ANALYST_UNWIND_WANTED,       /* unwind_wanted */
    ANALYST_CODE_WANTED,         /* code_wanted */
    /* analyst -> service */
    ANALYST_EVENT = 64,   /* event: found by the scan; PROCESS_FORKED stands for "was there" */
    ANALYST_SCAN_DONE,    /* scan_done */
    ANALYST_DETAILS,      /* details */
    ANALYST_CONTEXT,      /* context */
    ANALYST_GONE,         /* process: there is none such any more */
    ANALYST_EXECUTABLE,   /* executable */
    ANALYST_NAMES,        /* names */
    ANALYST_KERNEL_NAMES, /* names */
    ANALYST_KERNEL,       /* kernel */
    ANALYST_CORRELATION,  /* process; with a descriptor: a datagram socket, connected to the Elastic
                             agent in it (elastic_message.h) */
    ANALYST_UNWOUND,      /* unwound */
    ANALYST_CODE,         /* code */
};

struct analyst_process {
    uint32_t pid; /* as in record_header.pid */
    /* CLOCK_MONOTONIC. Answers: before the look; the process may have execed since. Requests: of a
     * sample of this program; 0 = none yet. */
    uint64_t time_ns;
};

/* Which file, and one place where it is (or was) mapped, by which the analyst finds it. Should that
 * process have ended, those that it comes from may see the file by the same path. */
struct analyst_executable_ref {
    uint8_t identity[16]; /* of process.h */
    uint32_t pid;
    uint32_t ancestors[ANALYST_ANCESTORS_MAX]; /* nearest first; 0 = no further one */
    struct process_mapping mapping;            /* path: NUL-terminated, from the decoder's arena */
};

struct analyst_names_wanted {
    struct analyst_executable_ref executable; /* kernel: zero */
    uint32_t n;
    uint64_t *addresses; /* offsets in the file */
};

struct analyst_details {
    uint32_t pid;
    uint64_t time_ns;  /* as in analyst_process */
    uint32_t own_pid;  /* in its innermost PID namespace */
    uint64_t start_ns; /* CLOCK_BOOTTIME, rounded down to 10 ms: field 22 of /proc/PID/stat */
    struct bytes exe;  /* path, as in /proc/PID/exe; raw */
    struct bytes container_id;
    struct bytes pod_uid;
};

/* What a process says of itself now, in place of what was told before; nothing at all: it says
 * nothing (any more). */
struct analyst_context {
    uint32_t pid;
    uint64_t time_ns; /* as in analyst_process */
    /* CONTEXT_BIT() of enum context_source (record.h) in its entry of the contexts map: from now on
     * samples carry their ids. 0 = it has no entry. */
    uint8_t sources;
    uint8_t publishes;        /* likewise, found in the process, whether they can be read or not */
    uint8_t sets_trace_flags; /* its writers are known to fill the flags */
    struct bytes resource;    /* Resource message, of all that the process says of itself */
    uint32_t n_keys;
    struct bytes *keys; /* key index -> attribute name, valid UTF-8 */
};

struct analyst_segment { /* PT_LOAD */
    uint64_t file_offset;
    uint64_t size;
    uint64_t vaddr;
};

struct analyst_executable {
    uint8_t identity[16];
    uint8_t found; /* 0: it could not be opened; the rest is empty */
    uint8_t htlhash[16];
    struct bytes build_id;    /* GNU, raw */
    struct bytes go_build_id; /* text */
    uint32_t n_segments;
    struct analyst_segment segments[ANALYST_SEGMENTS_MAX];
};

struct analyst_name {
    uint64_t address;
    struct bytes function;    /* valid UTF-8 without control characters; empty = not known */
    struct bytes system_name; /* likewise: as the linker has it, where that is another */
    struct bytes file;
    uint32_t line;
};

/* Each wanted address once; or, where functions were inlined, several times in a row, innermost
 * first. */
struct analyst_names {
    uint8_t identity[16];
    uint8_t more; /* a further answer to the same request follows */
    uint32_t n;
    struct analyst_name *names;
};

/* A stack that the tick could not unwind to its end (record.h), to be gone on with. */
struct analyst_unwind_wanted {
    uint64_t ticket; /* the asker's; comes back with the answer */
    uint32_t pid;
    struct bytes stack; /* struct record_stack and the copy behind it, as in the record */
    uint32_t n;
    struct analyst_executable_ref *mappings; /* of that process; those that words of the copy, or
                                                pc, point into; by address */
};

struct analyst_unwound_frame {
    uint64_t pc;
    uint8_t is_return; /* pc lies behind a call */
};

struct analyst_unwound {
    uint64_t ticket;
    uint8_t end; /* enum unwind_end; not UNWIND_END_WANTED */
    uint32_t n;  /* at most RECORD_MAX_USER_FRAMES */
    struct analyst_unwound_frame *frames;
};

/* Names of code that lies in no file. */
struct analyst_code_wanted {
    uint64_t ticket; /* the asker's; comes back with the answer */
    uint32_t pid;
    uint32_t n; /* at most RECORD_MAX_USER_FRAMES */
    uint64_t *addresses;
};

struct analyst_code_range {
    uint64_t start;
    uint64_t last;         /* address in it */
    struct bytes function; /* as analyst_name.function; empty = none in all of the range */
};

struct analyst_code {
    uint64_t ticket;
    uint32_t pid;
    uint8_t named; /* the process gives names to its code; else there are no ranges */
    uint32_t n;    /* at most RECORD_MAX_USER_FRAMES; as many as fit the datagram */
    struct analyst_code_range *ranges; /* those that the addresses lie in */
};

struct analyst_kernel {
    uint64_t text_start; /* _text; 0 = addresses are hidden from us */
    uint64_t text_end;   /* _end; 0 likewise */
    struct bytes build_id;
};

struct analyst_scan_done {
    uint64_t start_ns; /* CLOCK_MONOTONIC when the scan began */
    uint64_t end_ns;
};

struct analyst_message {
    enum analyst_kind kind;
    union {
        struct analyst_process process;
        struct analyst_executable_ref executable_ref;
        struct analyst_names_wanted names_wanted;
        struct process_event event;
        struct analyst_scan_done scan_done;
        struct analyst_details details;
        struct analyst_context context;
        struct analyst_executable executable;
        struct analyst_names names;
        struct analyst_kernel kernel;
        struct analyst_unwind_wanted unwind_wanted;
        struct analyst_unwound unwound;
        struct analyst_code_wanted code_wanted;
        struct analyst_code code;
    };
};

enum { ANALYST_MALFORMED = 1 };

/* Appends one datagram. 0, BUF_FULL (longer than ANALYST_MESSAGE_MAX or the buf's limit), -ENOMEM.
 */
int analyst_message_encode(const struct analyst_message *message, struct buf *out);
/* Byte ranges are borrowed from `datagram`, lists and paths lie in the arena. 0, ANALYST_MALFORMED,
 * -ENOMEM (also: the arena's limit). */
int analyst_message_decode(struct bytes datagram, struct arena *arena,
                           struct analyst_message *message);

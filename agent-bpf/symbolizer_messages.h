/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Messages between service and symbolizer: one per datagram of a SOCK_SEQPACKET socketpair. The
 * symbolizer parses foreign files, so the service does not trust it: decoding checks every length
 * and count, and never reads outside of the datagram. Pure; thread: any.
 *
 * Format (private: both ends are the same program): kind u8, then the fields of that kind in the
 * order of their struct, integers little-endian in their size, bytes as u32 length + bytes, lists
 * as u32 count + elements. Nothing may follow.
 */
#include "agent-bpf/message_io.h"
#include "agent-bpf/process_event.h"
#include "agent-bpf/record.h"
#include "context/publisher_state.h"
#include "context/runtime_frames.h"

#define SYMBOLIZER_MESSAGE_MAX   (64 * 1024 + 4096) /* bytes of a datagram */
#define SYMBOLIZER_PATH_MAX      4096
#define SYMBOLIZER_NAMES_MAX     40 /* addresses or names in one message */
#define SYMBOLIZER_NAME_BYTES    512
#define SYMBOLIZER_KEYS_MAX      256
#define SYMBOLIZER_CONTAINER_MAX 128
#define SYMBOLIZER_LINES_MAX     32
#define SYMBOLIZER_SEGMENTS_MAX  8
#define SYMBOLIZER_MAPPINGS_MAX  64 /* of one stack to be unwound */
#define SYMBOLIZER_ANCESTORS_MAX 4

enum symbolizer_kind {
    /* service -> symbolizer */
    SYMBOLIZER_SCAN_WANTED = 1,     /* no fields: scan /proc (again) */
    SYMBOLIZER_PROCESS_WANTED,      /* process: send its details, find its contexts */
    SYMBOLIZER_CONTEXT_WANTED,      /* process: find its contexts, also if it has some */
    SYMBOLIZER_PROCESS_LEFT,        /* process */
    SYMBOLIZER_EXECUTABLE_WANTED,   /* executable_ref */
    SYMBOLIZER_NAMES_WANTED,        /* names_wanted */
    SYMBOLIZER_KERNEL_NAMES_WANTED, /* names_wanted: addresses are offsets from _text */
    SYMBOLIZER_UNWIND_WANTED,       /* unwind_wanted */
    SYMBOLIZER_CODE_WANTED,         /* code_wanted */
    SYMBOLIZER_MAPPINGS_WANTED,     /* process: report it as the scan would, and no other */
    /* symbolizer -> service */
    SYMBOLIZER_EVENT = 64,   /* event: found by the scan; PROCESS_FORKED stands for "was there" */
    SYMBOLIZER_SCAN_DONE,    /* scan_done */
    SYMBOLIZER_DETAILS,      /* details */
    SYMBOLIZER_CONTEXT,      /* context */
    SYMBOLIZER_GONE,         /* process: it does not exist any more */
    SYMBOLIZER_EXECUTABLE,   /* executable */
    SYMBOLIZER_NAMES,        /* names */
    SYMBOLIZER_KERNEL_NAMES, /* names */
    SYMBOLIZER_KERNEL,       /* kernel */
    SYMBOLIZER_CORRELATION,  /* process; with a descriptor: a datagram socket, connected to
                              * the Elastic agent in it (elastic_message.h) */
    SYMBOLIZER_UNWOUND,      /* unwound */
    SYMBOLIZER_CODE,         /* code */
};

struct symbolizer_process {
    uint32_t pid; /* as in record_header.pid */
    /* CLOCK_MONOTONIC. Answers: before the process was read; it may have execed since. Requests: of
     * a sample of this program; 0 = none yet. */
    uint64_t time_ns;
};

/* A file, and one place where it is (or was) mapped, by which the symbolizer finds it. If that
 * process has ended, its ancestors may see the file at the same path. */
struct symbolizer_executable_ref {
    uint8_t identity[16]; /* of process.h */
    uint32_t pid;
    uint32_t ancestors[SYMBOLIZER_ANCESTORS_MAX]; /* nearest first; 0 = no further one */
    struct process_mapping mapping; /* path: NUL-terminated, from the decoder's arena */
};

struct symbolizer_names_wanted {
    struct symbolizer_executable_ref executable; /* kernel: zero */
    uint32_t n;
    uint64_t *addresses; /* offsets in the file */
};

struct symbolizer_details {
    uint32_t pid;
    uint64_t time_ns;  /* as in symbolizer_process */
    uint32_t own_pid;  /* in its innermost PID namespace */
    uint64_t start_ns; /* CLOCK_BOOTTIME, rounded down to 10 ms: field 22 of /proc/PID/stat */
    struct bytes exe;  /* path, as in /proc/PID/exe; raw */
    struct bytes container_id;
    struct bytes pod_uid;
};

/* What a process publishes about itself; replaces what was reported before. All empty: it publishes
 * nothing (any more). */
struct symbolizer_context {
    uint32_t pid;
    uint64_t time_ns; /* as in symbolizer_process */
    /* CONTEXT_BIT() of enum context_source (record.h) in its entry of the contexts map: from now on
     * samples carry their ids. 0 = it has no entry. */
    uint8_t sources;
    uint8_t publishes;            /* CONTEXT_BIT()s found in the process, readable or not */
    uint8_t sets_trace_flags;     /* its writers are known to fill the flags */
    uint8_t runtime;              /* enum runtime */
    uint8_t publisher;            /* enum publisher_state */
    uint8_t unreadable;           /* enum context_unreadable, if that is PUBLISHER_UNREADABLE */
    struct runtime_frames frames; /* not a state that follows from samples */
    struct bytes resource;        /* Resource message, merged from all its sources */
    uint32_t n_keys;
    struct bytes *keys; /* key index -> attribute name, valid UTF-8 */
};

struct symbolizer_segment { /* PT_LOAD */
    uint64_t file_offset;
    uint64_t size;
    uint64_t vaddr;
};

struct symbolizer_executable {
    uint8_t identity[16];
    uint8_t found; /* 0: it could not be opened; the rest is empty */
    uint8_t htlhash[16];
    struct bytes build_id;    /* GNU, raw */
    struct bytes go_build_id; /* text */
    uint32_t n_segments;
    struct symbolizer_segment segments[SYMBOLIZER_SEGMENTS_MAX];
};

struct symbolizer_name {
    uint64_t address;
    struct bytes function;    /* valid UTF-8 without control characters; empty = not known */
    struct bytes system_name; /* the linker's name, if it is different */
    struct bytes file;
    uint32_t line;
};

/* Each wanted address once. Where functions were inlined, several times in a row, innermost first.
 */
struct symbolizer_names {
    uint8_t identity[16];
    uint8_t more; /* a further answer to the same request follows */
    uint32_t n;
    struct symbolizer_name *names;
};

/* A stack that the tick could not unwind to its end (record.h). */
struct symbolizer_unwind_wanted {
    uint64_t ticket; /* the asker's; comes back with the answer */
    uint32_t pid;
    struct bytes stack; /* struct record_stack and the copy behind it, as in the record */
    uint32_t n;
    struct symbolizer_executable_ref *mappings; /* of that process: those that pc or words of the
                                                 * copy point into; by address */
};

struct symbolizer_unwound {
    uint64_t ticket;
    uint8_t end; /* enum unwind_end; not UNWIND_END_WANTED */
    uint32_t n;  /* at most RECORD_MAX_USER_FRAMES */
    struct record_frame *frames;
};

/* Names of code that is in no file: a FRAME_NATIVE is an address in it, the others are frames of
 * runtimes. */
struct symbolizer_code_wanted {
    uint64_t ticket; /* the asker's; comes back with the answer */
    uint32_t pid;
    uint32_t n; /* at most RECORD_MAX_USER_FRAMES */
    struct record_frame *frames;
};

struct symbolizer_code_range {
    uint64_t start;
    uint64_t last;         /* address in it */
    struct bytes function; /* as symbolizer_name.function; empty = none in all of the range */
};

struct symbolizer_line { /* texts as symbolizer_name.function */
    struct bytes function;
    struct bytes system_name; /* empty = the same, or none */
    struct bytes file;        /* empty = not known */
    uint32_t line;            /* 0 = not known */
    uint32_t column;          /* 0 = not known */
    uint32_t start_line;      /* 0 = not known */
};

struct symbolizer_code_frame {
    struct record_frame frame;     /* as asked */
    uint32_t n;                    /* 1 to SYMBOLIZER_LINES_MAX */
    struct symbolizer_line *lines; /* inlined functions innermost first, then the compiled one */
};

/* Of the process; only with CODE_MAP_READ there are ranges. */
enum symbolizer_code_map { CODE_MAP_NONE, CODE_MAP_READ, CODE_MAP_NOT_ASKED /* for no address */ };

struct symbolizer_code {
    uint64_t ticket;
    uint32_t pid;
    uint8_t map;     /* enum symbolizer_code_map */
    uint8_t runtime; /* enum runtime: that writes it; RUNTIME_UNKNOWN: not known */
    uint8_t cut;     /* 1: a limit of one request was reached; frames that are missing may be named
                      * if they are asked for again */
    uint32_t n;      /* at most RECORD_MAX_USER_FRAMES; as many as fit the datagram */
    struct symbolizer_code_range *ranges; /* that contain the addresses */
    uint32_t n_frames; /* at most RECORD_MAX_USER_FRAMES; as many as fit the datagram */
    struct symbolizer_code_frame *frames;
};

struct symbolizer_kernel {
    uint64_t text_start; /* _text; 0 = addresses are hidden from us */
    uint64_t text_end;   /* _end; 0 = addresses are hidden from us */
    struct bytes build_id;
};

struct symbolizer_scan_done {
    uint64_t start_ns; /* CLOCK_MONOTONIC when the scan began */
    uint64_t end_ns;
};

struct symbolizer_message {
    enum symbolizer_kind kind;
    union {
        struct symbolizer_process process;
        struct symbolizer_executable_ref executable_ref;
        struct symbolizer_names_wanted names_wanted;
        struct process_event event;
        struct symbolizer_scan_done scan_done;
        struct symbolizer_details details;
        struct symbolizer_context context;
        struct symbolizer_executable executable;
        struct symbolizer_names names;
        struct symbolizer_kernel kernel;
        struct symbolizer_unwind_wanted unwind_wanted;
        struct symbolizer_unwound unwound;
        struct symbolizer_code_wanted code_wanted;
        struct symbolizer_code code;
    };
};

enum { SYMBOLIZER_MALFORMED = MESSAGE_MALFORMED };

/* Appends one datagram. 0, BUF_FULL (longer than SYMBOLIZER_MESSAGE_MAX or the buf's limit),
 * -ENOMEM.
 */
int symbolizer_message_encode(const struct symbolizer_message *message, struct buf *out);
/* Byte ranges are borrowed from `datagram`, lists and paths lie in the arena. 0,
 * SYMBOLIZER_MALFORMED, -ENOMEM (also: the arena's limit). */
int symbolizer_message_decode(struct bytes datagram, struct arena *arena,
                              struct symbolizer_message *message);

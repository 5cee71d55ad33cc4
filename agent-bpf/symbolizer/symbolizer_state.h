/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbolizer itself, and the answers that it gives. Private to this folder. Thread: its loop.
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include "agent-bpf/symbolizer/elastic_connections.h"
#include "agent-bpf/symbolizer/process_texts.h"
#include "agent-bpf/symbolizer/runtime_shares.h"
#include "agent-bpf/symbolizer/symbolizer_binary.h"
#include "agent-bpf/symbolizer/symbolizer_ledger.h"
#include "agent-bpf/symbolizer/symbolizer_out.h"
#include "agent-bpf/symbolizer/symbolizer_tables.h"
#include "agent-bpf/contexts/elastic_storage.h"
#include "agent-bpf/contexts/otel_context.h"
#include "agent-bpf/symbols/perf_maps.h"
#include "agent-bpf/files/proc_maps.h"
#include "base/clock.h"
#include "base/map.h"
#include "context/context_layout.h"

#define SYMBOLIZER_STEP_NS (20 * NS_PER_MS) /* of work; then the loop serves others */
#define SYMBOLIZER_OWNERS  1024
#define SYMBOLIZER_REST_NS (60 * NS_PER_SEC)
#define TRACKED_DELAYS     9 /* 50 ms << 0 .. 8 = 12.8 s */

/* The request in hand. */
enum symbolizer_request {
    REQUEST_FIRST, /* the reader is asked for it for the first time */
    REQUEST_WAITS, /* the reader was lost meanwhile; it is served once more with the next one */
    REQUEST_AGAIN, /* for the last time */
};

struct symbolizer {
    struct symbolizer_settings settings;
    struct watch watch; /* the service's socket */
    struct timer work;  /* scan and inspections */
    struct owners {     /* of the processes looked at last, by the low bits of their pids */
        struct process_owner owner;
        uint64_t read_ns;
    } owners[SYMBOLIZER_OWNERS];
    bool cautious; /* bans do not end */
    struct symbolizer_out out;
    struct binaries binaries;
    struct tables *tables;
    struct perf_maps perf_maps;
    struct runtime_cache *runtime_cache;
    struct runtime_shares runtime_shares;
    uint64_t last_program;              /* number of process_runtimes */
    struct runtime_page *runtime_pages; /* runtime_walk.h */
    /* tracked_process.h */
    struct map processes;                /* struct tracked_process by pid */
    struct list waiting[TRACKED_DELAYS]; /* struct tracked_process by due_ns, a list per delay */
    struct process_shares {              /* of all tracked processes, by tenant */
        struct fair_share tracked, contexts /* entries of the map */, environments /* bytes */;
    } shares;
    struct elastic_connections elastic_connections; /* inspection_elastic.c */
    /* symbolizer_scan.c */
    bool scanning;
    bool scan_again; /* requested during a scan */
    uint64_t scan_start_ns;
    uint32_t *scan_pids;
    size_t n_scan_pids;
    size_t scan_at; /* index into scan_pids */
    /* symbolizer_names.c */
    struct kallsyms *kallsyms; /* NULL = not loaded */
    uint64_t kallsyms_used_ns;
    uint64_t text_start;
    /* Scratch memory, reused by each step. */
    struct buf maps;       /* of the process in hand, /proc/PID/maps */
    struct buf maps_again; /* read a second time, to see whether it is still the same program */
    struct buf text;
    struct process_texts texts;
    enum symbolizer_request request;
    size_t datagram_size;
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX]; /* the request */
    uint8_t payload[OTEL_PROCESS_PAYLOAD_MAX];
    uint8_t elastic_data[ELASTIC_STORAGE_MAX];
    struct otel_context context;
};

/* symbolizer.c */
/* Who answers for a process; valid until the next call. */
const struct process_owner *symbolizer_owner(struct symbolizer *symbolizer, uint32_t pid);
void symbolizer_forget_owner(struct symbolizer *symbolizer, uint32_t pid); /* it has execed */
/* The same, as a tenant of base/fair_share.h. */
uint64_t symbolizer_tenant(struct symbolizer *symbolizer, uint32_t pid);
/* As one that uses files, or also reads their content. */
struct binary_user symbolizer_user(struct symbolizer *symbolizer, uint32_t pid, bool reads);
bool symbolizer_is_banned(struct symbolizer *symbolizer, uint32_t pid);
/* True, and counted, if the process is banned: the caller reads nothing of it. */
bool symbolizer_skips(struct symbolizer *symbolizer, uint32_t pid);
/* A process is only touched in between: the ledger names it. */
void symbolizer_enter(struct symbolizer *symbolizer, uint32_t pid);
void symbolizer_leave(struct symbolizer *symbolizer);

/* True: the reader was lost over the request, which is served again; so it is not answered now. */
bool symbolizer_repeats(struct symbolizer *symbolizer);

/* symbolizer_scan.c */
void symbolizer_scan_start(struct symbolizer *symbolizer);
/* Of one process alone. */
void symbolizer_scan_process(struct symbolizer *symbolizer, uint32_t pid);
void symbolizer_scan_step(struct symbolizer *symbolizer, uint64_t until_ns);
/* Opens the files whose code symbolizer->maps shows, READER_FILES_MAX by one request. */
void symbolizer_open_ahead(struct symbolizer *symbolizer, uint32_t pid);
/* The mapping of a line of /proc/PID/maps, with the build id or inode generation that the kernel's
 * event stream would give. The path is copied to `path`. *binary is NULL if the file cannot be
 * read. */
void symbolizer_resolve_mapping(struct symbolizer *symbolizer, struct binary_user user,
                                const struct proc_map *map, char path[SYMBOLIZER_PATH_MAX],
                                struct process_mapping *mapping, struct binary **binary);

/* symbolizer_code.c */
void symbolizer_answer_code(struct symbolizer *symbolizer,
                            const struct symbolizer_code_wanted *wanted);

/* symbolizer_unwind.c */
void symbolizer_answer_unwind(struct symbolizer *symbolizer,
                              const struct symbolizer_unwind_wanted *wanted);

/* symbolizer_names.c */
/* NULL: the file is not readable, or its process is banned. */
struct binary *symbolizer_binary(struct symbolizer *symbolizer,
                                 const struct symbolizer_executable_ref *ref);
void symbolizer_answer_executable(struct symbolizer *symbolizer,
                                  const struct symbolizer_executable_ref *ref);
void symbolizer_answer_names(struct symbolizer *symbolizer,
                             const struct symbolizer_names_wanted *wanted);
void symbolizer_answer_kernel_names(struct symbolizer *symbolizer,
                                    const struct symbolizer_names_wanted *wanted);
void symbolizer_send_kernel(struct symbolizer *symbolizer);
/* Frees the kernel's names if they were not used for a minute. */
void symbolizer_unload_kernel(struct symbolizer *symbolizer, uint64_t now_ns);

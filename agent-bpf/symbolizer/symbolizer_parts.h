/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parts of the symbolizer, private to symbolizer*.c. Thread: its loop.
 *
 * A subject is a process that the service is interested in. It is looked at when the service asks,
 * and again after a while: while more may come, at growing distances from 50 ms to 10 s as long as
 * the service keeps asking; then every 2 s for changes of what was found.
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include "agent-bpf/symbolizer/symbolizer_binary.h"
#include "agent-bpf/contexts/environment.h"
#include "agent-bpf/symbolizer/symbolizer_ledger.h"
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/symbolizer/symbolizer_tables.h"
#include "agent-bpf/contexts/elastic_storage.h"
#include "agent-bpf/contexts/otel_context.h"
#include "agent-bpf/symbols/perf_maps.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/record.h"
#include "base/clock.h"
#include "base/map.h"
#include "context/context_layout.h"

#define SYMBOLIZER_SUBJECTS_MAX     65536
#define SYMBOLIZER_OUT_BYTES_MAX    (8u << 20)       /* unsent; above, no new work is taken up */
#define SYMBOLIZER_OUT_FDS_MAX      256              /* unsent */
#define SYMBOLIZER_STEP_NS          (20 * NS_PER_MS) /* of work, then the loop's other business */
#define SYMBOLIZER_POLL_NS          (50 * NS_PER_MS)
#define SYMBOLIZER_REST_NS          (60 * NS_PER_SEC)
#define SYMBOLIZER_DISTANCES        9                 /* 50 ms << 0 .. 8 = 12.8 s */
#define SYMBOLIZER_SETTLED_DISTANCE 5                 /* 1.6 s: nothing more is expected */
#define SYMBOLIZER_INTEREST_NS      (15 * NS_PER_SEC) /* polled so long after the service asked */

struct elastic_peer {    /* of a subject with Elastic's library */
    uint64_t pointer_at; /* address of the pointer to the process storage */
    uint64_t storage;    /* what it was; 0 = none yet */
    uint64_t connected_ns;
    uint8_t connected[16]; /* digest of the storage whose socket was tried; zero = none */
};

struct subject {
    uint32_t pid;
    uint8_t distance;  /* of its next look: index into symbolizer.waiting */
    uint8_t sources;   /* in its entry of the contexts map; 0 = it has none */
    uint8_t publishes; /* as told */
    bool reported;     /* something was told to the service */
    bool sampled;
    bool environment_read;
    uint32_t n_torn; /* of its entry, when its variables were located last */
    uint64_t due_ns;
    uint64_t asked_ns;
    uint64_t looked_ns; /* at its maps; 0: to be looked at in any case */
    uint64_t start_ns;
    uint64_t address;                /* of the OTEL_CTX header; 0 = none known */
    uint64_t published_ns;           /* of what was read last */
    uint8_t told[16];                /* digest of the message; zero = none */
    struct environment *environment; /* NULL: it says nothing */
    struct elastic_peer *elastic;    /* NULL: no such library */
    struct list waiting;
};

struct symbolizer {
    struct symbolizer_settings settings;
    struct watch watch; /* the service's socket */
    struct timer work;  /* scan and polls */
    struct list out;    /* datagrams that the socket did not take yet */
    size_t out_bytes;
    size_t out_fds;
    size_t environment_bytes; /* of all subjects */
    struct binaries binaries;
    struct tables *tables;
    struct perf_maps perf_maps;
    struct map subjects;
    struct list waiting[SYMBOLIZER_DISTANCES]; /* subjects by due_ns */
    /* scan */
    bool scanning;
    bool scan_again; /* asked for while one was running */
    uint64_t scan_start_ns;
    uint32_t *scan_pids;
    size_t n_scan_pids;
    size_t scan_at;
    /* kernel */
    struct kallsyms *kallsyms; /* NULL = not loaded */
    uint64_t kallsyms_used_ns;
    uint64_t text_start;
    /* reused */
    struct buf maps;
    struct buf maps_again;
    struct buf mounts;
    struct buf text;
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    uint8_t payload[OTEL_PROCESS_PAYLOAD_MAX];
    uint8_t elastic_data[ELASTIC_STORAGE_MAX];
    struct otel_context context;
};

/* symbolizer.c */
void symbolizer_say(struct symbolizer *symbolizer, const struct symbolizer_message *message);
/* With a descriptor, which it owns from now on. */
void symbolizer_say_fd(struct symbolizer *symbolizer, const struct symbolizer_message *message,
                       int fd);
bool symbolizer_congested(const struct symbolizer *symbolizer);
bool symbolizer_is_banned(const struct symbolizer *symbolizer, uint32_t pid);
/* True, and counted: it is banned, and nothing of it is read now. */
bool symbolizer_skips(const struct symbolizer *symbolizer, uint32_t pid);

enum symbolizer_limit { SYMBOLIZER_LIMIT_WORK, SYMBOLIZER_LIMIT_PROCESSES, SYMBOLIZER_LIMITS };
void symbolizer_count_full(enum symbolizer_limit limit); /* something is left out */

/* symbolizer_subject.c */
struct subject *subject_get(struct symbolizer *symbolizer, uint32_t pid); /* NULL at a limit */
void subject_forget(struct symbolizer *symbolizer, uint32_t pid);
/* details: it is new to the service, or another program since its exec. */
void subject_asked(struct symbolizer *symbolizer, uint32_t pid, bool details, bool sampled);
bool subject_is_sampled(const struct symbolizer *symbolizer, uint32_t pid);
void subject_details(struct symbolizer *symbolizer, struct subject *subject);
uint64_t
subjects_due(const struct symbolizer *symbolizer); /* when the next look is; UINT64_MAX: none */
void subjects_poll(struct symbolizer *symbolizer, uint64_t until_ns);
void subjects_close(struct symbolizer *symbolizer);

/* One look at a subject, whose maps in symbolizer->maps are fresh. */
struct look {
    struct symbolizer *symbolizer;
    struct subject *subject;
    bool mounts_read;
    bool has_context; /* symbolizer->context is the subject's */
    bool flags_unsure;
    unsigned publishes;
    struct context_process entry;
    struct {
        uint64_t start;
        uint64_t inode;
    } places[CONTEXT_MAX_VARIABLES]; /* by variable: where its file is mapped */
    uint64_t elastic_pointer_at;     /* 0 = no such library */
    struct bytes elastic_data;       /* in symbolizer->elastic_data; empty = none (yet) */
    struct elastic_storage elastic;
};

/* symbolizer_context.c */
void subject_look(struct symbolizer *symbolizer, struct subject *subject);
/* True: everything is as it was told. */
bool subject_unchanged(struct symbolizer *symbolizer, struct subject *subject);
/* Memory of the subject that is not on strangers' file systems. 0, -EFAULT (also: counted, not
 * read), negative errno. */
int look_memory(struct look *look, uint64_t address, void *out, size_t size);
bool look_is_harmless(struct look *look, uint64_t address, uint64_t size);

/* symbolizer_attach.c */
void attach_begin(void); /* a symbolizer before this one may have left counts of readers */
void look_find_variables(struct look *look);
/* 0: samples carry ids from now on; -ENOENT: nothing to enter; -ESRCH: it is another program by
 * now; negative errno. */
int look_enter(struct look *look);
unsigned look_sources(const struct look *look); /* of its entry, if it can be entered */
/* The entry is there, and its reads succeed as far as one can know. */
bool attach_holds(const struct symbolizer *symbolizer, const struct subject *subject);
int attach_entry(const struct symbolizer *symbolizer, const struct subject *subject,
                 struct context_process *entry); /* 0 or negative errno */
/* Also what a symbolizer before this one may have entered. */
void attach_delete(struct symbolizer *symbolizer, struct subject *subject);
void attach_forget(struct subject *subject); /* the process is gone, and its entry with it */

/* symbolizer_resource.c */
void look_environment(struct look *look); /* uses symbolizer->payload */
int look_resource(struct look *look, struct buf *out);
void resource_forget(struct symbolizer *symbolizer, struct subject *subject);

/* symbolizer_elastic.c */
void look_elastic(struct look *look);
void look_correlate(struct look *look); /* hands a socket to the service, if it is due */
bool elastic_holds(const struct subject *subject);

/* symbolizer_scan.c */
void symbolizer_scan_start(struct symbolizer *symbolizer);
void symbolizer_scan_step(struct symbolizer *symbolizer, uint64_t until_ns);
/* A file's mapping as /proc/PID/maps has it, completed by what the kernel's stream would have told.
 */
void symbolizer_complete_mapping(struct symbolizer *symbolizer, uint32_t pid,
                                 const struct proc_map *map, char path[SYMBOLIZER_PATH_MAX],
                                 struct process_mapping *mapping, struct binary **binary);

/* symbolizer_code.c */
void symbolizer_answer_code(struct symbolizer *symbolizer,
                            const struct symbolizer_code_wanted *wanted);

/* symbolizer_unwind.c */
void symbolizer_answer_unwind(struct symbolizer *symbolizer,
                              const struct symbolizer_unwind_wanted *wanted);

/* symbolizer_names.c */
/* NULL: not readable, or its process is banned. */
struct binary *symbolizer_binary(struct symbolizer *symbolizer,
                                 const struct symbolizer_executable_ref *ref);
void symbolizer_answer_executable(struct symbolizer *symbolizer,
                                  const struct symbolizer_executable_ref *ref);
void symbolizer_answer_names(struct symbolizer *symbolizer,
                             const struct symbolizer_names_wanted *wanted);
void symbolizer_answer_kernel_names(struct symbolizer *symbolizer,
                                    const struct symbolizer_names_wanted *wanted);
void symbolizer_tell_kernel(struct symbolizer *symbolizer);
void symbolizer_rest_kernel(struct symbolizer *symbolizer,
                            uint64_t now_ns); /* unloads unused names */

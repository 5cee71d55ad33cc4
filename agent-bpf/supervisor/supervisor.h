/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process that was started. It loads BPF, opens and holds all perf events, starts service,
 * symbolizer and its reader (role.h), starts each again when it dies or hangs, and passes signals
 * on. It parses nothing, and waits for nothing without limit (supervisor_child.h). Thread: main,
 * before any other thread exists.
 *
 * Signals: the first SIGTERM or SIGINT asks the service to stop and waits stop_timeout_ns for it; a
 * second one, or the timeout, kills. SIGHUP: settings.reload() is asked; if it has nothing new, all
 * files are read again, then supervisor_client.reload.
 * Children: SIGTERM, SIGINT, SIGHUP and SIGPIPE are ignored (a whole group may be signalled; the
 * supervisor gives the word); they get SIGKILL when the supervisor dies. No fd but 0..2, those
 * named in the handles and in role_settings, and files. No environment variable but those that
 * libraries read (supervisor_exec.c).
 */
#include "agent-bpf/supervisor/supervisor_files.h"
#include "agent-bpf/sampler/sampling_rate.h"
#include "agent-bpf/sampler/sampler.h"
#include <stdbool.h>

struct supervisor_sampling;
struct procstream;

/* What the owner of the supervisor gives a process, beside its handles: bytes that its main
 * function knows, and the open descriptors that they name. */
struct role_settings {
    struct bytes bytes;
    const int *fds;
    size_t n_fds;
};

/* The service's exit code for what a new start cannot mend (configuration, port in use): the
 * supervisor ends with 1 at once. 0 ends the supervisor with 0. Any other end means a new start. */
#define SERVICE_EXIT_FATAL  3
#define SUPERVISOR_RELOADED 2 /* what supervisor_run() returns when settings.reload() said so */

struct service_handles {
    int control_fd;                /* supervisor_client_start() */
    bool sampling;                 /* the five below are set */
    int ring_fd;                   /* ring_open(); -1 */
    size_t ring_size;              /* bytes */
    int connections_fd;            /* BPF map: agent-bpf/connection.h; -1 */
    uint64_t period_ns;            /* of the sampler, at the start */
    struct procstream *procstream; /* open, with all CPUs; the service's to close; NULL */
    unsigned restarts;             /* 0 = the first start */
};

struct symbolizer_handles {
    int control_fd;  /* heartbeat_send() or _start() */
    int service_fd;  /* SOCK_SEQPACKET, non-blocking; the other end goes to
                        supervisor_client.symbolizer() */
    int kallsyms_fd; /* of /proc/kallsyms, opened with the supervisor's rights; -1 */
    int contexts_fd; /* BPF map: u32 pid -> struct context_process */
    int runtimes_fd; /* BPF map: u32 pid -> struct runtime_process */
    struct unwind_maps unwind;
};

struct reader_handles {
    int socket; /* SOCK_SEQPACKET; the other end goes to supervisor_client.reader() */
};

struct supervisor_settings {
    bool want_sampler;
    struct sampler_settings sampler;
    struct sampling_rate_settings sampling_rate; /* its frequency_hz is taken from sampler */
    /* NULL: sampling begins and ends with each run. Else where it is left with SUPERVISOR_RELOADED,
     * and taken up by the next run if its settings are the same (else closed): no sample is missed.
     * What the settings of the run before borrow is still there then. */
    struct supervisor_sampling **sampling;
    bool reader; /* the symbolizer has one */
    /* On SIGHUP. True: other settings are ready: the service is stopped as by SIGTERM, and
     * supervisor_run() returns SUPERVISOR_RELOADED, to be called with them; asked again while it
     * stops, it may put others in their place. NULL: never. */
    bool (*reload)(void *context);
    void (*service_fatal)(void *context); /* it has ended with SERVICE_EXIT_FATAL, and was not
                                             stopping; may be NULL */
    void *context;
    const char *user; /* account the children drop to; NULL or "": owner of store_directory */
    const char *store_directory; /* where it is missing, its nearest parent counts */
    struct role_settings service;
    struct role_settings symbolizer;
    struct supervisor_file *files; /* open; the service inherits their fds too */
    size_t n_files;
    /* 0 = default */
    uint64_t symbolizer_hang_ns; /* 5 s without heartbeat, waiting for a CPU not counted: killed,
                                    started again */
    uint64_t service_hang_ns;    /* 30 s */
    uint64_t stop_timeout_ns;    /* 10 s */
};

/* Calls stats_share(), and returns main's exit code: 0 after a clean end, else 1; or
 * SUPERVISOR_RELOADED. Its signals stay blocked when it has returned, so that none is lost before
 * it is called again. */
int supervisor_run(const struct supervisor_settings *settings);
/* What no run has taken up. NULL is fine. */
void supervisor_sampling_close(struct supervisor_sampling *sampling);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbolizer: a child process that finds, reads and parses files of other processes. What a
 * process may withhold (its memory, its maps, files on foreign file systems) it asks of the reader
 * (reader_client.h), which may be lost. It runs in bounded steps on its own loop, so the heartbeat
 * runs in between. If it hangs all the same, the heartbeat stops and the supervisor kills it. The
 * next symbolizer reads in the ledger which process was being looked at, and leaves its cgroup
 * alone for a while.
 *
 * Needs (with fewer, less is known): CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE.
 * Thread: the loop's.
 */
#include "agent-bpf/unwind/unwind_maps.h"
#include "base/bytes.h"
#include "base/loop.h"

struct symbolizer;
struct symbolizer_ledger;

struct symbolizer_settings {
    struct loop *loop;
    int socket;          /* SOCK_SEQPACKET to the service; owned; when it closes: loop_stop() */
    int contexts_map_fd; /* record.h; borrowed; -1 = none (no sampler) */
    int runtimes_map_fd; /* agent-bpf/runtimes/runtime_process.h; -1: frames of runtimes are not
                            read */
    size_t runtime_cache_bytes; /* of what was read of them */
    int kallsyms_fd; /* of /proc/kallsyms, opened by one who may see addresses; borrowed; -1: none
                      */
    const struct unwind_maps *unwind; /* NULL = none (no sampler) */
    struct symbolizer_ledger *ledger; /* may be NULL */
    unsigned sources;                 /* CONTEXT_BIT()s of those that are read */
    bool lines;                       /* also look up source lines and inlined functions */
    /* The reader has not answered a request of that time: it may be lost. NULL: nobody is told. */
    void (*reader_overdue)(void *context, uint64_t asked_ns);
    bool elastic_correlation; /* connect to Elastic's agents and send the service the sockets */
    /* Has somebody connect to the socket `path` as process `pid` may, who answers at answer_fd (the
     * callee's) with CONTROL_CONNECTED of agent-bpf/control.h, or closes it. 0 or negative errno.
     */
    int (*connect_agent)(void *context, uint32_t pid, struct bytes path, int answer_fd);
    void *context;
};

int symbolizer_open(const struct symbolizer_settings *settings, struct symbolizer **symbolizer);
void symbolizer_close(struct symbolizer *symbolizer); /* NULL is fine */
/* Another reader: its socket, the symbolizer's; -1: there is none. abandoned: processes of spanprof
 * that hang for ever. From SYMBOLIZER_CAUTIOUS on, memory is read of cgroups alone that have hung
 * none. */
void symbolizer_reader(struct symbolizer *symbolizer, int socket, unsigned abandoned);

#define SYMBOLIZER_CAUTIOUS 3

/* Memory that a symbolizer shares with its successors: a memfd that the supervisor makes and hands
 * to each. Negative errno. */
int symbolizer_ledger_make(void);
/* Maps it; the descriptor stays the caller's. 0 or negative errno. */
int symbolizer_ledger_open(int fd, struct symbolizer_ledger **ledger);
void symbolizer_ledger_close(struct symbolizer_ledger *ledger); /* NULL is fine */

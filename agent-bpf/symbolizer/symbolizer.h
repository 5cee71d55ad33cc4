/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbolizer: a child process that does everything that touches files and memory of other
 * processes. It runs in bounded steps on its own loop, so the heartbeat runs in between. If a
 * foreign file or memory blocks it, the heartbeat stops and the supervisor kills it. The next
 * symbolizer reads in the ledger which process was being read, and leaves it alone for a while.
 *
 * Needs (with fewer, less is known): CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE,
 * CAP_SYSLOG, CAP_BPF. Thread: the loop's.
 */
#include "agent-bpf/unwind/unwind_maps.h"
#include "base/loop.h"

struct symbolizer;
struct symbolizer_ledger;

struct symbolizer_settings {
    struct loop *loop;
    int socket;          /* SOCK_SEQPACKET to the service; owned; when it closes: loop_stop() */
    int contexts_map_fd; /* record.h; borrowed; -1 = none (no sampler) */
    const struct unwind_maps *unwind; /* NULL = none (no sampler) */
    struct symbolizer_ledger *ledger; /* may be NULL */
    unsigned sources;                 /* CONTEXT_BIT()s of those that are read */
    bool lines;                       /* also look up source lines and inlined functions */
    bool elastic_correlation; /* connect to Elastic's agents and send the service the sockets */
};

int symbolizer_open(const struct symbolizer_settings *settings, struct symbolizer **symbolizer);
void symbolizer_close(struct symbolizer *symbolizer); /* NULL is fine */

/* Memory that a symbolizer shares with its successors. Opened by the supervisor before the first
 * fork. */
int symbolizer_ledger_open(struct symbolizer_ledger **ledger);
void symbolizer_ledger_close(struct symbolizer_ledger *ledger); /* NULL is fine */

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbolizer: a child process that does everything which touches other processes' files and
 * memory. It runs on its own loop, in bounded steps, so that whoever else is on the loop (the
 * heartbeat) runs in between; if a stranger's file or memory blocks it, the heartbeat stops, the
 * supervisor kills it, and the next symbolizer reads in the ledger which process it was and leaves
 * that one alone for a while.
 *
 * Needs (less works, with less known): CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE,
 * CAP_SYSLOG, CAP_BPF. Thread: the loop's.
 */
#include "agent-bpf/unwind/unwind_maps.h"
#include "base/loop.h"

struct symbolizer;
struct symbolizer_ledger;

struct symbolizer_settings {
    struct loop *loop;
    int socket;          /* SOCK_SEQPACKET to the service; owned; at its end: loop_stop() */
    int contexts_map_fd; /* record.h; borrowed; -1 = none (no sampler) */
    const struct unwind_maps *unwind; /* NULL = none (no sampler) */
    struct symbolizer_ledger *ledger; /* may be NULL */
    unsigned sources;                 /* which are read: CONTEXT_BIT() of record.h */
    bool lines;                       /* of sources, and inlined functions, are looked for */
    bool elastic_correlation;         /* sockets to Elastic's agents are handed to the service */
};

int symbolizer_open(const struct symbolizer_settings *settings, struct symbolizer **symbolizer);
void symbolizer_close(struct symbolizer *symbolizer); /* NULL is fine */

/* Memory shared between a symbolizer and those after it. Opened by the supervisor before the first
 * fork.
 */
int symbolizer_ledger_open(struct symbolizer_ledger **ledger);
void symbolizer_ledger_close(struct symbolizer_ledger *ledger); /* NULL is fine */

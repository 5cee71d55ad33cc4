/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The analyst: a child process that does everything which touches other processes' files and
 * memory. It runs on its own loop, in bounded steps, so that whoever else is on the loop (the
 * heartbeat) runs in between; if a stranger's file or memory blocks it, the heartbeat stops, the
 * keeper kills it, and the next analyst reads in the ledger which process it was and leaves that
 * one alone for a while.
 *
 * Needs (less works, with less known): CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE,
 * CAP_SYSLOG, CAP_BPF. Thread: the loop's.
 */
#include "agent-bpf/unwind/unwind_maps.h"
#include "base/loop.h"

struct analyst;
struct analyst_ledger;

struct analyst_settings {
    struct loop *loop;
    int socket;          /* SOCK_SEQPACKET to the service; owned; at its end: loop_stop() */
    int contexts_map_fd; /* record.h; borrowed; -1 = none (no sampler) */
    const struct unwind_maps *unwind; /* NULL = none (no sampler) */
    struct analyst_ledger *ledger;    /* may be NULL */
    unsigned sources;                 /* which are read: CONTEXT_BIT() of record.h */
    bool lines;                       /* of sources, and inlined functions, are looked for */
    bool elastic_correlation;         /* sockets to Elastic's agents are handed to the service */
};

int analyst_open(const struct analyst_settings *settings, struct analyst **analyst);
void analyst_close(struct analyst *analyst); /* NULL is fine */

/* Memory shared between an analyst and those after it. Opened by the keeper before the first fork.
 */
int analyst_ledger_open(struct analyst_ledger **ledger);
void analyst_ledger_close(struct analyst_ledger *ledger); /* NULL is fine */

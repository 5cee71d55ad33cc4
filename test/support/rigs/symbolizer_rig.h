/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A real symbolizer in a child process, and the service's side of it (client and process table) on
 * one loop in the test.
 */
#include "agent-bpf/symbolizer/symbolizer.h"
#include "agent-bpf/process/symbolizer_client.h"
#include "agent-bpf/supervisor/privileges.h"
#include "agent-bpf/process/process.h"
#include <sys/types.h>

struct rig {
    struct loop *loop;
    struct symbolizer_client *client;
    struct symbolizer_queue requests;
    struct process_table *table;
    struct symbolizer_ledger *ledger;
    int contexts_map_fd;              /* -1 = none; set before rig_start() */
    int runtimes_map_fd;              /* the same */
    const struct unwind_maps *unwind; /* NULL = none; likewise */
    const struct privileges
        *rights;              /* that the symbolizer keeps; NULL = the test's; before rig_start() */
    pid_t symbolizer;         /* 0 = none */
    void (*connecting)(void); /* called in a broker before it connects; may be NULL; likewise */
    unsigned answers[256];    /* by kind */
    /* Sockets of this process that were handed over, and the last one (-1 = none); others, for the
     * machine is not ours alone, are closed. */
    pid_t correlated_pid;
    unsigned correlations;
    int correlated_fd;
    /* Called for each answer besides the table; may be NULL. */
    void (*answered)(struct rig *rig, const struct symbolizer_message *message);
    void *context;
};

void rig_open(struct rig *rig); /* aborts on failure, like all of this */
void rig_close(struct rig *rig);
void rig_start(struct rig *rig); /* a symbolizer, attached */
void rig_stop(struct rig *rig);  /* SIGKILL, detached */
void rig_round(struct rig *rig); /* of the loop, up to 10 ms; requests and answers move */
/* Rounds until done(rig) or the time is over; what done said last. */
bool rig_until(struct rig *rig, bool (*done)(struct rig *rig), unsigned timeout_ms);
/* Until this many answers of the kind have come. */
bool rig_wait(struct rig *rig, enum symbolizer_kind kind, unsigned count, unsigned timeout_ms);
void rig_send(struct rig *rig, const struct symbolizer_message *message);

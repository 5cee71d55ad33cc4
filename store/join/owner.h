/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which process's SDK sent a span; join.c states the rule at its top. Pure; thread: any.
 */
#include "base/peer.h"
#include "store/stacks/processes.h"

struct owner_evidence { /* of a span's Resource; borrowed from it */
    bool has_pid;
    int64_t pid;
    struct bytes container_id;
    struct bytes instance_id;
    struct bytes service_name;
    struct bytes service_namespace;
    struct bytes pod_uid; /* of Kubernetes */
};

void owner_evidence_of(struct bytes resource, struct owner_evidence *evidence);

/* Evidence as three hashes, to compare two Resources that may describe the same process. A part is
 * 0 if the Resource lacks it. The pid is left out: two senders may see a process in different PID
 * namespaces. */
struct owner_mark {
    uint64_t container, instance, service;
};
void owner_mark_of(const struct owner_evidence *evidence, const uint8_t key[16],
                   struct owner_mark *mark);
/* Only what a process alone can say of itself, by which it may own a span: a container's id that a
 * runtime made at random, and the instance. Where a part of a span's Resource and of a process is
 * the same, it is evidence. */
void owner_claims_of_span(struct bytes resource, const uint8_t key[16], struct owner_mark *mark);
void owner_claims_of_process(const struct process_facts *process, const uint8_t key[16],
                             struct owner_mark *mark);
/* Both marks must be made with the same key. Applies the rule for processes, without its first
 * line. */
bool owner_marks_contradict(const struct owner_mark *a, const struct owner_mark *b);

#define OWNER_UNPROVEN (-2) /* no evidence that the process made the span */
#define OWNER_NOT      (-1) /* they contradict each other */
#define OWNER_OPEN     0    /* by a forwarder, whose Resource says nothing that could be compared */
/* One of these, or a positive score: the larger, the better they agree. sender: of the span. */
int owner_score(const struct owner_evidence *span, const struct peer *sender,
                const struct process_facts *process);

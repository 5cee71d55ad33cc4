/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whose SDK sent a span: the rule is told at the top of join.c. Pure; thread: any.
 */
#include "store/stacks/processes.h"

struct owner_evidence { /* of a span's Resource; borrowed from it */
    bool has_pid;
    int64_t pid;
    struct bytes container_id;
    struct bytes instance_id;
    struct bytes service_name;
    struct bytes service_namespace;
};

void owner_evidence_of(struct bytes resource, struct owner_evidence *evidence);

/* Evidence in few bytes, for two Resources that may be of one process: whose parts are 0 if it has
 * none. No pid is in it: two senders may see a process in different PID namespaces. */
struct owner_mark {
    uint64_t container, instance, service;
};
void owner_mark_of(const struct owner_evidence *evidence, const uint8_t key[16],
                   struct owner_mark *mark);
/* Marks of one key. By the rule for processes, without its first line. */
bool owner_marks_contradict(const struct owner_mark *a, const struct owner_mark *b);

#define OWNER_NOT  (-1) /* they contradict each other */
#define OWNER_OPEN 0    /* nothing to judge by */
/* OWNER_NOT, OWNER_OPEN, or more the better they agree. */
int owner_score(const struct owner_evidence *span, const struct process_facts *process);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whose SDK sent a span: the rule is told at the top of join.c. Pure; thread: any.
 */
#include "store/processes.h"

struct owner_evidence { /* of a span's Resource; borrowed from it */
    bool has_pid;
    int64_t pid;
    struct bytes container_id;
    struct bytes instance_id;
    struct bytes service_name;
    struct bytes service_namespace;
};

void owner_evidence_of(struct bytes resource, struct owner_evidence *evidence);

#define OWNER_NOT  (-1) /* they contradict each other */
#define OWNER_OPEN 0    /* nothing to judge by */
/* OWNER_NOT, OWNER_OPEN, or more the better they agree. */
int owner_score(const struct owner_evidence *span, const struct process_facts *process);

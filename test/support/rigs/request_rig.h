/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A request on the writer, and what lies in the outbox afterwards. For cmocka:
 * request_rig_set_up(), or request_rig_set_up_with_quota() for a store of 1 MiB, and
 * request_rig_tear_down(); the state is a rig. Asserts with cmocka. Thread: one.
 */
#include "receiver/intake/intake.h"
#include "test/support/fixtures/store_fixture.h"
#include "test/support/fixtures/trace_request.h"

#define RIG_INFLATED_MAX (1u << 20)

struct request_rig {
    struct fixture fixture;
    struct buf body; /* for the test to fill */
    struct outgoing outgoing;
};

int request_rig_set_up(void **state);
int request_rig_set_up_with_quota(void **state);
int request_rig_tear_down(void **state);

/* intake_spans_run() or its like, with settings of its kind. */
typedef int request_rig_how(struct intake_request *request, struct store *store,
                            const void *settings);
/* Committed, with a copy of the body; the outcome. The outbox is read. */
int request_rig_run(struct request_rig *rig, struct intake_request *request, struct bytes body,
                    request_rig_how *how, const void *settings);

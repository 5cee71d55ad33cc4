/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/request_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define QUOTA_BYTES (1u << 20)

static int set_up(void **state, uint64_t max_size_bytes)
{
    static struct request_rig rig;
    rig = (struct request_rig){.body = BUF_INIT(0)};
    fixture_make(&rig.fixture);
    fixture_limit(&rig.fixture, max_size_bytes);
    fixture_open(&rig.fixture);
    *state = &rig;
    return 0;
}

int request_rig_set_up(void **state)
{
    return set_up(state, 0);
}

int request_rig_set_up_with_quota(void **state)
{
    return set_up(state, QUOTA_BYTES);
}

int request_rig_tear_down(void **state)
{
    struct request_rig *rig = *state;
    outgoing_close(&rig->outgoing);
    buf_close(&rig->body);
    fixture_remove(&rig->fixture);
    return 0;
}

int request_rig_run(struct request_rig *rig, struct intake_request *request, struct bytes body,
                    request_rig_how *how, const void *settings)
{
    struct buf copy _cleanup_buf_ = BUF_INIT(0);
    assert_int_equal(buf_append_bytes(&copy, body), 0);
    request->body = copy;
    request->max_inflated_bytes = RIG_INFLATED_MAX;
    request->outcome = INTAKE_BUSY;
    request->peer = fixture_forwarder;
    fixture_begin(&rig->fixture);
    assert_int_equal(how(request, rig->fixture.store, settings), 0);
    fixture_commit(&rig->fixture);
    assert_int_equal(request->message == NULL, request->outcome == INTAKE_ACCEPTED);
    outgoing_close(&rig->outgoing);
    outgoing_read(&rig->outgoing, &rig->fixture.settings.db, request->signal);
    return (int)request->outcome;
}

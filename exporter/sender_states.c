/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/sender_states.h"
#include <assert.h>

/*
 * Delivery. A failing backend gets a pause, then one request at a time until it accepts one.
 * RESTING is a pause without a backend failure: the store or a file cannot be used now.
 */
/* clang-format off */
static const enum sender_delivery delivery_after[DELIVERY_EVENTS][DELIVERY_STATES] = {
    /*                         SENDING           RESTING           BACKOFF           PROBING */
    [DELIVERY_PAUSE] =      {DELIVERY_RESTING, DELIVERY_RESTING, DELIVERY_BACKOFF, DELIVERY_BACKOFF},
    [DELIVERY_PAUSE_OVER] = {DELIVERY_SENDING, DELIVERY_SENDING, DELIVERY_PROBING, DELIVERY_PROBING},
    [DELIVERY_FAILURE] =    {DELIVERY_PROBING, DELIVERY_BACKOFF, DELIVERY_BACKOFF, DELIVERY_PROBING},
    [DELIVERY_SUCCESS] =    {DELIVERY_SENDING, DELIVERY_RESTING, DELIVERY_RESTING, DELIVERY_SENDING},
};
/* clang-format on */

/* Backlog: what is known of the outbox behind after_seq. */
/* clang-format off */
static const enum sender_backlog backlog_after[BACKLOG_EVENTS][BACKLOG_STATES] = {
    /*                          NONE          NEWS          FULL             READING */
    [BACKLOG_ANNOUNCED] =    {BACKLOG_NEWS, BACKLOG_NEWS, BACKLOG_FULL,    BACKLOG_FULL},
    [BACKLOG_FETCH_BEGINS] = {BACKLOG_NONE, BACKLOG_NONE, BACKLOG_READING, BACKLOG_READING},
    [BACKLOG_FETCH_FULL] =   {BACKLOG_FULL, BACKLOG_FULL, BACKLOG_FULL,    BACKLOG_FULL},
    [BACKLOG_FETCH_PART] =   {BACKLOG_NONE, BACKLOG_NEWS, BACKLOG_NEWS,    BACKLOG_NONE},
};
/* clang-format on */

void sender_delivery_event(enum sender_delivery *state, enum sender_delivery_event event)
{
    assert(event < DELIVERY_EVENTS && *state < DELIVERY_STATES);
    *state = delivery_after[event][*state];
}

void sender_backlog_event(enum sender_backlog *state, enum sender_backlog_event event)
{
    assert(event < BACKLOG_EVENTS && *state < BACKLOG_STATES);
    *state = backlog_after[event][*state];
}

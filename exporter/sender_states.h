/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The two states of a sender; the transitions are tables at the head of sender_states.c. Thread:
 * the loop's. */

/* How requests leave. */
enum sender_delivery {
    DELIVERY_SENDING, /* the backend accepted the last request, or none was sent yet */
    DELIVERY_RESTING, /* no request starts before the timer fires */
    DELIVERY_BACKOFF, /* the same, after the backend failed */
    DELIVERY_PROBING, /* after BACKOFF: one request at a time, until one is accepted */
    DELIVERY_STATES,
};
enum sender_delivery_event {
    DELIVERY_PAUSE,
    DELIVERY_PAUSE_OVER,
    DELIVERY_FAILURE,
    DELIVERY_SUCCESS,
    DELIVERY_EVENTS,
};

/* What the outbox may hold after after_seq. */
enum sender_backlog {
    BACKLOG_NONE,    /* the last fetch reached the end, and nothing was announced since it began */
    BACKLOG_NEWS,    /* something was announced since then */
    BACKLOG_FULL,    /* the last fetch was full: there is more */
    BACKLOG_READING, /* a fetch that follows a full one is under way */
    BACKLOG_STATES,
};
enum sender_backlog_event {
    BACKLOG_ANNOUNCED,
    BACKLOG_FETCH_BEGINS,
    BACKLOG_FETCH_FULL,
    BACKLOG_FETCH_PART,
    BACKLOG_EVENTS,
};

void sender_delivery_event(enum sender_delivery *state, enum sender_delivery_event event);
void sender_backlog_event(enum sender_backlog *state, enum sender_backlog_event event);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The two states of a sender; the transitions are tables at the head of sender_states.c. Thread:
 * the loop's. */

/* How requests leave. */
enum sender_delivery {
    DELIVERY_SENDING, /* the backend took the last one, or none was sent yet */
    DELIVERY_RESTING, /* nothing is begun before the timer fires */
    DELIVERY_BACKOFF, /* the same, after a failure of the backend */
    DELIVERY_PROBING, /* after that: one at a time, until one is taken */
    DELIVERY_STATES,
};
enum sender_delivery_event {
    DELIVERY_PAUSE,
    DELIVERY_PAUSE_OVER,
    DELIVERY_FAILURE,
    DELIVERY_SUCCESS,
    DELIVERY_EVENTS,
};

/* What may lie in the outbox behind after_seq. */
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

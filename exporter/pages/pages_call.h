/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One request for a page or for an answer: from its head to its end. Private to pages.c. Thread:
 * loop, but for what runs on the pages' thread. A call whose question is asked outlives its
 * connection.
 */
#include "exporter/pages/pages_route.h"
#include <microhttpd.h>

#define PAGES_TOKEN_MAX 513

struct pages_scope { /* what all calls share */
    struct loop *loop;
    struct worker *worker;
    struct pages_facts *facts; /* the worker's */
    const struct config_pages *config;
    char token[PAGES_TOKEN_MAX]; /* "": none is asked for */
    struct list calls;
    size_t answer_bytes; /* that are made, and not yet sent */
    atomic_bool stopping;
    void (*woken)(struct pages_scope *scope); /* a sleeping connection was resumed */
};

struct pages_call;

/* As libmicrohttpd calls; *call is its per-request pointer. of_node: by the Unix socket. */
enum MHD_Result pages_call_step(struct pages_scope *scope, struct MHD_Connection *connection,
                                bool of_node, const char *path, const char *method, size_t *size,
                                struct pages_call **call);
bool pages_call_is_answered(const struct pages_call *call); /* it is being sent */
void pages_call_completed(struct pages_call *call);         /* answered or not */
/* Connections that sleep are resumed, to be answered 503. */
void pages_call_wake_all(struct pages_scope *scope);

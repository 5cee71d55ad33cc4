/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One request for a page or for data, from its head to its end. Private to pages.c. Thread: loop,
 * except what runs on the pages' thread. A call that is at the pages' thread outlives its
 * connection.
 */
#include "exporter/pages/pages_route.h"
#include "proto/http/http1_server.h"

struct pages_scope { /* shared by all calls: the context of their http1_server */
    struct loop *loop;
    struct worker *worker;
    struct pages_facts *facts; /* the worker's */
    const struct config_pages *config;
    char token[PAGES_TOKEN_MAX]; /* "": none is required */
    size_t answer_bytes;         /* of answers made but not yet sent */
    atomic_bool stopping;        /* read by the pages' thread */
};

extern const struct http1_handler pages_call_handler;

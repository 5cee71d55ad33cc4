/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which path has which answer. Answers are made on the pages' thread, which owns `facts`; a request
 * owns all its other data. Private to exporter/.
 */
#include "base/worker.h"
#include "exporter/pages/pages.h"
#include "exporter/pages/pages_query.h"

#define PAGES_REQUEST_BYTES ((size_t)16 << 20) /* of a request's arena */
#define PAGES_HEADERS_MAX   4
#define PAGES_HOST_MAX      65
#define PAGES_PROBLEM_MAX   1024
#define PAGES_TOKEN_MAX     513

struct pages_facts { /* the thread's */
    struct history_reader *history;
    struct db *db;
    const struct config *config;
    const struct config_pages *pages;
    const char *version;
    char host[PAGES_HOST_MAX]; /* this node's hostname */
    struct coverage *coverage;
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    bool sampling;
};

struct pages_header {
    const char *name; /* static */
    char value[64];
};

struct pages_request {
    const struct pages_route *route;
    struct pages_query query;
    struct arena arena; /* texts of the query, and memory for the answer */
    uint64_t now_unix_ns;
    bool wants_json;   /* Accept: application/json */
    bool takes_gzip;   /* Accept-Encoding */
    const char *token; /* of a route of_node: what clients of the port send; "": nothing */
    /* The answer: */
    unsigned status;  /* 200 at first */
    struct buf body;  /* limited to PAGES_ANSWER_MAX */
    const char *type; /* the route's at first; static */
    bool is_gzip;     /* body has Content-Encoding: gzip */
    struct pages_header headers[PAGES_HEADERS_MAX];
    size_t n_headers;
    const struct history_filter *empty; /* of query: matched nothing; else NULL */
    char problem[PAGES_PROBLEM_MAX];    /* a sentence, if status is not 200 */
};

typedef int pages_answer(struct pages_facts *facts, struct pages_request *request);

struct pages_route {
    const char *path;
    const char *type;     /* Content-Type */
    unsigned takes;       /* enum pages_takes */
    bool of_node;         /* answered on the node's socket alone */
    pages_answer *answer; /* 0; BUF_FULL; -ENOENT: 404; other negative errno: 503. */
    const char *download; /* file name of a download; NULL: shown in the browser */
    /* How long to wait before making the answer, ns; NULL: no wait. Called on the loop. */
    uint64_t (*delay_ns)(const struct pages_request *request);
};

const struct pages_route *pages_route_find(const char *path);

/* Parts of answers that several routes share. */
void pages_say_more(struct pages_request *request); /* marks the answer as incomplete */

pages_answer pages_traces, pages_trace;
pages_answer pages_flame_json, pages_diff, pages_functions;
pages_answer pages_flame_svg, pages_flame_folded, pages_flame_speedscope;
pages_answer pages_timeline, pages_spans, pages_values;
pages_answer pages_status, pages_address;
pages_answer scrape_profiles, scrape_pprof, scrape_pprof_live;
uint64_t scrape_pprof_delay_ns(const struct pages_request *request);

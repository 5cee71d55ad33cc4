/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One signal on its way to one destination: fetch from the outbox, send, mark as done; one request
 * in flight, in order. Private to exporter/. Thread: loop.
 */
#include "exporter/backoff.h"
#include "exporter/exporter.h"
#include "exporter/file_exporter.h"
#include "exporter/otlp_grpc.h"
#include "exporter/otlp_http.h"

enum lane_state {
    LANE_IDLE,     /* nothing was there at the last look */
    LANE_FETCHING, /* a job of the reader */
    LANE_SENDING,
    LANE_PAUSING, /* for a next try */
};

struct lane_fetch;

struct lane {
    struct exporter *exporter;
    enum signal signal;
    enum lane_state state;
    bool look_again; /* something was put while fetching */
    int64_t after_seq;
    int64_t singly_until;       /* up to this one requests go alone: together they were refused */
    struct lane_fetch *fetched; /* what is being sent */
    struct otlp_grpc_call grpc_call;
    struct otlp_http_call http_call;
    struct file_exporter_call file_call;
    struct backoff backoff;
    struct timer pause;
    bool failing;               /* since the last success; said once */
    uint64_t unserved_until_ns; /* the backend has no such service: nothing is sent before */
    size_t n_marking;           /* jobs at the writer */
    struct list marks;          /* those that found its queue full */
    struct list marking;        /* those at the writer */
};

void lane_init(struct lane *lane, struct exporter *exporter, enum signal signal);
void lane_wake(struct lane *lane);
bool lane_is_quiet(const struct lane *lane); /* nothing in flight and nothing to do at once */
void lane_close(struct lane *lane);

/* Of exporter.c */
struct exporter {
    struct exporter_settings settings;
    struct otlp_grpc *grpc; /* of the exporter's kind one, of debug none */
    struct otlp_http *http;
    struct file_exporter *file;
    struct lane lanes[SIGNAL_COUNT];
    bool draining;
    struct timer drain_timer;
    void (*stopped)(void *context);
    void *context;
};
void exporter_lane_quiet(struct exporter *exporter); /* a lane may have become quiet */
bool exporter_wants(const struct exporter *exporter, enum signal signal);

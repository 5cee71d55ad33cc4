/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An HTTP server of ours with an intake that is none, and clients that speak HTTP/1.1 by hand, all
 * on one loop. For cmocka: http_rig_setup() and http_rig_teardown() make and free the state.
 */
#include "receiver/http/http_server.h"
#include "test/support/net/fake_intake.h"

enum { BODY_MAX = 100000, CONNECTIONS_MAX = 3 };

struct http_rig {
    struct loop *loop;
    struct intake intake;
    struct budget budget;
    struct config_otlp_http_server config;
    struct http_server *server;
    uint16_t port;
    bool stopped;
};

/* A client: what it has to say, and what it heard. */
struct talk {
    struct http_rig *rig;
    int fd;
    struct buf out, in;
    bool closed; /* by the server */
};

#define PROTOBUF "Content-Type: application/x-protobuf\r\n"

int http_rig_setup(void **state);
/* Fails if bytes are still booked. */
int http_rig_teardown(void **state);
int http_rig_start(struct http_rig *rig, uint64_t idle_timeout_ns);
void http_rig_pause(struct http_rig *rig, struct talk *talk, int ms); /* talk may be NULL */

void talk_open(struct talk *talk, struct http_rig *rig);
void talk_close(struct talk *talk);
/* A request with these header lines (each with its end), and body as it is. */
void talk_say(struct talk *talk, const char *method, const char *path, const char *lines,
              struct bytes body);
void talk_say_traces(struct talk *talk, const char *lines, struct bytes body);
void talk_send(struct talk *talk); /* what was said, before the loop turns */
/* The status of the next answer; 0: the connection was closed without one. */
unsigned talk_hear(struct talk *talk);
void talk_forget(struct talk *talk); /* the answer heard */
struct bytes talk_body(const struct talk *talk);
bool talk_has(const struct talk *talk, const char *line); /* among its headers */
bool talk_closed(void *talk);                             /* by the server; for h2_run_loop() */

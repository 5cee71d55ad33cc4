/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A TLS server and a TLS client of ours on one loop, joined by a socket pair. For cmocka:
 * tls_rig_setup() and tls_rig_teardown() make and free the state.
 */
#include "proto/tls/tls.h"
#include "test/support/net/certificates.h"

struct tls_end {
    struct tls_handshake handshake;
    struct tls_context *context;
    struct tls_settings settings;
    struct tls_material material;
    struct tls *tls; /* once it has succeeded */
    int fd;          /* likewise */
    bool done;
    enum tls_outcome outcome;
    char why[TLS_WHY_MAX];
};

struct tls_rig {
    struct loop *loop;
    struct certificate ca, other_ca, server, client;
    struct tls_end server_end, client_end;
    int raw; /* the client's end of tls_rig_raw() */
};

int tls_rig_setup(void **state);
int tls_rig_teardown(void **state);
/* Settings and material are good ones at first; contexts are made of them here. */
void tls_rig_start(struct tls_rig *rig, uint64_t timeout_ns);
void tls_rig_handshake(struct tls_rig *rig);                        /* both to their ends */
void tls_rig_raw(struct tls_rig *rig, uint64_t timeout_ns);         /* the client is the test */
bool tls_rig_await(struct tls_rig *rig, const struct tls_end *end); /* done */
void tls_rig_reset(struct tls_rig *rig);                            /* as after the setup */
/* All of it comes to the other end as it is; either may be slow. */
void tls_rig_pass(struct tls_end *from, struct tls_end *to, size_t size, size_t piece);

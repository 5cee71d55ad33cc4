/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Certificates made on the spot, with keys on P-256. Aborts where GnuTLS does not work.
 */
#include "base/buf.h"
#include "proto/tls/tls.h"
#include <gnutls/x509.h>

struct certificate {
    gnutls_x509_crt_t x509;
    gnutls_x509_privkey_t private;
    struct buf pem; /* with those that issued it, but for the root */
    struct buf key;
    const struct certificate *issuer;
};

struct certificate_wish {
    const char *name;
    const struct certificate *issuer; /* NULL: itself */
    bool ca;
    const char *host;         /* NULL: none */
    const char *address;      /* IPv4; NULL: none */
    bool for_clients;         /* only; else for servers and clients */
    int from_hours, to_hours; /* from now; both 0: -1 to 24 */
    unsigned rsa_bits;        /* 0: P-256 */
};

/* The issuer must outlive it. */
void certificate_make(struct certificate *certificate, const struct certificate_wish *wish);
void certificate_free(struct certificate *certificate);
struct tls_pem certificate_pem(const struct certificate *certificate);
struct tls_pem certificate_key(const struct certificate *certificate);

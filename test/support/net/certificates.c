/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/certificates.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <time.h>

#define WORKS(call)                                                                                \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            abort();                                                                               \
    } while (0)

static void new_key(struct certificate *certificate, unsigned rsa_bits)
{
    WORKS(gnutls_x509_privkey_init(&certificate->private));
    if (rsa_bits)
        WORKS(gnutls_x509_privkey_generate(certificate->private, GNUTLS_PK_RSA, rsa_bits, 0));
    else
        WORKS(gnutls_x509_privkey_generate(certificate->private, GNUTLS_PK_ECDSA,
                                           GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
}

static void set_names(gnutls_x509_crt_t x509, const struct certificate_wish *wish)
{
    struct in_addr address;
    WORKS(gnutls_x509_crt_set_dn_by_oid(x509, GNUTLS_OID_X520_COMMON_NAME, 0, wish->name,
                                        (unsigned)strlen(wish->name)));
    if (wish->host)
        WORKS(gnutls_x509_crt_set_subject_alt_name(x509, GNUTLS_SAN_DNSNAME, wish->host,
                                                   (unsigned)strlen(wish->host),
                                                   GNUTLS_FSAN_APPEND));
    if (wish->address && inet_pton(AF_INET, wish->address, &address) == 1)
        WORKS(gnutls_x509_crt_set_subject_alt_name(x509, GNUTLS_SAN_IPADDRESS, &address,
                                                   sizeof(address), GNUTLS_FSAN_APPEND));
}

static void set_use(gnutls_x509_crt_t x509, const struct certificate_wish *wish)
{
    WORKS(gnutls_x509_crt_set_basic_constraints(x509, wish->ca, -1));
    WORKS(gnutls_x509_crt_set_key_usage(x509, wish->ca ? GNUTLS_KEY_KEY_CERT_SIGN
                                                       : GNUTLS_KEY_DIGITAL_SIGNATURE));
    if (wish->ca)
        return;
    WORKS(gnutls_x509_crt_set_key_purpose_oid(x509, GNUTLS_KP_TLS_WWW_CLIENT, 0));
    if (!wish->for_clients)
        WORKS(gnutls_x509_crt_set_key_purpose_oid(x509, GNUTLS_KP_TLS_WWW_SERVER, 0));
}

static void set_dates(gnutls_x509_crt_t x509, const struct certificate_wish *wish)
{
    bool usual = !wish->from_hours && !wish->to_hours;
    time_t now = time(NULL);
    WORKS(gnutls_x509_crt_set_activation_time(x509, now + 3600 * (usual ? -1 : wish->from_hours)));
    WORKS(gnutls_x509_crt_set_expiration_time(x509, now + 3600 * (usual ? 24 : wish->to_hours)));
}

static void append(struct buf *out, gnutls_datum_t *text)
{
    if (buf_append(out, text->data, text->size))
        abort();
    gnutls_free(text->data);
}

static void export(struct certificate *certificate)
{
    gnutls_datum_t text;
    const struct certificate *at = certificate;
    certificate->pem = certificate->key = BUF_INIT(0);
    do {
        WORKS(gnutls_x509_crt_export2(at->x509, GNUTLS_X509_FMT_PEM, &text));
        append(&certificate->pem, &text);
        at = at->issuer;
    } while (at && at->issuer);
    WORKS(gnutls_x509_privkey_export2(certificate->private, GNUTLS_X509_FMT_PEM, &text));
    append(&certificate->key, &text);
}

void certificate_make(struct certificate *certificate, const struct certificate_wish *wish)
{
    static uint32_t serial = 1;
    uint8_t id[32];
    size_t id_size = sizeof(id);
    const struct certificate *issuer = wish->issuer ? wish->issuer : certificate;
    uint32_t number = htonl(serial++);
    new_key(certificate, wish->rsa_bits);
    certificate->issuer = wish->issuer;
    WORKS(gnutls_x509_crt_init(&certificate->x509));
    WORKS(gnutls_x509_crt_set_version(certificate->x509, 3));
    WORKS(gnutls_x509_crt_set_serial(certificate->x509, &number, sizeof(number)));
    WORKS(gnutls_x509_crt_set_key(certificate->x509, certificate->private));
    set_names(certificate->x509, wish);
    set_use(certificate->x509, wish);
    set_dates(certificate->x509, wish);
    WORKS(gnutls_x509_crt_get_key_id(certificate->x509, GNUTLS_KEYID_USE_SHA256, id, &id_size));
    WORKS(gnutls_x509_crt_set_subject_key_id(certificate->x509, id, id_size));
    WORKS(gnutls_x509_crt_sign2(certificate->x509, issuer->x509, issuer->private, GNUTLS_DIG_SHA256,
                                0));
    export(certificate);
}

void certificate_free(struct certificate *certificate)
{
    gnutls_x509_crt_deinit(certificate->x509);
    gnutls_x509_privkey_deinit(certificate->private);
    buf_close(&certificate->pem);
    buf_close(&certificate->key);
}

struct tls_pem certificate_pem(const struct certificate *certificate)
{
    return (struct tls_pem){
        .name = "cert_file c", .text = buf_bytes(&certificate->pem), .given = true};
}

struct tls_pem certificate_key(const struct certificate *certificate)
{
    return (struct tls_pem){
        .name = "key_file k", .text = buf_bytes(&certificate->key), .given = true};
}

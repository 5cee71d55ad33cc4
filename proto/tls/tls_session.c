/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GnuTLS reads the socket record by record, and no further than the current record: with room for a
 * whole one nothing stays behind in memory, so level-triggered epoll reports all data.
 */
#include "proto/tls/tls_session.h"
#include "base/log.h"
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- opening ---- */

static bool host_is_address(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

/* Chain, dates, purpose and name are checked by GnuTLS within the handshake. The texts are the
 * context's, which the session holds. */
static void session_set_verification(struct tls *tls)
{
    const struct tls_settings *settings = &tls->context->settings;
    static const char client[] = GNUTLS_KP_TLS_WWW_CLIENT, server[] = GNUTLS_KP_TLS_WWW_SERVER;
    const char *purpose = settings->server ? client : server;
    tls->demands[0] = (gnutls_typed_vdata_st){.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                              .data = (unsigned char *)(uintptr_t)purpose};
    tls->demands[1] = (gnutls_typed_vdata_st){.type = GNUTLS_DT_DNS_HOSTNAME,
                                              .data = (unsigned char *)(uintptr_t)tls->server_name};
    gnutls_session_set_verify_cert2(tls->session, tls->demands, settings->server ? 1 : 2, 0);
}

static int session_set_up(struct tls *tls, int fd)
{
    const struct tls_settings *settings = &tls->context->settings;
    const char *name = tls->server_name;
    gnutls_datum_t alpn = {(unsigned char *)tls->context->alpn,
                           (unsigned)strlen(tls->context->alpn)};
    int r = gnutls_priority_set(tls->session, tls->context->priority);
    if (!r)
        r = gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials->x509);
    if (!r && alpn.size)
        r = gnutls_alpn_set_protocols(tls->session, &alpn, 1, 0);
    if (!r && !settings->server && *name && !host_is_address(name))
        r = gnutls_server_name_set(tls->session, GNUTLS_NAME_DNS, name, strlen(name));
    if (r)
        return -ENOMEM;
    if (settings->server && tls->credentials->demands_certificate)
        gnutls_certificate_server_set_request(tls->session, GNUTLS_CERT_REQUIRE);
    if (settings->server ? tls->credentials->demands_certificate : !settings->insecure_skip_verify)
        session_set_verification(tls);
    gnutls_handshake_set_timeout(tls->session, 0); /* the loop has a timer */
    gnutls_transport_set_int(tls->session, fd);
    return 0;
}

int tls_open(struct tls_context *context, const char *server_name, int fd, struct tls **result)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    if (!tls)
        return -ENOMEM;
    unsigned role = context->settings.server ? GNUTLS_SERVER : GNUTLS_CLIENT;
    int error =
        gnutls_init(&tls->session, role | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS)
            ? -ENOMEM
            : 0;
    tls->context = context;
    tls->server_name = server_name ? server_name : context->settings.server_name;
    tls->credentials = context->credentials;
    tls->context->users++;
    tls->credentials->users++;
    if (!error)
        error = session_set_up(tls, fd);
    if (error) {
        tls_close(tls);
        return error;
    }
    *result = tls;
    return 0;
}

void tls_close(struct tls *tls)
{
    if (!tls)
        return;
    if (tls->open && !tls->unsent)
        gnutls_bye(tls->session, GNUTLS_SHUT_WR);
    if (tls->session)
        gnutls_deinit(tls->session);
    tls_credentials_release(tls->credentials);
    tls_context_release(tls->context);
    free(tls);
}

/* ---- the handshake ---- */

static enum tls_outcome certificate_outcome(const struct tls *tls)
{
    unsigned status = gnutls_session_get_verify_cert_status(tls->session);
    if (status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED) &&
        !(status & GNUTLS_CERT_SIGNER_NOT_FOUND))
        return TLS_EXPIRED;
    if (status & GNUTLS_CERT_UNEXPECTED_OWNER && !(status & GNUTLS_CERT_SIGNER_NOT_FOUND))
        return TLS_WRONG_NAME;
    return TLS_UNTRUSTED;
}

static enum tls_outcome handshake_outcome(const struct tls *tls, int error)
{
    switch (error) {
    case GNUTLS_E_SUCCESS:
        return TLS_OK;
    case GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR:
    case GNUTLS_E_CERTIFICATE_ERROR:
        return certificate_outcome(tls);
    case GNUTLS_E_CERTIFICATE_REQUIRED:
    case GNUTLS_E_NO_CERTIFICATE_FOUND:
        return TLS_NO_CERTIFICATE;
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_PULL_ERROR:
    case GNUTLS_E_PUSH_ERROR:
        return TLS_LOST;
    case GNUTLS_E_UNEXPECTED_PACKET:
    case GNUTLS_E_UNEXPECTED_PACKET_LENGTH:
    case GNUTLS_E_RECORD_OVERFLOW:
        return TLS_NOT_TLS;
    case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
        return gnutls_handshake_get_last_in(tls->session) == (gnutls_handshake_description_t)-1
                   ? TLS_NOT_TLS
                   : TLS_NO_COMMON_WAYS;
    case GNUTLS_E_NO_CIPHER_SUITES:
    case GNUTLS_E_INSUFFICIENT_SECURITY:
    case GNUTLS_E_NO_COMMON_KEY_SHARE:
    case GNUTLS_E_UNSUPPORTED_SIGNATURE_ALGORITHM:
        return TLS_NO_COMMON_WAYS;
    case GNUTLS_E_NO_APPLICATION_PROTOCOL:
        return TLS_NO_ALPN;
    case GNUTLS_E_FATAL_ALERT_RECEIVED:
        return TLS_REFUSED_BY_PEER;
    default:
        return TLS_FAILED;
    }
}

static void explain_client(const struct tls *tls, enum tls_outcome outcome, const char *detail,
                           char why[TLS_WHY_MAX])
{
    const char *name = tls->server_name;
    switch (outcome) {
    case TLS_NOT_TLS:
        snprintf(why, TLS_WHY_MAX,
                 "the backend does not speak TLS; if it takes plain text, write tls: {insecure: "
                 "true}");
        break;
    case TLS_UNTRUSTED:
        snprintf(why, TLS_WHY_MAX,
                 "the backend's certificate is not trusted; name the CA it comes from in "
                 "tls::ca_file");
        break;
    case TLS_EXPIRED:
        snprintf(why, TLS_WHY_MAX,
                 "the backend's certificate has expired or is not valid yet; it has to be renewed");
        break;
    case TLS_WRONG_NAME:
        snprintf(why, TLS_WHY_MAX,
                 "the backend's certificate is not for \"%.100s\"; name the host that it is for "
                 "in endpoint or in tls::server_name_override",
                 name);
        break;
    case TLS_NO_ALPN:
        snprintf(why, TLS_WHY_MAX, "the backend does not offer %s (ALPN)",
                 tls->context->settings.alpn);
        break;
    case TLS_REFUSED_BY_PEER:
        snprintf(why, TLS_WHY_MAX, "the backend refused the TLS handshake: %s", detail);
        break;
    case TLS_LOST:
        snprintf(why, TLS_WHY_MAX,
                 "the backend hung up in the TLS handshake; it may take plain text only");
        break;
    default:
        snprintf(why, TLS_WHY_MAX, "the TLS handshake with the backend failed: %s", detail);
    }
}

static void explain_server(enum tls_outcome outcome, const char *detail, char why[TLS_WHY_MAX])
{
    static const char *const sentences[TLS_OUTCOMES] = {
        [TLS_NOT_TLS] = "it does not speak TLS, which this port takes alone",
        [TLS_NO_CERTIFICATE] = "it has no certificate, which client_ca_file demands",
        [TLS_UNTRUSTED] = "its certificate comes from no CA of client_ca_file",
        [TLS_EXPIRED] = "its certificate has expired or is not valid yet",
        [TLS_LOST] = "it hung up in the handshake",
        [TLS_NO_ALPN] = "it does not offer the protocol of this port (ALPN)",
    };
    if (sentences[outcome])
        snprintf(why, TLS_WHY_MAX, "%s", sentences[outcome]);
    else if (outcome == TLS_REFUSED_BY_PEER)
        snprintf(why, TLS_WHY_MAX, "it refused our certificate or ways: %s", detail);
    else
        snprintf(why, TLS_WHY_MAX, "%s", detail);
}

static int handshake_conclude(struct tls *tls, enum tls_outcome outcome, int error,
                              char why[TLS_WHY_MAX])
{
    const char *detail = error == GNUTLS_E_FATAL_ALERT_RECEIVED
                             ? gnutls_alert_get_name(gnutls_alert_get(tls->session))
                             : gnutls_strerror(error);
    detail = detail ? detail : "unknown alert";
    if (tls->context->settings.server)
        explain_server(outcome, detail, why);
    else
        explain_client(tls, outcome, detail, why);
    return (int)outcome;
}

static bool session_has_alpn(const struct tls *tls)
{
    gnutls_datum_t chosen;
    return gnutls_alpn_get_selected_protocol(tls->session, &chosen) == 0 && chosen.size > 0;
}

int tls_step(struct tls *tls, char why[TLS_WHY_MAX])
{
    int r;
    do
        r = gnutls_handshake(tls->session);
    while (r < 0 && r != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(r));
    if (r == GNUTLS_E_AGAIN)
        return -EAGAIN;
    enum tls_outcome outcome = handshake_outcome(tls, r);
    if (outcome == TLS_OK && tls->context->settings.alpn_required && !session_has_alpn(tls)) {
        outcome = TLS_NO_ALPN;
        gnutls_alert_send(tls->session, GNUTLS_AL_FATAL, GNUTLS_A_NO_APPLICATION_PROTOCOL);
    } else if (outcome != TLS_OK && outcome != TLS_REFUSED_BY_PEER) {
        gnutls_alert_send_appropriate(tls->session, r);
    }
    if (outcome != TLS_OK)
        return handshake_conclude(tls, outcome, r, why);
    tls->open = true;
    return TLS_OK;
}

bool tls_waits_to_write(const struct tls *tls)
{
    return gnutls_record_get_direction(tls->session) == 1;
}

/* ---- bytes ---- */

/* A client sees its refusal only here: in TLS 1.3 a client finishes before the server has checked
 * its certificate. */
static ssize_t session_lost(struct tls *tls, ssize_t error)
{
    const char *alert = NULL;
    tls->open = false;
    if (error == GNUTLS_E_FATAL_ALERT_RECEIVED)
        alert = gnutls_alert_get_name(gnutls_alert_get(tls->session));
    if (alert)
        log_warn("tls", "%s: the peer ended the connection: %s", tls->context->settings.name,
                 alert);
    if (error == GNUTLS_E_PULL_ERROR || error == GNUTLS_E_PUSH_ERROR)
        return -ECONNRESET;
    return error == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EPROTO;
}

ssize_t tls_read(struct tls *tls, void *out, size_t size)
{
    ssize_t n;
    do
        n = gnutls_record_recv(tls->session, out, size);
    while (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (n >= 0 || n == GNUTLS_E_PREMATURE_TERMINATION) /* HTTP has its own ends of messages */
        return n >= 0 ? n : 0;
    return n == GNUTLS_E_AGAIN ? -EAGAIN : session_lost(tls, n);
}

ssize_t tls_write(struct tls *tls, const void *data, size_t size)
{
    ssize_t n;
    do
        n = tls->unsent ? gnutls_record_send(tls->session, NULL, 0)
                        : gnutls_record_send(tls->session, data, size);
    while (n == GNUTLS_E_INTERRUPTED);
    tls->unsent = n == GNUTLS_E_AGAIN;
    if (n >= 0)
        return n;
    return n == GNUTLS_E_AGAIN ? -EAGAIN : session_lost(tls, n);
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Certificates: the files that the configuration names, opened by the supervisor before it starts
 * the service; and the TLS of each receiver and exporter, which the service makes from them, and
 * again when the supervisor reports that a file has changed. Open connections keep what they began
 * with.
 */
#include "agent-bpf/supervisor/supervisor_files.h"
#include "base/loop.h"
#include "config/config.h"

struct tls_context;

struct service_files { /* each path once */
    struct supervisor_file files[SUPERVISOR_FILES_MAX];
    size_t n;
    /* private */
    char names[SUPERVISOR_FILES_MAX][CONFIG_NAME_MAX + 64]; /* in the configuration */
    const int *inherited;
};

/* Before the supervisor runs. What does not come in time is taken from in_use (may be NULL). 0 or
 * negative errno, said in a sentence. */
int service_files_open(const struct config *config, const struct service_files *in_use,
                       struct service_files *files);
/* In the service: the same files, whose descriptors it has from the supervisor, in their order. */
int service_files_inherit(const struct config *config, const int *fds, struct service_files *files);
/* What a file holds, without its last line end; -ENOENT: it is none of these. */
int service_files_read(const struct service_files *files, const char *path, struct buf *text);
void service_files_close(struct service_files *files);

/* The service's; thread: loop. */
#define SERVICE_TLS_MAX (3 * CONFIG_COMPONENTS_MAX + 1)

struct service_tls {
    struct loop *loop;
    struct service_files *files;
    struct timer reload; /* once what has changed together has come */
    size_t n;
    struct service_tls_user {
        const struct config_tls *config;
        struct tls_context *context;
        char name[CONFIG_NAME_MAX + 48]; /* "receivers::otlp::protocols::grpc::tls" */
        bool server;
        bool stale;
    } users[SERVICE_TLS_MAX];
};

void service_tls_init(struct service_tls *tls, struct loop *loop, struct service_files *files);
/* *context: service_tls's, NULL where the configuration says plain text. 0 or negative errno, said
 * in a sentence. */
int service_tls_receiver(struct service_tls *tls, const struct config_receiver *receiver,
                         const char *protocol, const struct config_tls *config, const char *alpn,
                         struct tls_context **context);
/* Another server; section: "extensions::pages::tls". */
int service_tls_server(struct service_tls *tls, const char *section,
                       const struct config_tls *config, struct tls_context **context);
int service_tls_exporter(struct service_tls *tls, const struct config_exporter *exporter,
                         struct tls_context **context);
void service_tls_file_changed(struct service_tls *tls, size_t file, int fd); /* takes fd over */
void service_tls_close(struct service_tls *tls);

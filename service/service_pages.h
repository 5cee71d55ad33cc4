/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The pages extension within the service: its connection to the database, its token, its sockets.
 * Thread: loop.
 */
#include "exporter/pages/pages.h"
#include "receiver/listen.h"
#include "service/service_tls.h"

struct service_pages_settings {
    struct loop *loop;
    const struct config *config;
    struct listen_sockets *sockets, *unix_socket;
    struct service_tls *tls;
    struct coverage *coverage; /* service_pages_coverage() */
    bool sampling;
};

struct service_pages {
    struct pages *pages;
    const struct config_pages *config;
    const char *directory; /* of the store; the configuration's */
    const struct service_files *files;
    struct db *reader_db;
};

/* Nothing, if the configuration has no pages. Takes the sockets over, on success only. 0 or
 * negative errno, said in a sentence. */
int service_pages_open(struct service_pages *pages, const struct service_pages_settings *settings);
void service_pages_close(struct service_pages *pages);        /* also when not open */
void service_pages_file_changed(struct service_pages *pages); /* one of service_files */

/* For the intake, to be closed after it; NULL: there are no pages (or no memory). */
struct coverage *service_pages_coverage(const struct config *config);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The service's store as the configuration wants it, and who reads it for the exporters.
 * Thread: main, before the workers run and after they ended.
 */
#include "config/config.h"
#include "proto/otlp/otlp_service.h"
#include "store/store.h"

struct service_store {
    const struct config *config;
    struct store *store;
    struct db *reader_db;
    struct outbox_reader *outbox_reader;
    size_t n_exporters;
    const struct config_exporter *exporters[CONFIG_COMPONENTS_MAX]; /* by destination */
};

int service_store_open(struct service_store *store, const struct config *config);
void service_store_close(struct service_store *store); /* also when half open */

/* Mask of the signals whose pipeline names the receiver. */
uint32_t service_signals_of(const struct config *config, size_t receiver);
/* Whether the signal's pipeline joins. */
bool service_joins(const struct config *config, enum signal signal);
/* Mask over destinations of the exporters that the signal's pipeline names. */
uint32_t service_destinations(const struct service_store *store, enum signal signal);
/* Mask, 1 << signal: of pipelines that lead to no destination, but to nop. */
uint32_t service_unsent(const struct service_store *store);
/* The smallest limit of all peers: a request is stored once, for all of them. */
size_t service_max_request_bytes(const struct service_store *store);

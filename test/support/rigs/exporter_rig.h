/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One destination between a real outbox and a backend of ours. For cmocka: exporter_rig_setup() and
 * exporter_rig_teardown() make and free the state.
 */
#include "exporter/exporter.h"
#include "test/support/net/backend.h"
#include "test/support/fixtures/store_fixture.h"

#define TRACES   "TraceService/Export"
#define PROFILES "ProfilesService/Export"

struct rig {
    struct fixture fixture;
    struct loop *loop;
    struct worker *writer, *reader;
    struct db *reader_db;
    struct outbox_reader *outbox_reader;
    struct config_exporter config;
    struct tls_context *tls; /* the test's; NULL: plain text */
    struct exporter *exporter;
    struct backend backend;
    bool stopped;
};

int exporter_rig_setup(void **state); /* the exporter runs, with the settings that config has */
int exporter_rig_teardown(void **state);
void exporter_rig_start(struct rig *rig);

/* 3 items each, into the store; then the exporter is woken. */
void rig_put(struct rig *rig, enum signal signal, const char *body);
void rig_put_bytes(struct rig *rig, enum signal signal, struct bytes body);

void rig_pause(struct rig *rig, int ms);
/* The n-th request (from 0) to that path, once it has come. */
struct backend_request *rig_await(struct rig *rig, const char *path, size_t n);
bool rig_message_is(const struct backend_request *request, const char *text);
bool rig_is_empty(struct rig *rig); /* nothing waits for the destination in the store */
void rig_await_empty(struct rig *rig);
int64_t rig_dropped(const char *reason); /* the counter */

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP's signals and the table of their endpoints: gRPC method and HTTP path, for our receivers and
 * for the backends we send to. Pure; thread: any. Source: OTLP specification 1.11.
 */
#include "base/bytes.h"

enum signal { SIGNAL_TRACES, SIGNAL_PROFILES, SIGNAL_METRICS, SIGNAL_LOGS, SIGNAL_COUNT };
extern const char *const signal_names[SIGNAL_COUNT]; /* "traces", ... */

struct otlp_route {
    enum signal signal;
    const char *grpc_path;
    const char *http_path;
};

extern const struct otlp_route otlp_routes[SIGNAL_COUNT]; /* by signal */

/* Of the profiles service while it is in development, as gRPC metadata and HTTP header: which
 * layout of its messages a client speaks. Absent means version 1, the only one there is. Source:
 * opentelemetry-proto, pull request 857. */
#define OTLP_PROFILES_VERSION_KEY "otlp-profiles-development-version"
#define OTLP_PROFILES_VERSION     "1"

/* NULL if there is none. A path with a query string is matched without it. */
const struct otlp_route *otlp_route_of_grpc(struct bytes path);
const struct otlp_route *otlp_route_of_http(struct bytes path);

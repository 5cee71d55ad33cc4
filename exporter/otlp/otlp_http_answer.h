/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads the answer to an OTLP/HTTP request: protobuf, JSON or, from proxies, anything else. Pure;
 * thread: any. Source: OTLP specification 1.11, "OTLP/HTTP Response"; google/rpc/status.proto.
 */
#include "exporter/otlp/export_result.h"
#include "proto/http/http_answer.h"
#include "proto/otlp/otlp_service.h"

void otlp_http_answer(enum signal signal, const struct http_answer *answer, uint64_t now_unix_ns,
                      struct export_result *result);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Export requests of metrics and logs, made field by field: one Resource (service.name "shop"), one
 * scope, fields that nobody knows on every level. Asserts with cmocka. Thread: one.
 */
#include "base/buf.h"
#include "proto/otlp/otlp_service.h"

/* Appended to out: n metrics, each a gauge, sum, histogram, exponential histogram or summary in
 * turn, with 1 + i % 3 data points; or n log records. padding: bytes of text in each. */
void items_request(struct buf *out, enum signal signal, unsigned n, size_t padding);
/* How many data points or log records that makes. */
uint64_t items_expected(enum signal signal, unsigned n);
/* The metrics or log records of a request, one behind the other as fields of their scope. */
void items_entries(struct bytes request, struct buf *out);

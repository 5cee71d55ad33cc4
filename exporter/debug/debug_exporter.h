/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the debug exporter shows of a request beside its line of counts, as the Collector's does.
 * normal: a line for each Resource and scope, then one for each span (name, ids, attributes),
 * sample (leaf, count, ids, attributes), data point (name, attributes, values) or log record
 * (severity, body, ids, attributes). detailed: every field that is set, by its name in the
 * .proto files, one a line. Pure; thread: any (the reader: requests are decoded here).
 * Limits: DEBUG_TEXT_MAX of text a request, then "... N more lines"; see debug_text.h.
 */
#include "base/buf.h"
#include "config/config.h"
#include "proto/otlp/otlp_service.h"

/* Appends the text to out: nothing for basic; one line that says so for a request that cannot be
 * decoded. 0 or -ENOMEM, BUF_FULL of out. */
int debug_exporter_text(enum config_verbosity verbosity, enum signal signal, struct bytes request,
                        struct buf *out);

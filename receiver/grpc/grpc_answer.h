/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The answer to a call that was not accepted, on the wire. Private to the gRPC server. Thread:
 * loop.
 */
#include "proto/http/h2.h"
#include "receiver/otlp_answer.h"

/* Sends a trailers-only response: one header block that ends the stream. Without memory for it the
 * stream is reset. */
void grpc_answer_error(struct h2_stream *stream, const struct otlp_answer *answer);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What requests of all signals have in common on the writer: the way from the body that came to a
 * checked Export request, and how one is refused and counted. Private to receiver/intake*.c.
 * Thread: writer.
 */
#include "receiver/intake/intake.h"

/* Sets outcome (INTAKE_MALFORMED or INTAKE_TOO_BIG) and message, and counts. Returns 1. */
int intake_refuse_body(struct intake_request *request, enum intake_outcome outcome,
                       const char *message);

/* The quota could not hold it: to come again would not help. Returns 0. */
int intake_refuse_large(struct intake_request *request);

/* The checked Export request in protobuf: the body itself, or what it was inflated and converted
 * to, in `made`. 0; 1: refused; -ENOMEM. */
int intake_body_read(struct intake_request *request, struct buf *made, struct bytes *body);

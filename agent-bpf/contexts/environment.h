/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a process's environment says of its Resource: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
 * (OpenTelemetry specification: resource SDK, environment variables), and the service names that
 * container platforms put there (K_SERVICE: Knative; CONTAINER_APP_NAME: Azure; NOMAD_TASK_NAME;
 * AWS_LAMBDA_FUNCTION_NAME). Pure; thread: any. The first of several variables of a name counts, as
 * with getenv().
 */
#include "base/bytes.h"

#define ENVIRONMENT_MAX            65536 /* bytes looked at */
#define ENVIRONMENT_TEXT_MAX       1024  /* bytes of a name or value; longer is malformed */
#define ENVIRONMENT_KEY_MAX        255
#define ENVIRONMENT_ATTRIBUTES_MAX 128
#define ENVIRONMENT_BYTES_MAX      8192 /* of all that is kept */

struct environment {           /* in one block, with what it refers to; free() */
    size_t size;               /* of the block */
    struct bytes service_name; /* all are valid UTF-8; empty = not said */
    struct bytes platform_name;
    /* KeyValue messages, each framed as field 1: the attributes of a Resource. */
    struct bytes attributes;
};

enum { ENVIRONMENT_MALFORMED = 1 };

/* block: NAME=VALUE, each ended by NUL; the last one without is left out. NULL: it says nothing. 0;
 * ENVIRONMENT_MALFORMED: a variable was left out as a whole, the others count; -ENOMEM. */
int environment_parse(struct bytes block, struct environment **environment);

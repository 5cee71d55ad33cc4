/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Resource attributes from a process's environment: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
 * (OpenTelemetry specification: resource SDK, environment variables), and the service names that
 * container platforms set (K_SERVICE: Knative; CONTAINER_APP_NAME: Azure; NOMAD_TASK_NAME;
 * AWS_LAMBDA_FUNCTION_NAME). Also which publishers it turns on (context/runtime.h). Pure; thread:
 * any. If a variable occurs several times, the first counts, as with getenv().
 */
#include "base/bytes.h"

#define ENVIRONMENT_MAX            65536 /* bytes read of it */
#define ENVIRONMENT_TEXT_MAX       1024  /* bytes of a name or value; longer is malformed */
#define ENVIRONMENT_KEY_MAX        255
#define ENVIRONMENT_ATTRIBUTES_MAX 128
#define ENVIRONMENT_BYTES_MAX      8192 /* of all that is kept */

struct environment {           /* one block of memory with all its bytes; free() */
    size_t size;               /* of the block */
    struct bytes service_name; /* all are valid UTF-8; empty = not set */
    struct bytes platform_name;
    /* KeyValue messages, each framed as field 1: the attributes of a Resource. */
    struct bytes attributes;
    unsigned switched_on; /* RUNTIME_BIT()s whose variable turns their publisher on */
    bool switched_off;    /* SPANPROF_CONTEXT=off */
};

enum { ENVIRONMENT_MALFORMED = 1 };

/* block: NAME=VALUE, each ended by NUL; a last one without NUL is left out. NULL: none of the
 * variables says anything. 0; ENVIRONMENT_MALFORMED: a variable was left out as a whole, the others
 * are used; -ENOMEM. */
int environment_parse(struct bytes block, struct environment **environment);

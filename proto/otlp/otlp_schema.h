/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The generated descriptors of Export's request and response messages, by signal. Thread: any;
 * constant. */
#include "proto/otlp/otlp_service.h"
#include <protobuf-c/protobuf-c.h>

const ProtobufCMessageDescriptor *otlp_schema_request(enum signal signal);
const ProtobufCMessageDescriptor *otlp_schema_response(enum signal signal);

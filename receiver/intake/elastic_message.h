/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Datagrams to an Elastic APM agent: native endian, packed. Pure; any thread.
 * Source of the format: elastic/apm, specs/agents/universal-profiling-integration.md.
 */
#include "base/bytes.h"

#define ELASTIC_MESSAGE_MAX 256
#define ELASTIC_HOST_ID_MAX 128

/* "I am here, and a message about a stack comes within samples_delay_ms." host_id: of at most
 * ELASTIC_HOST_ID_MAX bytes, may be empty. Returns the bytes written to out. */
size_t elastic_registration(uint8_t out[ELASTIC_MESSAGE_MAX], uint32_t samples_delay_ms,
                            struct bytes host_id);

struct elastic_correlation {
    uint8_t trace_id[16];
    uint8_t local_root_id[8];
    uint8_t stack_id[16]; /* public stack id */
    uint16_t count;       /* samples since the last message for these three; never 0 */
};
size_t elastic_correlation(uint8_t out[ELASTIC_MESSAGE_MAX],
                           const struct elastic_correlation *message);

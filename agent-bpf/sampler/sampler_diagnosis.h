/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why sampling is not possible here, as a sentence for the operator that says what to do. why: room
 * for SAMPLER_DIAGNOSIS_MAX bytes. Thread: the supervisor's; what libbpf says is kept for the
 * process.
 */
#include <stddef.h>

int sampler_diagnosis_kernel(char *why, size_t size); /* 0, or SAMPLER_UNAVAILABLE */

void sampler_diagnosis_listen(
    void); /* keeps libbpf's messages from now on, for the next two functions */
/* error: of loading. SAMPLER_UNAVAILABLE, or -ENOMEM. */
int sampler_diagnosis_load(int error, char *why, size_t size);
/* error: of opening a perf event. SAMPLER_UNAVAILABLE. */
int sampler_diagnosis_perf(int error, char *why, size_t size);

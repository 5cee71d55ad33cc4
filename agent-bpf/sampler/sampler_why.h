/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why sampling is not possible here, as a sentence for the operator that says what to do. why: room
 * for SAMPLER_WHY_MAX bytes. Thread: the keeper's; what libbpf says is kept for the process.
 */
#include <stddef.h>

int sampler_why_kernel(char *why, size_t size); /* 0, or SAMPLER_UNAVAILABLE */

void sampler_why_listen(void); /* to what libbpf says from now on, for the next two */
/* error: of loading. SAMPLER_UNAVAILABLE, or -ENOMEM. */
int sampler_why_load(int error, char *why, size_t size);
/* error: of opening a perf event. SAMPLER_UNAVAILABLE. */
int sampler_why_perf(int error, char *why, size_t size);

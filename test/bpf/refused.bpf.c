/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
/* A program that every verifier refuses: it follows a number. */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

SEC("perf_event")
int follows_a_number(struct bpf_perf_event_data *ctx)
{
    return *(volatile int *)ctx->sample_period;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

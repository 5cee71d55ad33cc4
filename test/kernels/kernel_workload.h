/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What kernel_workload does, for those who judge its samples. */
#define KERNEL_WORKLOAD_SERVICE  "kernel-workload"
#define KERNEL_WORKLOAD_SPAN     "kernel work"
#define KERNEL_WORKLOAD_DESCENTS 30 /* calls of descend() under main() */

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The kernel's own file in each process, the vdso: the same for all (of 64 bits), so ours stands
 * for any. Thread: any.
 */
#define VDSO_BYTES_MAX (64u << 10) /* one page of unwind rows */

/* A copy in memory, to be read like any ELF file; the caller's. Negative errno: there is none. */
int vdso_open(void);

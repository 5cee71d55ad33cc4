/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The vdso, which the kernel maps into each process. It is the same for all 64-bit processes, so
 * our own is used. Thread: any.
 */
#define VDSO_BYTES_MAX (64u << 10) /* one page of unwind rows */

/* A memfd with a copy, an ELF file; the caller's. Negative errno: there is none. */
int vdso_open(void);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names of kernel functions (/proc/kallsyms) and the kernel's own build id (/sys/kernel/notes).
 * Without CAP_SYSLOG the kernel shows all addresses as zero: then there are no names. Thread: the
 * owner's. Limits: KALLSYMS_MAX functions, the rest is left out.
 */
#include "base/bytes.h"

#define KALLSYMS_MAX      (1u << 19)
#define KALLSYMS_NAME_MAX 512

struct kallsyms;

enum { KALLSYMS_HIDDEN = 1 };

/* fd: of /proc/kallsyms, whose reader sees addresses if the process that opened it may; it is read
 * from its start, and stays the caller's. 0; KALLSYMS_HIDDEN: all addresses are zero; negative
 * errno. */
int kallsyms_read(int fd, struct kallsyms **kallsyms);
void kallsyms_close(struct kallsyms *kallsyms);                /* NULL is fine */
uint64_t kallsyms_text_start(const struct kallsyms *kallsyms); /* _text (or _stext); 0 = unknown */
uint64_t kallsyms_text_end(const struct kallsyms *kallsyms);   /* _end (or _etext); 0 = unknown */
/* The function at an absolute address, valid until close; NULL = unknown. */
const char *kallsyms_find(const struct kallsyms *kallsyms, uint64_t address);
/* notes: of /sys/kernel/notes. Length, 0 if unknown. */
size_t kallsyms_build_id(struct bytes notes, uint8_t out[20]);

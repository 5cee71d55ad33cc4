/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwind tables of executables, made page by page of 64 KiB of code when a sample touches it, kept
 * for a while for the symbolizer's own unwinding (TABLES_PAGES_MAX, TABLES_MAX) and loaded into the
 * kernel's maps (unwind_maps.h). Shared by all processes that map the file. What is read of a file
 * takes a few KB, but for one without a sorted table, or with a compressed section: beyond
 * TABLES_BYTES_MAX the largest goes, and its code is unwound by frame pointers for ten seconds.
 * Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer/symbolizer_binary.h"
#include "agent-bpf/unwind/unwind_maps.h"

#define TABLES_MAX       512 /* each has up to two descriptors of its own */
#define TABLES_PAGES_MAX 512
#define TABLES_BYTES_MAX (64u << 20) /* and one file more */
#define TABLE_FILES_MAX  4           /* by which the kernel may know one content */

struct tables;
struct table;

/* maps NULL: for our own unwinding alone. */
int tables_open(const struct unwind_maps *maps, struct tables **tables);
void tables_close(struct tables *tables); /* NULL is fine */

/* pid: a process that maps the file; 0 = none is known. Borrowed until the next tables_settle();
 * NULL: no memory, too much is held by now, or the file is closed. At most TABLES_MAX may be
 * borrowed at once. */
struct table *tables_of(struct tables *tables, const struct binary *binary, uint32_t pid);
void tables_settle(struct tables *tables);        /* none is borrowed any more */
struct table *tables_vdso(struct tables *tables); /* the kernel's; NULL: there is none */

/* The rule of an ELF address; UNWIND_NO_INFO where nothing is said. */
void table_rule(struct tables *tables, struct table *table, uint64_t address,
                struct unwind_rule *rule);

/* The kernel knows the executable by this. */
void table_is_file(struct tables *tables, struct table *table, const struct unwind_file *file);
/* The page of an ELF address into the kernel, if it knows the executable. */
void table_load(struct tables *tables, struct table *table, uint64_t address);

/* Nothing can be read of the file: its code is unwound by frame pointers, for ten seconds. */
void tables_unreadable(struct tables *tables, const struct unwind_file *file);
/* Ends what is over, and sets the gauges. */
void tables_tend(struct tables *tables, uint64_t now_ns);
uint64_t tables_due(const struct tables *tables); /* something is over then; UINT64_MAX: nothing */

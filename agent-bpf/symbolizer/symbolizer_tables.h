/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwind tables of executables, shared by all processes that map the file. A page covers 64 KiB of
 * code and is made when a sample touches it. Pages are kept for the symbolizer's own unwinding
 * (limits: TABLES_PAGES_MAX, TABLES_MAX) and loaded into the kernel's maps (unwind_maps.h).
 * A table takes a few KB, more if the file has no sorted table, a compressed section, or is a copy
 * in memory. Above TABLES_BYTES_MAX the largest goes of the tenant that has most, and its code is
 * unwound by frame pointers for ten seconds.
 * Tenants share the tables fairly (base/fair_share.h): a flood of files evicts its own.
 * Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer/symbolizer_binary.h"
#include "agent-bpf/unwind/unwind_maps.h"

#define TABLES_MAX          512 /* each has up to two descriptors of its own */
#define TABLES_BORROWED_MAX 128 /* by one stack; above TABLES_MAX until they are given back */
#define TABLES_PAGES_MAX    512
#define TABLES_BYTES_MAX    (32u << 20) /* and one file more */
#define TABLE_FILES_MAX     4           /* inodes with the same content that the kernel knows */

struct tables;
struct table;

/* maps NULL: only for the symbolizer's own unwinding. */
int tables_open(const struct unwind_maps *maps, struct tables **tables);
void tables_close(struct tables *tables); /* NULL is fine */

/* pid: a process that maps the file; 0 = none is known. tenant: whose share it counts for,
 * unless a tenant with fewer tables uses it, too. Borrowed until the next tables_release(); at most
 * TABLES_BORROWED_MAX at once. NULL: no memory, TABLES_BYTES_MAX is reached, or the file is closed.
 */
struct table *tables_get(struct tables *tables, const struct binary *binary, uint32_t pid,
                         uint64_t tenant);
void tables_release(struct tables *tables); /* no table is borrowed now; frees what is too large */
struct table *tables_vdso(struct tables *tables); /* the kernel's vdso; NULL: there is none */

/* The rule of an ELF address; UNWIND_NO_INFO if there is none. */
void table_rule(struct tables *tables, struct table *table, uint64_t address,
                struct unwind_rule *rule);

/* Tells the kernel that the file has this table. */
void table_add_file(struct tables *tables, struct table *table, const struct unwind_file *file);
/* Loads the page of an ELF address into the kernel, if that knows the file. */
void table_load(struct tables *tables, struct table *table, uint64_t address);

/* The file cannot be read: its code is unwound by frame pointers for ten seconds. */
void tables_mark_unreadable(struct tables *tables, const struct unwind_file *file);
/* Ends those ten seconds where they are over, and sets the gauges. */
void tables_expire(struct tables *tables, uint64_t now_ns);
uint64_t
tables_due(const struct tables *tables); /* when tables_expire() has work; UINT64_MAX: never */

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The tables that HotSpot exports for debuggers ("vmStructs"): offsets of fields, addresses of
 * static variables, sizes of types and values of constants, by name. The file has the addresses of
 * the tables' variables, the process has their contents. A process that forges them gets wrong
 * names in its own stacks alone. Limits: HOTSPOT_TABLE_BYTES_MAX of a table, HOTSPOT_TEXT_PAGES_MAX
 * of names. Outcomes: 0; -ENOENT: the file is no HotSpot; -EBADMSG: the tables make no sense;
 * another negative errno. Source of the format: HotSpot's vmStructs.hpp.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/runtimes/runtime_memory.h"

#define HOTSPOT_TABLE_BYTES_MAX (UINT32_C(192) << 10)
#define HOTSPOT_TEXT_PAGES_MAX  128
#define HOTSPOT_TEXT_MAX        128 /* bytes of a name */

enum hotspot_export {
    HOTSPOT_STRUCTS,
    HOTSPOT_STRUCT_TYPE,
    HOTSPOT_STRUCT_FIELD,
    HOTSPOT_STRUCT_TYPE_STRING,
    HOTSPOT_STRUCT_IS_STATIC,
    HOTSPOT_STRUCT_OFFSET,
    HOTSPOT_STRUCT_ADDRESS,
    HOTSPOT_STRUCT_STRIDE,
    HOTSPOT_TYPES,
    HOTSPOT_TYPE_NAME,
    HOTSPOT_TYPE_SIZE,
    HOTSPOT_TYPE_STRIDE,
    HOTSPOT_EXPORTS,
};

struct hotspot_exports { /* ELF addresses */
    uint64_t of[HOTSPOT_EXPORTS];
};

struct hotspot_field {
    bool is_static;
    uint64_t place;   /* offset in its object; of a static one the address in the process */
    const char *type; /* its type, in C++; "" if not known */
};

struct hotspot_tables;

int hotspot_exports_find(const struct elf *elf, struct hotspot_exports *exports);
/* tables: the caller's, to be closed. */
int hotspot_tables_open(const struct hotspot_exports *exports, uint64_t load_bias,
                        struct runtime_memory *memory, struct hotspot_tables **tables);
void hotspot_tables_close(struct hotspot_tables *tables);
/* False: there is none of that name. */
bool hotspot_tables_field(const struct hotspot_tables *tables, const char *type, const char *name,
                          struct hotspot_field *field);
bool hotspot_tables_size(const struct hotspot_tables *tables, const char *type, uint64_t *size);

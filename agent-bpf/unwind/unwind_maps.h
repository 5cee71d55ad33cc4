/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The unwind tables in the kernel: the maps of unwind_rows.h, filled page by page. When the maps
 * are full, pages go that no tick has used for a minute, and of the tenant that has most, those
 * that ticks have not used for longest (base/fair_share.h). Limits: n_blocks blocks;
 * UNWIND_MAPS_FILES_MAX files. Thread: the owner's; one process at a time, which begins with empty
 * maps.
 */
#include "agent-bpf/unwind/unwind_page.h"

#define UNWIND_MAPS_FILES_MAX 4096

struct unwind_maps { /* descriptors, borrowed; executables -1: there are none */
    int executables;
    int pages;
    int blocks;
    uint32_t n_blocks; /* capacity */
};

struct unwind_loader;

int unwind_loader_open(const struct unwind_maps *maps, struct unwind_loader **loader);
void unwind_loader_close(
    struct unwind_loader *loader); /* NULL is fine; the maps stay as they are */

/* A new number for an executable. */
uint32_t unwind_loader_id(struct unwind_loader *loader);

/* From now on the tick program knows the file. 0 or negative errno. */
int unwind_loader_put_file(struct unwind_loader *loader, const struct unwind_file *file,
                           const struct unwind_executable *executable);
void unwind_loader_remove_file(struct unwind_loader *loader, const struct unwind_file *file);

/* 0 (also if it is loaded already); -E2BIG: no room even after evicting all others; negative
 * errno. It counts for the tenant. */
int unwind_loader_put_page(struct unwind_loader *loader, uint32_t executable,
                           const struct unwind_page *page, uint64_t tenant);
bool unwind_loader_has_page(const struct unwind_loader *loader, uint32_t executable,
                            uint64_t address);
/* Removes all pages of the executable. */
void unwind_loader_forget(struct unwind_loader *loader, uint32_t executable);

struct unwind_loader_counts {
    uint64_t pages; /* there now */
    uint64_t blocks;
    uint64_t evicted; /* pages, ever */
};

struct unwind_loader_counts unwind_loader_counts(const struct unwind_loader *loader);

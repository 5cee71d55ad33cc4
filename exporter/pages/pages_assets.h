/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The files of exporter/pages, as they were when this was built. Thread: any; constant.
 *
 * Pages are at the views' paths; what they load is at /assets/VERSION/NAME, and of no other
 * version, so it may be cached without end, and scripts of two versions never meet.
 */
#include "base/bytes.h"

struct pages_asset {
    const char *name; /* of the file */
    const char *type; /* Content-Type */
    const char *etag; /* with its quotes */
    struct bytes gzip;
    size_t size; /* inflated */
};

extern const struct pages_asset pages_assets[]; /* made by cmake/Embed.cmake */
extern const size_t pages_assets_count;

extern const char pages_assets_version[];

/* NULL: there is nothing. */
const struct pages_asset *pages_asset_find(const char *path);

/* Whether the same path will always have the same file. */
bool pages_asset_lasts(const struct pages_asset *asset);

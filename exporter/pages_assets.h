/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The files of exporter/pages, as they were when this was built. Thread: any; constant.
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

/* Of a page's path, or /assets/NAME; NULL: there is nothing. */
const struct pages_asset *pages_asset_find(const char *path);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The files of exporter/pages/web, embedded at build time. Thread: any; constant.
 *
 * Pages are at the views' paths. Scripts and styles are at /assets/VERSION/NAME, for this VERSION
 * only. So clients may cache them forever, and scripts of two versions never mix.
 */
#include "base/bytes.h"

struct pages_asset {
    const char *name; /* file name */
    const char *type; /* Content-Type */
    const char *etag; /* with its quotes */
    struct bytes gzip;
    size_t size; /* inflated */
};

extern const struct pages_asset pages_assets[]; /* made by cmake/Embed.cmake */
extern const size_t pages_assets_count;

extern const char pages_assets_version[];

/* NULL: not found. */
const struct pages_asset *pages_asset_find(const char *path);

/* Whether the path always serves the same bytes (it contains the version). */
bool pages_asset_lasts(const struct pages_asset *asset);

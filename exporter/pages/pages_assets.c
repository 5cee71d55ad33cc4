/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_assets.h"

/* One page serves all views; its script reads the URL. */
static const char page[] = "index.html";
static const char *const views[] = {"/",      "/traces",   "/trace", "/functions",
                                    "/flame", "/timeline", "/diff",  "/status"};

static const struct pages_asset *by_name(const char *name)
{
    for (size_t i = 0; i < pages_assets_count; i++)
        if (strcmp(pages_assets[i].name, name) == 0)
            return &pages_assets[i];
    return NULL;
}

/* The rest of path after the prefix; NULL: path does not start with it. */
static const char *assets_after(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);
    return path && strncmp(path, prefix, len) == 0 ? path + len : NULL;
}

const struct pages_asset *pages_asset_find(const char *path)
{
    const char *name =
        assets_after(assets_after(assets_after(path, "/assets/"), pages_assets_version), "/");
    if (name)
        return by_name(name);
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
        if (strcmp(path, views[i]) == 0)
            return by_name(page);
    return NULL;
}

bool pages_asset_lasts(const struct pages_asset *asset)
{
    return strcmp(asset->name, page) != 0;
}

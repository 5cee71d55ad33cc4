/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages_assets.h"

/* One file, whose script reads the address. */
static const char *const views[] = {"/",      "/traces",   "/trace", "/functions",
                                    "/flame", "/timeline", "/diff",  "/status"};

static const struct pages_asset *by_name(const char *name)
{
    for (size_t i = 0; i < pages_assets_count; i++)
        if (strcmp(pages_assets[i].name, name) == 0)
            return &pages_assets[i];
    return NULL;
}

const struct pages_asset *pages_asset_find(const char *path)
{
    static const char folder[] = "/assets/";
    if (strncmp(path, folder, sizeof(folder) - 1) == 0)
        return by_name(path + sizeof(folder) - 1);
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
        if (strcmp(path, views[i]) == 0)
            return by_name("index.html");
    return NULL;
}

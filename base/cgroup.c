/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool cgroup_mount_find(char *mount, size_t size)
{
    char text[CGROUP_PATH_MAX];
    struct mntent entry;
    bool found = false;
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    while (mounts && !found && getmntent_r(mounts, &entry, text, sizeof(text)))
        if (strcmp(entry.mnt_type, "cgroup2") == 0 && strlen(entry.mnt_dir) < size) {
            snprintf(mount, size, "%s", entry.mnt_dir);
            found = true;
        }
    if (mounts)
        endmntent(mounts);
    return found;
}

/* A path outside of our cgroup namespace begins with "/..": below the mount it would be another
 * directory. */
uint64_t cgroup_id_of_path(const char *mount, struct bytes path)
{
    char full[CGROUP_PATH_MAX];
    struct stat status;
    bool is_outside = path.len >= 3 && memcmp(path.data, "/..", 3) == 0;
    if (is_outside || path.len == 0 || path.data[0] != '/' || memchr(path.data, 0, path.len))
        return 0;
    int n = snprintf(full, sizeof(full), "%s%.*s", mount, (int)path.len, (const char *)path.data);
    if (n < 0 || n >= (int)sizeof(full) || stat(full, &status) || !S_ISDIR(status.st_mode))
        return 0;
    return status.st_ino;
}

struct bytes cgroup_path_of_text(struct bytes text)
{
    while (text.len) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        if (len >= 3 && memcmp(text.data, "0::", 3) == 0)
            return BYTES(text.data + 3, len - 3);
        text = BYTES(text.data + len + (end != NULL), text.len - len - (end != NULL));
    }
    return BYTES(NULL, 0);
}

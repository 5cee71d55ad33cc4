/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backup names sort by time, so age and order are text comparisons; no name is parsed.
 */
#include "exporter/file/file_backups.h"
#include "base/clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_DAY   (UINT64_C(86400) * NS_PER_SEC)
#define BACKUPS_MAX  65536 /* looked at in one directory */
#define STAMPS_TRIED 1000  /* milliseconds */

#define STAMP_PATTERN "0000-00-00T00-00-00.000"

struct stamp {
    char text[sizeof(STAMP_PATTERN)];
};

/* path = directory + stem + extension, e.g. "/a/" "data" ".json"; no directory is "". */
struct parts {
    struct bytes directory, stem, extension;
};

static struct parts backups_split(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const char *end = path + strlen(path);
    dot = dot ? dot : end;
    return (struct parts){BYTES(path, (size_t)(name - path)), BYTES(name, (size_t)(dot - name)),
                          BYTES(dot, (size_t)(end - dot))};
}

static void stamp_of(const struct config_exporter_file *config, uint64_t unix_ns,
                     struct stamp *stamp)
{
    time_t seconds = (time_t)(unix_ns / NS_PER_SEC);
    unsigned ms = (unsigned)(unix_ns % NS_PER_SEC / NS_PER_MS);
    struct tm tm;
    if (config->rotation.localtime)
        localtime_r(&seconds, &tm);
    else
        gmtime_r(&seconds, &tm);
    size_t n = strftime(stamp->text, sizeof(stamp->text), "%Y-%m-%dT%H-%M-%S", &tm);
    snprintf(stamp->text + n, sizeof(stamp->text) - n, ".%03u", ms % 1000);
}

static int backup_name(const struct config_exporter_file *config, const struct stamp *stamp,
                       char *name, size_t size)
{
    struct parts parts = backups_split(config->path);
    int n = snprintf(name, size, "%.*s%.*s-%s%s", (int)parts.directory.len, parts.directory.data,
                     (int)parts.stem.len, parts.stem.data, stamp->text,
                     (const char *)parts.extension.data);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int file_backups_rotate(const struct config_exporter_file *config, uint64_t *unix_ns)
{
    char name[PATH_MAX];
    struct stamp stamp;
    for (unsigned i = 0; i < STAMPS_TRIED; i++, *unix_ns += NS_PER_MS) {
        stamp_of(config, *unix_ns, &stamp);
        int error = backup_name(config, &stamp, name, sizeof(name));
        if (error)
            return error;
        if (renameat2(AT_FDCWD, config->path, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* ---- removing ---- */

static bool is_stamp(const char *text)
{
    for (size_t i = 0; i < sizeof(STAMP_PATTERN) - 1; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (STAMP_PATTERN[i] == '0' ? !digit : text[i] != STAMP_PATTERN[i])
            return false;
    }
    return true;
}

/* Whether a file name in the directory is that of a backup; if so, its time stamp. */
static bool stamp_in(const struct parts *parts, const char *name, struct stamp *stamp)
{
    struct bytes rest = BYTES_STR(name);
    size_t stamp_len = sizeof(stamp->text) - 1;
    if (rest.len != parts->stem.len + 1 + stamp_len + parts->extension.len ||
        memcmp(name, parts->stem.data, parts->stem.len) || name[parts->stem.len] != '-' ||
        memcmp(name + rest.len - parts->extension.len, parts->extension.data,
               parts->extension.len) ||
        !is_stamp(name + parts->stem.len + 1))
        return false;
    memcpy(stamp->text, name + parts->stem.len + 1, stamp_len);
    stamp->text[stamp_len] = '\0';
    return true;
}

static int newest_first(const void *a, const void *b)
{
    return strcmp(((const struct stamp *)b)->text, ((const struct stamp *)a)->text);
}

/* The backups' stamps, newest first; the caller frees them. Returns their number or negative errno.
 */
static int list_backups(const struct config_exporter_file *config, struct stamp **stamps)
{
    struct parts parts = backups_split(config->path);
    char path[PATH_MAX];
    struct buf list = BUF_INIT(BACKUPS_MAX * sizeof(struct stamp));
    struct stamp stamp;
    snprintf(path, sizeof(path), "%.*s", (int)parts.directory.len, parts.directory.data);
    DIR *directory = opendir(path[0] ? path : ".");
    int error = directory ? 0 : -errno;
    struct dirent *entry;
    while (directory && !error && (entry = readdir(directory)))
        if (stamp_in(&parts, entry->d_name, &stamp))
            error = buf_append(&list, &stamp, sizeof(stamp));
    if (directory)
        closedir(directory);
    if (error < 0) {
        buf_close(&list);
        return error;
    }
    size_t len;
    *stamps = (struct stamp *)(void *)buf_release(&list, &len);
    if (len)
        qsort(*stamps, len / sizeof(stamp), sizeof(stamp), newest_first);
    return (int)(len / sizeof(stamp));
}

int file_backups_prune(const struct config_exporter_file *config, uint64_t now_unix_ns)
{
    struct stamp *stamps = NULL, oldest = {""};
    char name[PATH_MAX];
    int removed = 0, n = list_backups(config, &stamps);
    uint32_t kept = config->rotation.max_backups;
    if (config->rotation.max_days)
        stamp_of(config, now_unix_ns - config->rotation.max_days * NS_PER_DAY, &oldest);
    for (int i = 0; i < n; i++) {
        bool keep = (!kept || (uint32_t)i < kept) && strcmp(stamps[i].text, oldest.text) >= 0;
        if (!keep && backup_name(config, &stamps[i], name, sizeof(name)) == 0)
            removed += unlink(name) == 0;
    }
    free(stamps);
    return n < 0 ? n : removed;
}

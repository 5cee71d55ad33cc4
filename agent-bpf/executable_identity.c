/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/executable_identity.h"
#include "agent-bpf/sha256.h"
#include "agent-bpf/symbolizer_messages.h"
#include "base/bytes.h"
#include <string.h>

#define DELETED " (deleted)"

size_t executable_path_length(const char *path)
{
    size_t len = strnlen(path, SYMBOLIZER_PATH_MAX);
    size_t suffix = sizeof(DELETED) - 1;
    bool deleted = len > suffix && !memcmp(path + len - suffix, DELETED, suffix);
    return deleted ? len - suffix : len;
}

static bool path_starts_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

static bool mapping_is_file(const struct process_mapping *mapping)
{
    const char *path = mapping->path;
    if (path && !strcmp(path, VDSO_PATH))
        return true;
    if (!path || path[0] != '/' || path_starts_with(path, "//") ||
        path_starts_with(path, "/dev/") || path_starts_with(path, "/SYSV") ||
        path_starts_with(path, "/anon_hugepage"))
        return false;
    return mapping->inode;
}

bool executable_identity(const struct process_mapping *mapping, uint8_t identity[16])
{
    if (!mapping_is_file(mapping))
        return false;
    const uint64_t numbers[4] = {mapping->device_major, mapping->device_minor, mapping->inode,
                                 mapping->inode_generation};
    uint8_t hashed[sizeof(numbers) + SYMBOLIZER_PATH_MAX], digest[32];
    size_t len = executable_path_length(mapping->path);
    memcpy(hashed, numbers, sizeof(numbers));
    memcpy(hashed + sizeof(numbers), mapping->path, len);
    sha256_of(BYTES(hashed, sizeof(numbers) + len), digest);
    memcpy(identity, digest, 16);
    return true;
}

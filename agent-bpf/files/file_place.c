/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statfs() asks a FUSE daemon, so the type comes from the line of the file's mount in mountinfo,
 * found by the mount's id.
 *
 * overlayfs reads its layers with the rights of whoever mounted it, so a FUSE file system below it
 * answers, or does not answer, anybody. In a user namespace any user may build that. There it
 * counts as foreign. Otherwise root has mounted it, and it is local unless a layer is found that is
 * not.
 */
#include "agent-bpf/files/file_place.h"
#include "agent-bpf/files/proc_maps.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define LAYER_PATH_MAX 4096
#define LAYERS_MAX     64 /* of one overlay that are looked at */

static const char *const local_types[] = {
    "ext4",     "ext3",     "ext2", "xfs",   "btrfs",    "tmpfs", "ramfs",
    "rootfs",   "devtmpfs", "zfs",  "f2fs",  "bcachefs", "erofs", "jfs",
    "cramfs",   "reiserfs", "vfat", "exfat", "ntfs",     "ntfs3", "iso9660",
    "squashfs", "nilfs2",   "udf",  "romfs", "ubifs",    "jffs2", "hugetlbfs"};

static bool is_local_type(struct bytes type)
{
    for (size_t i = 0; i < sizeof(local_types) / sizeof(*local_types); i++)
        if (bytes_is(type, local_types[i]))
            return true;
    return false;
}

static bool is_fuse_type(struct bytes type)
{
    return type.len >= 4 && !memcmp(type.data, "fuse", 4);
}

static int mount_id(int fd, uint64_t *id)
{
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status))
        return -errno;
    *id = status.stx_mnt_id;
    return status.stx_mask & STATX_MNT_ID ? 0 : -ENOSYS;
}

/* ---- overlayfs ---- */

/* Root mounted what lies in our own user namespace. */
static bool in_our_user_namespace(uint32_t pid)
{
    char path[32];
    struct stat own, other;
    snprintf(path, sizeof(path), "/proc/%u/ns/user", pid);
    return !pid ||
           (!stat("/proc/self/ns/user", &own) && !stat(path, &other) && own.st_ino == other.st_ino);
}

/* Removes and returns the path before the next unescaped colon. A backslash quotes. */
static bool take_layer(struct bytes *layers, char path[LAYER_PATH_MAX])
{
    size_t n = 0;
    while (layers->len && *layers->data != ':') {
        if (*layers->data == '\\' && layers->len > 1)
            layers->data++, layers->len--;
        if (n < LAYER_PATH_MAX - 1)
            path[n++] = (char)*layers->data;
        layers->data++, layers->len--;
    }
    if (layers->len)
        layers->data++, layers->len--;
    path[n] = 0;
    return n != 0;
}

/* In the root of this process. A layer that is not found there was mounted elsewhere. */
static bool layer_is_local(const char *path, int root_fd, struct bytes mounts)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_CACHED | RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    struct proc_mount mount;
    uint64_t id;
    if (path[0] != '/')
        return true;
    _cleanup_fd_ int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    if (fd < 0)
        return errno != EAGAIN;
    return !mount_id(fd, &id) && proc_mounts_find(mounts, id, &mount) &&
           (is_local_type(mount.type) || bytes_is(mount.type, "overlay"));
}

static bool layers_are_local(struct bytes layers, int root_fd, struct bytes mounts)
{
    char path[LAYER_PATH_MAX];
    for (int i = 0; i < LAYERS_MAX && layers.len; i++)
        if (take_layer(&layers, path) && !layer_is_local(path, root_fd, mounts))
            return false;
    return true;
}

static bool starts_with(struct bytes text, const char *start, struct bytes *rest)
{
    size_t n = strlen(start);
    if (text.len < n || memcmp(text.data, start, n))
        return false;
    *rest = BYTES(text.data + n, text.len - n);
    return true;
}

static bool overlay_is_local(struct bytes options, int root_fd, struct bytes mounts)
{
    while (options.len) {
        const uint8_t *comma = memchr(options.data, ',', options.len);
        struct bytes option =
            BYTES(options.data, comma ? (size_t)(comma - options.data) : options.len);
        struct bytes layers;
        size_t skip = option.len + (comma ? 1 : 0);
        options = BYTES(options.data + skip, options.len - skip);
        if ((starts_with(option, "lowerdir=", &layers) ||
             starts_with(option, "lowerdir+=", &layers) ||
             starts_with(option, "datadir+=", &layers) ||
             starts_with(option, "upperdir=", &layers)) &&
            !layers_are_local(layers, root_fd, mounts))
            return false;
    }
    return true;
}

static bool overlay_is_local_for(uint32_t pid, struct bytes options, struct bytes mounts)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%u/root", pid);
    _cleanup_fd_ int root_fd = open(pid ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root_fd >= 0 && overlay_is_local(options, root_fd, mounts);
}

/* The process sees its own mounts, and we those of the node. */
static enum file_place overlay_place(uint32_t pid, struct bytes options, struct bytes mounts)
{
    _cleanup_buf_ struct buf own = {0};
    bool local =
        in_our_user_namespace(pid) && overlay_is_local_for(pid, options, mounts) &&
        (!pid || (!proc_mounts_read(0, &own) && overlay_is_local_for(0, options, buf_bytes(&own))));
    return local ? FILE_PLACE_LOCAL : FILE_PLACE_FOREIGN;
}

/* ---- */

enum file_place file_place(int fd, uint32_t pid, struct bytes mounts)
{
    struct proc_mount mount;
    uint64_t id;
    if (mount_id(fd, &id) || !proc_mounts_find(mounts, id, &mount))
        return FILE_PLACE_UNKNOWN;
    if (is_fuse_type(mount.type))
        return FILE_PLACE_FUSE;
    if (bytes_is(mount.type, "overlay"))
        return overlay_place(pid, mount.options, mounts);
    return is_local_type(mount.type) ? FILE_PLACE_LOCAL : FILE_PLACE_FOREIGN;
}

enum file_place file_place_asking(int fd, uint32_t pid, struct bytes mounts)
{
    enum file_place place = file_place(fd, pid, mounts);
    struct statfs system;
    if (place != FILE_PLACE_UNKNOWN)
        return place;
    if (fstatfs(fd, &system))
        return FILE_PLACE_FOREIGN;
    switch ((unsigned long)system.f_type) {
    case FUSE_SUPER_MAGIC:
        return FILE_PLACE_FUSE;
    case TMPFS_MAGIC: /* a memfd, too */
    case RAMFS_MAGIC:
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case HUGETLBFS_MAGIC:
        return FILE_PLACE_LOCAL;
    default:
        return FILE_PLACE_FOREIGN;
    }
}

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

/* The process sees its own mounts, and we those of the node. */
static bool overlay_is_local_viewed(struct bytes options, const struct file_view *view,
                                    struct bytes mounts)
{
    return view->is_ours && overlay_is_local(options, view->root_fd, mounts) &&
           overlay_is_local(options, view->node_root_fd, buf_bytes(&view->node_mounts));
}

/* ---- what a process sees ---- */

/* Root mounted what lies in our own user namespace. */
static bool in_our_user_namespace(int process_fd)
{
    struct stat own, other;
    return !stat("/proc/self/ns/user", &own) && !fstatat(process_fd, "ns/user", &other, 0) &&
           own.st_ino == other.st_ino;
}

static int open_root(int directory_fd, const char *path)
{
    int fd = openat(directory_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int view_open_roots(int process_fd, struct file_view *view)
{
    *view = (struct file_view){.root_fd = open_root(process_fd, "root"), .node_root_fd = -1};
    if (view->root_fd < 0)
        return view->root_fd;
    view->is_ours = in_our_user_namespace(process_fd);
    view->node_root_fd = open_root(AT_FDCWD, "/");
    return view->node_root_fd < 0 ? view->node_root_fd : proc_mounts_read(0, &view->node_mounts);
}

int file_view_open(int process_fd, uint32_t pid, struct file_view *view)
{
    int error = view_open_roots(process_fd, view);
    return error ? error : proc_mounts_read(pid, &view->mounts);
}

void file_view_close(struct file_view *view)
{
    fd_closep(&view->root_fd);
    fd_closep(&view->node_root_fd);
    buf_close(&view->mounts);
    buf_close(&view->node_mounts);
}

/* ---- */

/* Of an overlay it is not known yet: *overlay gets its options. */
static enum file_place place_by_type(int fd, struct bytes mounts, struct bytes *overlay)
{
    struct proc_mount mount;
    uint64_t id;
    *overlay = BYTES(NULL, 0);
    if (mount_id(fd, &id) || !proc_mounts_find(mounts, id, &mount))
        return FILE_PLACE_UNKNOWN;
    if (is_fuse_type(mount.type))
        return FILE_PLACE_FUSE;
    if (bytes_is(mount.type, "overlay"))
        *overlay = mount.options;
    return is_local_type(mount.type) ? FILE_PLACE_LOCAL : FILE_PLACE_FOREIGN;
}

enum file_place file_place_viewed(int fd, const struct file_view *view)
{
    struct bytes overlay;
    struct bytes mounts = buf_bytes(&view->mounts);
    enum file_place place = place_by_type(fd, mounts, &overlay);
    bool local = overlay.data && overlay_is_local_viewed(overlay, view, mounts);
    return local ? FILE_PLACE_LOCAL : place;
}

enum file_place file_place(int fd, uint32_t pid, struct bytes mounts)
{
    char path[32];
    struct file_view view;
    struct bytes overlay;
    enum file_place place = place_by_type(fd, mounts, &overlay);
    if (!overlay.data)
        return place;
    snprintf(path, sizeof(path), "/proc/%u", pid ? pid : (uint32_t)getpid());
    _cleanup_fd_ int process_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process_fd < 0)
        return place;
    bool local =
        !view_open_roots(process_fd, &view) && overlay_is_local_viewed(overlay, &view, mounts);
    file_view_close(&view);
    return local ? FILE_PLACE_LOCAL : place;
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

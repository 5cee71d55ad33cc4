/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memfd.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALED_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALED      (SEALED_SIZE | F_SEAL_WRITE | F_SEAL_SEAL)

int memfd_write(int fd, struct bytes contents)
{
    for (size_t done = 0; done < contents.len;) {
        ssize_t n = write(fd, contents.data + done, contents.len - done);
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int memfd_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, SEALED) < 0 ? -errno : 0;
}

int memfd_sealed(const char *name, struct bytes contents)
{
    _cleanup_fd_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int error = memfd_write(fd, contents);
    if (!error)
        error = memfd_seal(fd);
    if (error)
        return error;
    int sealed = fd;
    fd = -1;
    return sealed;
}

ssize_t memfd_size(int fd, size_t limit_bytes)
{
    struct stat stat;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALED) != SEALED)
        return -EINVAL;
    if (fstat(fd, &stat))
        return -errno;
    return (size_t)stat.st_size > limit_bytes ? -EFBIG : (ssize_t)stat.st_size;
}

int memfd_read(int fd, size_t limit_bytes, struct buf *out)
{
    ssize_t found = memfd_size(fd, limit_bytes);
    if (found < 0)
        return (int)found;
    size_t size = (size_t)found, done = 0;
    int error = buf_reserve(out, size);
    while (!error && done < size) {
        ssize_t n = pread(fd, out->data + out->len, size - done, (off_t)done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return n < 0 ? -errno : -EINVAL;
        out->len += n > 0 ? (size_t)n : 0;
        done += n > 0 ? (size_t)n : 0;
    }
    return error;
}

int memfd_shared(const char *name, size_t size)
{
    _cleanup_fd_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALED_SIZE) < 0)
        return -errno;
    int shared = fd;
    fd = -1;
    return shared;
}

void *memfd_map(int fd, size_t size)
{
    struct stat stat;
    if (fstat(fd, &stat) || (size_t)stat.st_size != size)
        return NULL;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

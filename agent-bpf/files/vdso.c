/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/vdso.h"
#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t image_size(const void *image)
{
    const Elf64_Ehdr *header = image;
    return header->e_shoff + (size_t)header->e_shentsize * header->e_shnum; /* sections end it */
}

int vdso_open(void)
{
    const void *image = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
    size_t size = image ? image_size(image) : 0;
    if (!size || size > VDSO_BYTES_MAX)
        return -ENOENT;
    int fd = memfd_create("vdso", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (write(fd, image, size) == (ssize_t)size)
        return fd;
    close(fd);
    return -EIO;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/kernel_file.h"
#include "agent-bpf/files/proc_maps.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int find_in_maps(uint64_t address, struct kernel_file *mapped)
{
    struct buf text = BUF_INIT(PROC_MAPS_BYTES_MAX);
    int error = proc_maps_read((uint32_t)getpid(), &text);
    struct bytes rest = buf_bytes(&text);
    struct proc_map map;
    while (!error && !mapped->inode && proc_maps_next(&rest, &map))
        if (map.start <= address && address < map.end)
            *mapped = (struct kernel_file){.device = makedev(map.device_major, map.device_minor),
                                           .inode = map.inode};
    buf_close(&text);
    return error ? error : mapped->inode ? 0 : -ENOENT;
}

int kernel_file_of(int fd, struct kernel_file *mapped)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    *mapped = (struct kernel_file){0};
    void *page = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    int error = find_in_maps((uintptr_t)page, mapped);
    munmap(page, size);
    return error;
}

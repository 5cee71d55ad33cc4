/* SPDX-License-Identifier: Apache-2.0 */
#include "context/mapping.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef PR_SET_VMA_ANON_NAME
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

_Static_assert(sizeof(struct otel_process_header) <= MAPPING_SLOTS_AT, "");
_Static_assert(PAYLOAD_MAX <= MAPPING_SLOT_BYTES, "");

/* One line of /proc/self/maps; its name comes after five fields. */
static bool line_names_context(const char *line)
{
    static const char *const names[] = {OTEL_PROCESS_MAP_NAME_SHMEM, OTEL_PROCESS_MAP_NAME_MEMFD,
                                        OTEL_PROCESS_MAP_NAME_ANON};
    for (int field = 0; field < 5; field++) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strncmp(line, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Only looks: without /proc there is nothing to be found, and no reader either. */
static bool process_has_mapping(void)
{
    char chunk[4096], line[160];
    size_t len = 0;
    bool found = false;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (ssize_t n; !found && (n = read(fd, chunk, sizeof(chunk))) > 0;) {
        for (ssize_t i = 0; i < n && !found; i++) {
            if (chunk[i] != '\n') {
                if (len < sizeof(line) - 1)
                    line[len++] = chunk[i];
                continue;
            }
            line[len] = '\0';
            found = line_names_context(line);
            len = 0;
        }
    }
    close(fd);
    return found;
}

/* memfd_create() is in glibc 2.27 and later; programs that publish may run on 2.17. */
static int memfd_by_syscall(unsigned flags)
{
    return (int)syscall(SYS_memfd_create, OTEL_PROCESS_NAME, flags);
}

static int open_memfd(void)
{
    int fd = memfd_by_syscall(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0) /* before Linux 6.3 */
        fd = memfd_by_syscall(MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, MAPPING_BYTES)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int name_mapping(struct otel_process_header *mapping)
{
    return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, mapping, MAPPING_BYTES, OTEL_PROCESS_NAME);
}

int spanprof_context_mapping_open(struct otel_process_header **mapping)
{
    if (process_has_mapping())
        return -EEXIST;
    int fd = open_memfd();
    void *memory = MAP_FAILED;
    if (fd >= 0) {
        memory = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        close(fd);
    }
    bool named = memory != MAP_FAILED;
    if (!named)
        memory =
            mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    /* A child must not seem to be its parent. The name is tried here already: where neither way
     * gives one, no reader would find the mapping. */
    if (madvise(memory, MAPPING_BYTES, MADV_DONTFORK) || (!named && name_mapping(memory))) {
        munmap(memory, MAPPING_BYTES);
        return -ENOTSUP;
    }
    *mapping = memory;
    return 0;
}

void spanprof_context_mapping_close(struct otel_process_header *mapping)
{
    munmap(mapping, MAPPING_BYTES);
}

uint8_t *spanprof_context_mapping_slot(struct otel_process_header *mapping, uint32_t slot)
{
    return (uint8_t *)mapping + MAPPING_SLOTS_AT + slot * MAPPING_SLOT_BYTES;
}

static uint64_t time_after(uint64_t last_ns)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_BOOTTIME, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return now_ns > last_ns ? now_ns : last_ns + 1;
}

uint64_t spanprof_context_mapping_publish(struct otel_process_header *mapping, uint32_t slot,
                                          size_t size, uint64_t last_ns)
{
    volatile struct otel_process_header *header = mapping;
    uint64_t now_ns = time_after(last_ns);
    header->published_at_ns = 0;
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(mapping->signature, OTEL_PROCESS_SIGNATURE, sizeof(mapping->signature));
    header->version = OTEL_PROCESS_VERSION;
    header->payload_size = (uint32_t)size;
    header->payload = (uint64_t)(uintptr_t)spanprof_context_mapping_slot(mapping, slot);
    atomic_thread_fence(memory_order_seq_cst);
    header->published_at_ns = now_ns;
    name_mapping(mapping); /* each time: a reader may watch for the call */
    return now_ns;
}

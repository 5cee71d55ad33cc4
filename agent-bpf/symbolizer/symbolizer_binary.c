/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two maps, because a file may have several identities: by its build id from the kernel's stream,
 * by device and inode from /proc/PID/maps. `names` leads from an identity to a file, `files` from
 * the content key to the same file. Invariant: refs is the number of names that lead to a file.
 */
#include "agent-bpf/symbolizer/symbolizer_binary.h"
#include "agent-bpf/executable_identity.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/files/safe_open.h"
#include "agent-bpf/heartbeat.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

LIMIT(copies, LIMIT_SYMBOLIZER, "files that are not local, copied", .bytes = SAFE_COPY_MAX);
LIMIT(symbols, LIMIT_SYMBOLIZER, "symbols and lines of files", .bytes = SYMBOL_BYTES_MAX);

STAT_LOSS(malformed, "spanprof_executables_malformed_total",
          "Mapped files that are not valid ELF files.");
STAT_LOSS(lines_unreadable, "spanprof_lines_unreadable_total",
          "Executables without source lines, because their DWARF is malformed or too large.");
STAT_GAUGE(symbol_bytes, "spanprof_symbol_bytes", "Memory of the symbolizer's symbol tables.");

#define LOOK_AGAIN_NS (10 * NS_PER_SEC)

struct binary_name {
    uint8_t identity[16];
    struct binary *binary; /* NULL: it could not be opened */
    uint64_t checked_ns;
    uint32_t failed_pid; /* the process through which that failed */
    struct list recent;
};

void binaries_init(struct binaries *binaries, bool lines)
{
    memset(binaries, 0, sizeof(*binaries));
    binaries->lines = lines;
    MAP_INIT(&binaries->names, struct binary_name, identity);
    MAP_INIT(&binaries->files, struct binary, key);
    list_init(&binaries->recent);
    list_init(&binaries->open);
    list_init(&binaries->loaded);
}

static void binary_unload(struct binaries *binaries, struct binary *binary)
{
    if (!binary->names)
        return;
    assert(binaries->n_loaded && binaries->symbol_bytes >= binary->names_bytes);
    binaries->symbol_bytes -= binary->names_bytes;
    binary->names_bytes = 0;
    function_names_close(binary->names);
    binary->names = NULL;
    list_remove(&binary->loaded);
    binaries->n_loaded--;
}

static void binary_close_file(struct binaries *binaries, struct binary *binary)
{
    if (binary->fd < 0)
        return;
    assert(binaries->n_open);
    close(binary->fd);
    binary->fd = -1;
    list_remove(&binary->open);
    binaries->n_open--;
    if (binary->is_copy)
        binaries->copied_bytes -= binary->key.size;
}

static void binary_release(struct binaries *binaries, struct binary *binary)
{
    if (!binary)
        return;
    assert(binary->refs);
    if (--binary->refs)
        return;
    map_remove(&binaries->files, &binary->key);
    binary_unload(binaries, binary);
    binary_close_file(binaries, binary);
    runtime_file_release(binary->runtime_file);
    free(binary->publishers);
    free(binary);
}

static void binary_name_remove(struct binaries *binaries, struct binary_name *name)
{
    map_remove(&binaries->names, name->identity);
    list_remove(&name->recent);
    binary_release(binaries, name->binary);
    free(name);
}

void binaries_close(struct binaries *binaries)
{
    struct list *link;
    while ((link = list_first(&binaries->recent)))
        binary_name_remove(binaries, container_of(link, struct binary_name, recent));
    assert(!binaries->files.count && !binaries->n_open && !binaries->n_loaded &&
           !binaries->symbol_bytes);
    map_close(&binaries->names);
    map_close(&binaries->files);
}

static void binary_add_segment(struct binary *binary, const Elf64_Phdr *segment)
{
    if (segment->p_type != PT_LOAD || binary->n_segments == SYMBOLIZER_SEGMENTS_MAX)
        return;
    binary->segments[binary->n_segments++] = (struct symbolizer_segment){
        .file_offset = segment->p_offset, .size = segment->p_filesz, .vaddr = segment->p_vaddr};
}

/* Code first: if there are too many segments, addresses of samples are still covered. */
static void binary_add_segments(struct binary *binary, const struct elf *elf)
{
    for (int code = 1; code >= 0; code--)
        for (uint32_t i = 0; i < elf->n_segments; i++)
            if (!!(elf->segments[i].p_flags & PF_X) == code)
                binary_add_segment(binary, &elf->segments[i]);
}

static int binary_read(struct binary *binary)
{
    struct elf elf;
    long generation = 0;
    if (!ioctl(binary->fd, FS_IOC_GETVERSION, &generation))
        binary->generation = (uint32_t)generation;
    int error = elf_open(binary->fd, &elf);
    error = error ? error : elf_build_ids(&elf, &binary->ids);
    if (error) {
        stat_add(&malformed, 1);
        return error < 0 ? error : 0;
    }
    binary->is_elf = true;
    binary_add_segments(binary, &elf);
    if (thread_local_libc(&elf, &binary->libc) < 0)
        binary->libc = THREAD_LOCAL_LIBC_NONE;
    binary->runtime = runtime_find(&elf);
    binary->runtime_file = runtime_file_open(&elf);
    return publishers_find(&elf, &binary->publishers);
}

static void binary_keep_open(struct binaries *binaries, struct binary *binary)
{
    list_append(&binaries->open, &binary->open);
    binaries->n_open++;
    if (binary->is_copy)
        binaries->copied_bytes += binary->key.size;
    while (binaries->n_open > OPEN_FILES_MAX || binaries->copied_bytes > SAFE_COPY_MAX) {
        struct binary *oldest = container_of(list_first(&binaries->open), struct binary, open);
        if (oldest == binary) /* others are made small by their number alone */
            return;
        binary_close_file(binaries, oldest);
    }
}

static void binary_mark_used(struct binaries *binaries, struct binary *binary)
{
    list_remove(&binary->open);
    list_append(&binaries->open, &binary->open);
}

static struct binary *binary_new(struct binaries *binaries, const struct binary_key *key,
                                 const struct safe_file *file)
{
    struct binary *binary = calloc(1, sizeof(*binary));
    if (!binary)
        return NULL;
    binary->key = *key;
    binary->fd = file->fd;
    binary->is_copy = file->is_copy;
    binary->is_on_overlay = file->is_on_overlay;
    if (binary_read(binary) || map_put(&binaries->files, binary, NULL)) {
        runtime_file_release(binary->runtime_file);
        free(binary->publishers);
        free(binary);
        return NULL;
    }
    binary_keep_open(binaries, binary);
    return binary;
}

/* The binary with the content of this file; takes over its descriptor. refs is not raised yet. */
static struct binary *binary_of_file(struct binaries *binaries, const struct safe_file *file)
{
    struct binary_key key = {.device = file->device,
                             .inode = file->inode,
                             .size = file->size,
                             .changed_ns = file->changed_ns};
    struct binary *binary = map_get(&binaries->files, &key);
    if (!binary) {
        binary = binary_new(binaries, &key, file);
        if (!binary)
            close(file->fd);
        return binary;
    }
    if (binary->fd < 0) {
        binary->fd = file->fd;
        binary->is_copy = file->is_copy;
        binary_keep_open(binaries, binary);
    } else {
        close(file->fd);
    }
    return binary;
}

/* binary: NULL if it cannot be opened any more. Then what is known is kept: the identity is that of
 * one file. */
static void binary_name_lead(struct binaries *binaries, struct binary_name *name,
                             struct binary *binary, uint32_t pid)
{
    name->checked_ns = clock_monotonic_ns();
    name->failed_pid = binary ? 0 : pid;
    if (!binary)
        return;
    binary->refs++;
    binary_release(binaries, name->binary);
    name->binary = binary;
}

/* Opens what is mapped now and points the name to it. */
static void binary_name_refresh(struct binaries *binaries, struct binary_name *name, uint32_t pid,
                                const struct process_mapping *mapping)
{
    struct safe_file file;
    int error = safe_open_mapping(pid, mapping, &file);
    if (error != -EAGAIN) /* known, or asked again with the next request */
        binary_name_lead(binaries, name, error ? NULL : binary_of_file(binaries, &file), pid);
}

static struct binary_name *binary_name_new(struct binaries *binaries, const uint8_t identity[16])
{
    struct binary_name *name = calloc(1, sizeof(*name));
    if (!name)
        return NULL;
    memcpy(name->identity, identity, sizeof(name->identity));
    if (map_put(&binaries->names, name, NULL)) {
        free(name);
        return NULL;
    }
    list_append(&binaries->recent, &name->recent);
    if (binaries->names.count > BINARIES_MAX)
        binary_name_remove(binaries,
                           container_of(list_first(&binaries->recent), struct binary_name, recent));
    return name;
}

static bool is_to_be_opened(const struct binary_name *name, uint32_t pid)
{
    const struct binary *binary = name->binary;
    if (!binary && pid != name->failed_pid) /* the other process may have ended */
        return true;
    if (binary && binary->fd < 0)
        return true;
    return !(binary && binary->is_copy) && clock_monotonic_ns() - name->checked_ns > LOOK_AGAIN_NS;
}

struct ahead {
    struct binaries *binaries;
    uint32_t pid;
    size_t n;
    uint8_t identities[READER_FILES_MAX][16];
    struct process_mapping mappings[READER_FILES_MAX];
};

static void ahead_take(void *context, size_t index, const struct safe_file *file)
{
    const struct ahead *ahead = context;
    struct binary_name *name = map_get(&ahead->binaries->names, ahead->identities[index]);
    heartbeat(); /* between two files that are read */
    if (!name)
        name = binary_name_new(ahead->binaries, ahead->identities[index]);
    if (name)
        binary_name_lead(ahead->binaries, name, binary_of_file(ahead->binaries, file), ahead->pid);
    else
        close(file->fd);
}

void binaries_open_ahead(struct binaries *binaries, uint32_t pid,
                         const struct process_mapping *mappings, size_t n)
{
    CLAIM_THREAD(&binaries->owner);
    struct ahead ahead = {.binaries = binaries, .pid = pid};
    assert(n <= READER_FILES_MAX);
    for (size_t i = 0; i < n; i++) {
        uint8_t *identity = ahead.identities[ahead.n];
        if (!executable_identity(&mappings[i], identity))
            continue;
        const struct binary_name *name = map_get(&binaries->names, identity);
        if (!name || is_to_be_opened(name, pid))
            ahead.mappings[ahead.n++] = mappings[i];
    }
    if (ahead.n)
        safe_open_ahead(pid, ahead.mappings, ahead.n, ahead_take, &ahead);
}

struct binary *binaries_get(struct binaries *binaries, const uint8_t identity[16], uint32_t pid,
                            const struct process_mapping *mapping)
{
    CLAIM_THREAD(&binaries->owner);
    struct binary_name *name = map_get(&binaries->names, identity);
    bool fresh = !name;
    if (fresh)
        name = binary_name_new(binaries, identity);
    if (!name)
        return NULL;
    list_remove(&name->recent);
    list_append(&binaries->recent, &name->recent);
    if (fresh || is_to_be_opened(name, pid))
        binary_name_refresh(binaries, name, pid, mapping);
    if (name->binary && name->binary->fd >= 0)
        binary_mark_used(binaries, name->binary);
    return name->binary;
}

void binaries_update_size(struct binaries *binaries, struct binary *binary)
{
    CLAIM_THREAD(&binaries->owner);
    if (!binary->names)
        return;
    assert(binaries->symbol_bytes >= binary->names_bytes);
    binaries->symbol_bytes -= binary->names_bytes;
    binary->names_bytes = function_names_bytes(binary->names);
    binaries->symbol_bytes += binary->names_bytes;
    struct list *oldest = list_first(&binaries->loaded);
    while ((binaries->symbol_bytes > SYMBOL_BYTES_MAX || binaries->n_loaded > SYMBOL_TABLES_MAX) &&
           oldest != &binary->loaded) {
        binary_unload(binaries, container_of(oldest, struct binary, loaded));
        oldest = list_first(&binaries->loaded);
    }
    stat_set(&symbol_bytes, (int64_t)binaries->symbol_bytes);
}

static void binary_load(struct binaries *binaries, struct binary *binary, uint32_t pid)
{
    struct elf elf;
    if (binary->fd < 0 || elf_open(binary->fd, &elf) ||
        function_names_open(&elf, pid, &binary->names))
        return;
    if (binaries->lines && function_names_add_lines(binary->names, &elf, pid))
        stat_add(&lines_unreadable, 1);
    list_append(&binaries->loaded, &binary->loaded);
    binaries->n_loaded++;
    binaries_update_size(binaries, binary);
}

struct function_names *binaries_names(struct binaries *binaries, struct binary *binary,
                                      uint32_t pid)
{
    CLAIM_THREAD(&binaries->owner);
    if (!binary->is_elf)
        return NULL;
    if (!binary->names)
        binary_load(binaries, binary, pid);
    if (!binary->names)
        return NULL;
    list_remove(&binary->loaded);
    list_append(&binaries->loaded, &binary->loaded);
    return binary->names;
}

bool binary_hash(struct binary *binary)
{
    if (!binary->is_hashed && binary->fd >= 0)
        binary->is_hashed = !elf_htlhash(binary->fd, binary->key.size, binary->htlhash);
    return binary->is_hashed;
}

bool binary_address(const struct binary *binary, uint64_t offset, uint64_t *vaddr)
{
    for (uint32_t i = 0; i < binary->n_segments; i++) {
        const struct symbolizer_segment *segment = &binary->segments[i];
        uint64_t start = segment->file_offset & ~UINT64_C(0xfff);
        uint64_t lead = segment->file_offset - start;
        if (offset < start || (offset - start >= lead && offset - start - lead >= segment->size))
            continue;
        *vaddr = segment->vaddr - segment->file_offset + offset;
        return true;
    }
    return false;
}

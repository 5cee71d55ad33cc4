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

enum kept { KEPT_KNOWN, KEPT_OPEN, KEPT_COPIED, KEPT_LOADED, KEPT };

static const char *const kept_names[] = {[KEPT_KNOWN] = "files",
                                         [KEPT_OPEN] = "open",
                                         [KEPT_COPIED] = "copies",
                                         [KEPT_LOADED] = "symbols"};
STAT_COUNTERS(
    over_share, "spanprof_executables_over_share_total",
    "What was dropped of executables because processes of one cgroup had more than their share, "
    "or because it was unused for a minute: what is known of a file, its descriptor, its copy, "
    "its symbols.",
    STAT_LABEL("what", kept_names, KEPT));
STAT_GAUGE(symbol_bytes, "spanprof_symbol_bytes", "Memory of the symbolizer's symbol tables.");

#define LOOK_AGAIN_NS (10 * NS_PER_SEC)
#define IN_USE_S      10 /* since its names were asked for */
#define TRIM_BYTES    (1u << 20)

struct binary_name {
    uint8_t identity[16];
    struct binary *binary; /* NULL: it could not be opened */
    uint64_t checked_ns;
    uint32_t failed_pid; /* the process through which that failed */
    struct fair_entry known;
};

int binaries_init(struct binaries *binaries, bool lines)
{
    memset(binaries, 0, sizeof(*binaries));
    binaries->lines = lines;
    MAP_INIT(&binaries->names, struct binary_name, identity);
    MAP_INIT(&binaries->files, struct binary, key);
    struct fair_lru *const kept[KEPT] = {&binaries->known, &binaries->open, &binaries->copied,
                                         &binaries->loaded};
    const uint64_t limits[KEPT] = {BINARIES_MAX, OPEN_FILES_MAX, SAFE_COPY_MAX, SYMBOL_BYTES_MAX};
    int error = 0;
    for (int i = 0; i < KEPT; i++) { /* all of them: they can be closed then */
        int failure = fair_lru_init(kept[i], limits[i]);
        error = error ? error : failure;
    }
    return error;
}

/* What has to go of these; counted. */
static struct fair_entry *excess_of(const struct fair_lru *lru, const struct fair_entry *except,
                                    enum kept what)
{
    struct fair_entry *excess = fair_lru_excess(lru, except);
    if (excess)
        stat_add_of(&over_share, what, 1);
    return excess;
}

static void binary_unload(struct binaries *binaries, struct binary *binary)
{
    if (!binary->names)
        return;
    assert(binaries->symbol_bytes >= binary->names_bytes);
    binaries->symbol_bytes -= binary->names_bytes;
    binary->names_bytes = 0;
    function_names_close(binary->names);
    binary->names = NULL;
    fair_lru_remove(&binaries->loaded, &binary->loaded);
}

static void binary_close_file(struct binaries *binaries, struct binary *binary)
{
    if (binary->fd < 0)
        return;
    close(binary->fd);
    binary->fd = -1;
    fair_lru_remove(&binaries->open, &binary->open);
    fair_lru_remove(&binaries->copied, &binary->copied);
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
    fair_lru_remove(&binaries->known, &name->known);
    binary_release(binaries, name->binary);
    free(name);
}

void binaries_close(struct binaries *binaries)
{
    struct fair_entry *entry;
    while ((entry = fair_lru_any(&binaries->known)))
        binary_name_remove(binaries, container_of(entry, struct binary_name, known));
    assert(!binaries->files.count && !binaries->open.share.used && !binaries->copied.share.used &&
           !binaries->loaded.share.used && !binaries->symbol_bytes);
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

static void binary_keep_open(struct binaries *binaries, struct binary *binary, uint64_t tenant)
{
    struct fair_entry *excess;
    fair_lru_add(&binaries->open, &binary->open, tenant, 1);
    if (binary->is_copy)
        fair_lru_add(&binaries->copied, &binary->copied, tenant, (uint32_t)binary->key.size);
    while ((excess = excess_of(&binaries->open, &binary->open, KEPT_OPEN)))
        binary_close_file(binaries, container_of(excess, struct binary, open));
    while ((excess = excess_of(&binaries->copied, &binary->copied, KEPT_COPIED)))
        binary_close_file(binaries, container_of(excess, struct binary, copied));
}

static void binary_mark_used(struct binaries *binaries, struct binary *binary, uint64_t tenant)
{
    fair_lru_use(&binaries->open, &binary->open, tenant);
    if (binary->is_copy)
        fair_lru_use(&binaries->copied, &binary->copied, tenant);
}

static struct binary *binary_new(struct binaries *binaries, const struct binary_key *key,
                                 const struct safe_file *file, uint64_t tenant)
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
    binary_keep_open(binaries, binary, tenant);
    return binary;
}

/* The binary with the content of this file; takes over its descriptor. refs is not raised yet. */
static struct binary *binary_of_file(struct binaries *binaries, const struct safe_file *file,
                                     uint64_t tenant)
{
    struct binary_key key = {.device = file->device,
                             .inode = file->inode,
                             .size = file->size,
                             .changed_ns = file->changed_ns};
    struct binary *binary = map_get(&binaries->files, &key);
    if (!binary) {
        binary = binary_new(binaries, &key, file, tenant);
        if (!binary)
            close(file->fd);
        return binary;
    }
    if (binary->fd < 0) {
        binary->fd = file->fd;
        binary->is_copy = file->is_copy;
        binary_keep_open(binaries, binary, tenant);
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
static void binary_name_refresh(struct binaries *binaries, struct binary_name *name,
                                struct binary_user user, const struct process_mapping *mapping)
{
    struct safe_file file;
    int error = safe_open_mapping(user.pid, mapping, &file);
    if (error != -EAGAIN) /* known, or asked again with the next request */
        binary_name_lead(binaries, name,
                         error ? NULL : binary_of_file(binaries, &file, user.tenant), user.pid);
}

static struct binary_name *binary_name_new(struct binaries *binaries, const uint8_t identity[16],
                                           uint64_t tenant)
{
    struct fair_entry *excess;
    struct binary_name *name = calloc(1, sizeof(*name));
    if (!name)
        return NULL;
    memcpy(name->identity, identity, sizeof(name->identity));
    if (map_put(&binaries->names, name, NULL)) {
        free(name);
        return NULL;
    }
    fair_lru_add(&binaries->known, &name->known, tenant, 1);
    while ((excess = excess_of(&binaries->known, &name->known, KEPT_KNOWN)))
        binary_name_remove(binaries, container_of(excess, struct binary_name, known));
    return name;
}

static bool is_to_be_opened(const struct binary_name *name, struct binary_user user)
{
    const struct binary *binary = name->binary;
    if (!binary && user.pid != name->failed_pid) /* the other process may have ended */
        return true;
    if (binary && binary->fd < 0 && user.reads)
        return true;
    return !(binary && binary->is_copy) && clock_monotonic_ns() - name->checked_ns > LOOK_AGAIN_NS;
}

struct ahead {
    struct binaries *binaries;
    struct binary_user user;
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
        name = binary_name_new(ahead->binaries, ahead->identities[index], ahead->user.tenant);
    if (name)
        binary_name_lead(ahead->binaries, name,
                         binary_of_file(ahead->binaries, file, ahead->user.tenant),
                         ahead->user.pid);
    else
        close(file->fd);
}

void binaries_open_ahead(struct binaries *binaries, struct binary_user user,
                         const struct process_mapping *mappings, size_t n)
{
    CLAIM_THREAD(&binaries->owner);
    struct ahead ahead = {.binaries = binaries, .user = user};
    assert(n <= READER_FILES_MAX);
    for (size_t i = 0; i < n; i++) {
        uint8_t *identity = ahead.identities[ahead.n];
        if (!executable_identity(&mappings[i], identity))
            continue;
        const struct binary_name *name = map_get(&binaries->names, identity);
        if (!name || is_to_be_opened(name, user))
            ahead.mappings[ahead.n++] = mappings[i];
    }
    if (ahead.n)
        safe_open_ahead(user.pid, ahead.mappings, ahead.n, ahead_take, &ahead);
}

struct binary *binaries_get(struct binaries *binaries, const uint8_t identity[16],
                            struct binary_user user, const struct process_mapping *mapping)
{
    CLAIM_THREAD(&binaries->owner);
    struct binary_name *name = map_get(&binaries->names, identity);
    bool fresh = !name;
    if (fresh)
        name = binary_name_new(binaries, identity, user.tenant);
    if (!name)
        return NULL;
    fair_lru_use(&binaries->known, &name->known, user.tenant);
    if (fresh || is_to_be_opened(name, user))
        binary_name_refresh(binaries, name, user, mapping);
    if (name->binary && name->binary->fd >= 0)
        binary_mark_used(binaries, name->binary, user.tenant);
    return name->binary;
}

/* Its symbols keep a copy in memory, also when it is closed here. */
static size_t names_bytes(const struct binary *binary)
{
    return function_names_bytes(binary->names) + (binary->is_copy ? binary->key.size : 0);
}

static void binary_count(struct binaries *binaries, struct binary *binary)
{
    assert(binaries->symbol_bytes >= binary->names_bytes);
    binaries->symbol_bytes -= binary->names_bytes;
    binary->names_bytes = names_bytes(binary);
    binaries->symbol_bytes += binary->names_bytes;
    fair_lru_resize(&binaries->loaded, &binary->loaded,
                    (uint32_t)(binary->names_bytes > SYMBOL_TABLE_BYTES ? binary->names_bytes
                                                                        : SYMBOL_TABLE_BYTES));
}

/* Takes a part of what is soon decoded again, of the tenant's file that has such parts and was used
 * longest ago. False: none has any. */
static bool binaries_trim(struct binaries *binaries, uint64_t tenant, const struct binary *last)
{
    struct fair_lru *loaded = &binaries->loaded;
    struct list *link, *tmp;
    list_each(link, tmp, &loaded->ages[fair_share_index(&loaded->share, tenant)])
    {
        struct fair_entry *entry = container_of(link, struct fair_entry, age);
        struct binary *binary = container_of(entry, struct binary, loaded);
        size_t before = binary->names_bytes;
        if (binary == last)
            continue;
        function_names_trim(binary->names, TRIM_BYTES);
        binary_count(binaries, binary);
        if (binary->names_bytes < before)
            return true;
    }
    return false;
}

void binaries_update_size(struct binaries *binaries, struct binary *binary)
{
    CLAIM_THREAD(&binaries->owner);
    struct fair_entry *excess;
    if (!binary->names)
        return;
    binary_count(binaries, binary);
    uint64_t now_s = clock_monotonic_ns() / NS_PER_SEC;
    while ((excess = fair_lru_excess(&binaries->loaded, &binary->loaded))) {
        bool in_use = now_s - excess->used_s < IN_USE_S; /* to load it again would take long */
        if (in_use && binaries_trim(binaries, excess->tenant, binary))
            continue;
        stat_add_of(&over_share, KEPT_LOADED, 1);
        binary_unload(binaries, container_of(excess, struct binary, loaded));
    }
    stat_set(&symbol_bytes, (int64_t)binaries->symbol_bytes);
}

static void binary_load(struct binaries *binaries, struct binary *binary, struct binary_user user)
{
    struct elf elf;
    if (binary->fd < 0 || elf_open(binary->fd, &elf) ||
        function_names_open(&elf, user.pid, &binary->names))
        return;
    if (binaries->lines && function_names_add_lines(binary->names, &elf, user.pid))
        stat_add(&lines_unreadable, 1);
    fair_lru_add(&binaries->loaded, &binary->loaded, user.tenant, 0);
    binaries_update_size(binaries, binary);
}

struct function_names *binaries_names(struct binaries *binaries, struct binary *binary,
                                      struct binary_user user)
{
    CLAIM_THREAD(&binaries->owner);
    if (!binary->is_elf)
        return NULL;
    if (!binary->names)
        binary_load(binaries, binary, user);
    else
        fair_lru_use(&binaries->loaded, &binary->loaded, user.tenant);
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

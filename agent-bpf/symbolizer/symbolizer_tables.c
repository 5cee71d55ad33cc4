/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/symbolizer_tables.h"
#include "agent-bpf/files/debug_file.h"
#include "agent-bpf/unwind/eh_frame.h"
#include "agent-bpf/unwind/go_unwind.h"
#include "agent-bpf/files/vdso.h"
#include "base/clock.h"
#include "base/fair_share.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/thread_owner.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

LIMIT(tables, LIMIT_SYMBOLIZER, "unwind tables", .bytes = TABLES_BYTES_MAX);

STAT_COUNTER(pages_made, "spanprof_unwind_pages_made_total",
             "Pages of 64 KiB of code whose unwind rows were decoded.");
STAT_GAUGE(loaded_pages, "spanprof_unwind_pages", "Pages of unwind rows in the kernel.");
STAT_GAUGE(loaded_blocks, "spanprof_unwind_blocks",
           "Blocks of unwind rows in the kernel, of 4096 bytes each.");
STAT_GAUGE(table_bytes, "spanprof_unwind_table_bytes",
           "Bytes of memory that unwind information of files takes in the symbolizer, without the "
           "rows.");
STAT_COUNTER(evicted, "spanprof_unwind_pages_evicted_total",
             "Pages of unwind rows removed from the kernel to make room for others.");
STAT_LOSS(no_room, "spanprof_unwind_pages_no_room_total",
          "Pages of unwind rows, or files, that did not fit into the kernel's maps.");
STAT_COUNTER(over_share, "spanprof_unwind_tables_over_share_total",
             "Unwind tables of files that went because processes of one cgroup had brought more "
             "than their share.");
STAT_COUNTER(unreadable_files, "spanprof_unwind_files_unreadable_total",
             "Executables whose unwind information could not be read or was too large. For ten "
             "seconds their code is unwound by frame pointers.");

#define UNREADABLE_NS  (10 * NS_PER_SEC)
#define UNREADABLE_MAX 1024

struct table {
    struct binary_key key;
    struct eh_frame *frame; /* NULL: it has none */
    struct go_symbols *go;  /* NULL: it is no Go program */
    uint16_t machine;
    size_t copy_bytes; /* of a file in memory (safe_open.h) that its descriptors keep there */
    size_t bytes;      /* that, and of frame, as counted */
    struct unwind_executable executable;
    struct unwind_file files[TABLE_FILES_MAX];
    uint32_t n_files;
    uint32_t next_file;
    struct fair_entry share;
};

struct table_page {
    struct unwind_page_key key;
    struct unwind_page page;
    struct list recent;
};

struct unreadable {
    struct unwind_file file;
    uint64_t until_ns;
    struct list link;
};

struct tables {
    struct unwind_loader *loader; /* NULL: no maps */
    struct map by_key;
    struct map pages;
    struct map unreadable;
    struct fair_lru kept; /* tables, each of size 1 */
    struct list recent_pages;
    struct list ending; /* struct unreadable by until_ns */
    struct table *vdso;
    size_t bytes;     /* of all tables */
    uint32_t next_id; /* without maps */
    uint64_t evicted_counted;
    struct thread_owner owner; /* the loop */
};

/* ---- opening ---- */

/* A table grows as it is used. */
static void table_update_bytes(struct tables *tables, struct table *table)
{
    assert(tables->bytes >= table->bytes);
    tables->bytes -= table->bytes;
    table->bytes = table->copy_bytes + (table->frame ? eh_frame_bytes(table->frame) : 0);
    tables->bytes += table->bytes;
}

static void executable_add_segments(struct unwind_executable *executable, const struct elf *elf)
{
    uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
            executable->n_segments == UNWIND_SEGMENTS_MAX)
            continue;
        executable->segments[executable->n_segments++] = (struct unwind_segment){
            .offset = segment->p_offset & ~mask,
            .end = (segment->p_offset + segment->p_filesz + mask) & ~mask,
            .bias = segment->p_vaddr - segment->p_offset,
        };
    }
}

static uint32_t tables_new_id(struct tables *tables)
{
    return tables->loader ? unwind_loader_id(tables->loader) : ++tables->next_id;
}

static int table_open_frame(const struct elf *elf, uint32_t pid, struct eh_frame **frame)
{
    struct elf debug;
    if (debug_file_separate(elf, pid, &debug))
        return eh_frame_open(elf, frame);
    int error = eh_frame_open_with(elf, &debug, frame);
    close(debug.fd);
    return error;
}

static void table_read_file(struct table *table, int fd, uint32_t pid)
{
    struct elf elf;
    if (elf_open(fd, &elf))
        return;
    executable_add_segments(&table->executable, &elf);
    table->machine = elf.machine;
    if (go_symbols_open(&elf, &table->go))
        table->go = NULL;
    if (table->go ? eh_frame_open_loaded(&elf, &table->frame)
                  : table_open_frame(&elf, pid, &table->frame))
        table->frame = NULL;
    if (table->frame || table->go)
        table->executable.how = UNWIND_BY_ROWS;
}

/* copy_bytes: of the file, if it is one in memory. */
static struct table *table_new(struct tables *tables, int fd, uint32_t pid, size_t copy_bytes)
{
    struct table *table = calloc(1, sizeof(*table));
    if (!table)
        return NULL;
    table->executable.id = tables_new_id(tables);
    table->executable.how = UNWIND_BY_FRAME_POINTERS;
    table_read_file(table, fd, pid);
    table->copy_bytes = table->executable.how == UNWIND_BY_ROWS ? copy_bytes : 0;
    table_update_bytes(tables, table);
    return table;
}

/* ---- pages of our own ---- */

static void table_page_remove(struct tables *tables, struct table_page *page)
{
    map_remove(&tables->pages, &page->key);
    list_remove(&page->recent);
    unwind_page_close(&page->page);
    free(page);
}

static struct table_page *table_page_new(struct tables *tables, const struct unwind_page_key *key,
                                         struct unwind_page *made)
{
    struct table_page *page = calloc(1, sizeof(*page));
    if (page)
        page->key = *key;
    if (!page || map_put(&tables->pages, page, NULL)) {
        free(page);
        unwind_page_close(made);
        return NULL;
    }
    page->page = *made;
    list_append(&tables->recent_pages, &page->recent);
    if (tables->pages.count > TABLES_PAGES_MAX)
        table_page_remove(
            tables, container_of(list_first(&tables->recent_pages), struct table_page, recent));
    return page;
}

static int table_make_page(struct table *table, uint64_t address, struct unwind_page *page)
{
    uint64_t start = address & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);
    int error =
        table->frame ? eh_frame_page(table->frame, address, page) : unwind_page_init(page, start);
    if (error || !table->go)
        return error;
    error = go_unwind_page(table->go, table->machine, page);
    if (error)
        unwind_page_close(page);
    return error;
}

/* NULL: it cannot be made. */
static const struct unwind_page *table_get_page(struct tables *tables, struct table *table,
                                                uint64_t address)
{
    struct unwind_page_key key = {table->executable.id, (uint32_t)(address >> UNWIND_PAGE_SHIFT)};
    if (table->executable.how != UNWIND_BY_ROWS || address >= UNWIND_ADDRESS_MAX)
        return NULL;
    struct table_page *page = map_get(&tables->pages, &key);
    if (page) {
        list_remove(&page->recent);
        list_append(&tables->recent_pages, &page->recent);
        return &page->page;
    }
    struct unwind_page made;
    int error = table_make_page(table, address, &made);
    table_update_bytes(tables, table);
    if (error)
        return NULL;
    stat_add(&pages_made, 1);
    page = table_page_new(tables, &key, &made);
    return page ? &page->page : NULL;
}

void table_rule(struct tables *tables, struct table *table, uint64_t address,
                struct unwind_rule *rule)
{
    CLAIM_THREAD(&tables->owner);
    const struct unwind_page *page = table_get_page(tables, table, address);
    *rule = page ? *unwind_page_find(page, address) : (struct unwind_rule){0};
}

/* ---- tables ---- */

static void tables_remove_pages_of(struct tables *tables, uint32_t id)
{
    struct table_page *page;
    for (size_t i = 0; (page = map_next(&tables->pages, &i));)
        if (page->key.executable == id)
            table_page_remove(tables, page);
}

static void table_free(struct tables *tables, struct table *table)
{
    for (uint32_t i = 0; tables->loader && i < table->n_files; i++)
        unwind_loader_remove_file(tables->loader, &table->files[i]);
    if (tables->loader && table->n_files)
        unwind_loader_forget(tables->loader, table->executable.id);
    tables_remove_pages_of(tables, table->executable.id);
    assert(tables->bytes >= table->bytes);
    tables->bytes -= table->bytes;
    eh_frame_close(table->frame);
    go_symbols_close(table->go);
    free(table);
}

static void table_remove(struct tables *tables, struct table *table)
{
    map_remove(&tables->by_key, &table->key);
    fair_lru_remove(&tables->kept, &table->share);
    table_free(tables, table);
}

struct table *tables_get(struct tables *tables, const struct binary *binary, uint32_t pid,
                         uint64_t tenant)
{
    CLAIM_THREAD(&tables->owner);
    struct table *table = map_get(&tables->by_key, &binary->key);
    if (table) {
        fair_lru_use(&tables->kept, &table->share, tenant);
        return table;
    }
    if (binary->fd < 0 || tables->bytes > TABLES_BYTES_MAX)
        return NULL;
    table = table_new(tables, binary->fd, pid, binary->is_copy ? binary->key.size : 0);
    if (!table)
        return NULL;
    table->key = binary->key;
    if (map_put(&tables->by_key, table, NULL)) {
        table_free(tables, table);
        return NULL;
    }
    fair_lru_add(&tables->kept, &table->share, tenant, 1);
    assert(tables->by_key.count <= TABLES_MAX + TABLES_BORROWED_MAX);
    return table;
}

static unsigned share_of(const struct tables *tables, const struct table *table)
{
    return fair_share_index(&tables->kept.share, table->share.tenant);
}

/* By bytes. */
static unsigned largest_share(const struct tables *tables)
{
    uint64_t bytes[FAIR_SHARES] = {0};
    unsigned largest = 0;
    const struct table *table;
    for (size_t i = 0; (table = map_next(&tables->by_key, &i));)
        bytes[share_of(tables, table)] += table->bytes;
    for (unsigned i = 1; i < FAIR_SHARES; i++)
        if (bytes[i] > bytes[largest])
            largest = i;
    return largest;
}

/* Of those of the tenant whose tables take most. */
static struct table *tables_largest(const struct tables *tables)
{
    struct table *largest = NULL, *table;
    unsigned share = largest_share(tables);
    for (size_t i = 0; (table = map_next(&tables->by_key, &i));)
        if (share_of(tables, table) == share && (!largest || table->bytes > largest->bytes))
            largest = table;
    return largest;
}

/* Who brings too many loses his own. */
static void tables_release_excess(struct tables *tables)
{
    struct fair_entry *excess;
    while ((excess = fair_lru_excess(&tables->kept, NULL))) {
        table_remove(tables, container_of(excess, struct table, share));
        stat_add(&over_share, 1);
    }
}

/* Removes the largest, not the least recently used: a process with huge files does not cost others
 * their tables. */
void tables_release(struct tables *tables)
{
    CLAIM_THREAD(&tables->owner);
    struct table *table;
    tables_release_excess(tables);
    while (tables->bytes > TABLES_BYTES_MAX && (table = tables_largest(tables))) {
        struct unwind_file files[TABLE_FILES_MAX];
        uint32_t n = table->n_files;
        memcpy(files, table->files, sizeof(files));
        table_remove(tables, table);
        for (uint32_t i = 0; i < n; i++)
            tables_mark_unreadable(tables, &files[i]);
    }
    stat_set(&table_bytes, (int64_t)tables->bytes);
}

struct table *tables_vdso(struct tables *tables)
{
    CLAIM_THREAD(&tables->owner);
    return tables->vdso;
}

/* ---- into the kernel ---- */

static bool table_has_file(const struct table *table, const struct unwind_file *file)
{
    for (uint32_t i = 0; i < table->n_files; i++)
        if (!memcmp(&table->files[i], file, sizeof(*file)))
            return true;
    return false;
}

void table_add_file(struct tables *tables, struct table *table, const struct unwind_file *file)
{
    CLAIM_THREAD(&tables->owner);
    if (!tables->loader || table_has_file(table, file))
        return;
    if (unwind_loader_put_file(tables->loader, file, &table->executable)) {
        stat_add(&no_room, 1);
        return;
    }
    if (table->n_files < TABLE_FILES_MAX) {
        table->files[table->n_files++] = *file;
        return;
    }
    struct unwind_file *oldest = &table->files[table->next_file++ % TABLE_FILES_MAX];
    unwind_loader_remove_file(tables->loader, oldest);
    *oldest = *file;
}

void table_load(struct tables *tables, struct table *table, uint64_t address)
{
    CLAIM_THREAD(&tables->owner);
    if (!table->n_files || address >= UNWIND_ADDRESS_MAX ||
        unwind_loader_has_page(tables->loader, table->executable.id, address))
        return;
    const struct unwind_page *page = table_get_page(tables, table, address);
    struct unwind_page none;
    if (!page && unwind_page_init(&none, address & ~(uint64_t)(UNWIND_PAGE_BYTES - 1)))
        return;
    if (unwind_loader_put_page(tables->loader, table->executable.id, page ? page : &none,
                               table->share.tenant))
        stat_add(&no_room, 1);
    if (!page)
        unwind_page_close(&none);
}

static void unreadable_remove(struct tables *tables, struct unreadable *unreadable)
{
    unwind_loader_remove_file(tables->loader, &unreadable->file);
    map_remove(&tables->unreadable, &unreadable->file);
    list_remove(&unreadable->link);
    free(unreadable);
}

void tables_mark_unreadable(struct tables *tables, const struct unwind_file *file)
{
    CLAIM_THREAD(&tables->owner);
    const struct unwind_executable none = {.how = UNWIND_BY_FRAME_POINTERS};
    if (!tables->loader || map_get(&tables->unreadable, file))
        return;
    struct unreadable *unreadable = calloc(1, sizeof(*unreadable));
    if (!unreadable)
        return;
    unreadable->file = *file;
    unreadable->until_ns = clock_monotonic_ns() + UNREADABLE_NS;
    if (map_put(&tables->unreadable, unreadable, NULL)) {
        free(unreadable);
        return;
    }
    list_append(&tables->ending, &unreadable->link);
    unwind_loader_put_file(tables->loader, file, &none);
    stat_add(&unreadable_files, 1);
    if (tables->unreadable.count > UNREADABLE_MAX)
        unreadable_remove(tables,
                          container_of(list_first(&tables->ending), struct unreadable, link));
}

void tables_expire(struct tables *tables, uint64_t now_ns)
{
    CLAIM_THREAD(&tables->owner);
    struct list *link;
    while ((link = list_first(&tables->ending))) {
        struct unreadable *unreadable = container_of(link, struct unreadable, link);
        if (unreadable->until_ns > now_ns)
            break;
        unreadable_remove(tables, unreadable);
    }
    if (!tables->loader)
        return;
    struct unwind_loader_counts counts = unwind_loader_counts(tables->loader);
    stat_set(&loaded_pages, (int64_t)counts.pages);
    stat_set(&loaded_blocks, (int64_t)counts.blocks);
    stat_add(&evicted, (int64_t)(counts.evicted - tables->evicted_counted));
    tables->evicted_counted = counts.evicted;
}

uint64_t tables_due(const struct tables *tables)
{
    OWNER_THREAD(&tables->owner);
    const struct list *link = list_first(&tables->ending);
    return link ? container_of(link, const struct unreadable, link)->until_ns : UINT64_MAX;
}

/* ---- life cycle ---- */

/* Loaded as a whole, before any tick asks for it. */
static void tables_open_vdso(struct tables *tables)
{
    int fd = vdso_open();
    if (fd < 0)
        return;
    tables->vdso = table_new(tables, fd, 0, 0);
    close(fd);
    if (!tables->vdso)
        return;
    struct unwind_executable *vdso = &tables->vdso->executable;
    vdso->n_segments = 1;
    vdso->segments[0] = (struct unwind_segment){.end = VDSO_BYTES_MAX};
    const struct unwind_file file = {.inode = UNWIND_VDSO_INODE, .device = UNWIND_VDSO_DEVICE};
    table_add_file(tables, tables->vdso, &file);
    table_load(tables, tables->vdso, 0);
}

int tables_open(const struct unwind_maps *maps, struct tables **out)
{
    struct tables *tables = calloc(1, sizeof(*tables));
    if (!tables)
        return -ENOMEM;
    MAP_INIT(&tables->by_key, struct table, key);
    MAP_INIT(&tables->pages, struct table_page, key);
    MAP_INIT(&tables->unreadable, struct unreadable, file);
    list_init(&tables->recent_pages);
    list_init(&tables->ending);
    int error = fair_lru_init(&tables->kept, TABLES_MAX);
    if (error) {
        tables_close(tables);
        return error;
    }
    if (maps && maps->executables >= 0 && unwind_loader_open(maps, &tables->loader)) {
        tables_close(tables);
        return -ENOMEM;
    }
    tables_open_vdso(tables);
    *out = tables;
    return 0;
}

void tables_close(struct tables *tables)
{
    if (!tables)
        return;
    struct list *link;
    struct fair_entry *table;
    while ((table = fair_lru_any(&tables->kept)))
        table_remove(tables, container_of(table, struct table, share));
    while ((link = list_first(&tables->ending)))
        unreadable_remove(tables, container_of(link, struct unreadable, link));
    if (tables->vdso)
        table_free(tables, tables->vdso);
    assert(!tables->bytes && !tables->pages.count && !tables->unreadable.count);
    unwind_loader_close(tables->loader);
    map_close(&tables->by_key);
    map_close(&tables->pages);
    map_close(&tables->unreadable);
    free(tables);
}

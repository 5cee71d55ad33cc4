/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks: a file of another user at that path in a shared /tmp; a link to a file of root; a FIFO;
 * a file that never ends or is rewritten all the time. Accident: a file left by an earlier process
 * with the same pid, as in a container whose only process was restarted.
 *
 * The file is opened for each reading, by the same rules. No descriptor is kept: it would block the
 * unmounting of a container's file system. The file counts as the same one, only longer, if the
 * last bytes that were read are still at their offset.
 */
#include "agent-bpf/symbols/perf_maps.h"
#include "agent-bpf/files/fs_rights.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/files/safe_open.h"
#include "base/limits.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TAIL_BYTES       64
#define CHUNKS           (PERF_MAPS_STEP_BYTES / PERF_MAPS_LINE_BYTES)
#define CLOCK_TICK_NS    (10 * NS_PER_MS) /* resolution of start times, and maybe of file times */
#define STATUS_BYTES_MAX 65536
#define FAILURES_MAX     3 /* each but the first doubles the wait */

LIMIT(perf_maps, LIMIT_SYMBOLIZER, "names of code made at run time", .bytes = PERF_MAPS_BYTES_MAX);

_Static_assert(PERF_MAPS_AGE_NS << (FAILURES_MAX - 1) == PERF_MAPS_ABSENT_NS, "as the header says");

enum unread { UNREAD_REFUSED, UNREAD_STALE, UNREAD_FAILED, UNREAD_TOO_MUCH, UNREADS };

static const char *const unread_names[] = {[UNREAD_REFUSED] = "refused",
                                           [UNREAD_STALE] = "stale",
                                           [UNREAD_FAILED] = "failed",
                                           [UNREAD_TOO_MUCH] = "too_much"};
STAT_COUNTERS(
    not_read, "spanprof_perf_maps_not_read_total",
    "Times that a perf map was not read, or not to its end. refused: it is a link, belongs to "
    "another user or is on FUSE; stale: it is older than the process; too_much: the rest is read "
    "later.",
    STAT_LABEL("reason", unread_names, UNREADS));
STAT_LOSS(cut, "spanprof_perf_maps_cut_total",
          "Perf maps too large to read whole; only the end is read.");
STAT_COUNTER(evicted, "spanprof_perf_maps_evicted_total",
             "Perf maps removed from memory because processes of one cgroup had more than their "
             "share of it, or because they were unused for a minute.");
STAT_GAUGE(map_bytes, "spanprof_perf_map_bytes", "Bytes of memory that names from perf maps take.");

enum {
    PROCESS_GONE = 1,
    FILE_ABSENT,
    FILE_REFUSED,
    FILE_STALE,
};

struct perf_file { /* of a process */
    uint32_t pid;
    uint8_t failures; /* readings in a row that found no readable file */
    bool behind;      /* not read to its end yet */
    bool skipping;    /* up to the next line */
    uint64_t read_ns;
    uint64_t device;
    uint64_t inode;
    uint64_t offset; /* read so far */
    size_t tail_len;
    uint8_t tail[TAIL_BYTES]; /* the bytes before offset */
    struct perf_map map;
    struct fair_entry kept;
    struct list left;
    uint64_t left_ns;
};

/* ---- the file ---- */

struct process_facts {
    uint32_t own_pid;
    uint64_t start_ns;
    struct fs_rights rights;
};

static bool is_gone(int error)
{
    return error == -ENOENT || error == -ESRCH;
}

static int read_start(struct perf_maps *maps, uint32_t pid, uint64_t *start_ns)
{
    maps->text.limit_bytes = STATUS_BYTES_MAX;
    int error = reader_proc_text(pid, READER_STAT, &maps->text);
    return error ? error : proc_parse_start_ns(buf_bytes(&maps->text), start_ns) ? 0 : -EINVAL;
}

static int read_process(struct perf_maps *maps, uint32_t pid, struct process_facts *process)
{
    int error = read_start(maps, pid, &process->start_ns);
    error = error ? error : reader_proc_text(pid, READER_STATUS, &maps->text);
    if (error)
        return is_gone(error) ? PROCESS_GONE : error;
    struct bytes status = buf_bytes(&maps->text);
    bool understood =
        proc_parse_own_pid(status, &process->own_pid) && fs_rights_parse(status, &process->rights);
    return understood ? 0 : FILE_REFUSED;
}

static int open_path(uint32_t pid, const char *path, struct safe_file *file)
{
    int error = safe_open_plain(pid, path, file);
    if (error == -ESRCH)
        return PROCESS_GONE;
    return error == -ENOENT                                ? FILE_ABSENT
           : error == SAFE_OPEN_REFUSED || error == -ELOOP ? FILE_REFUSED
                                                           : error;
}

/* Converts with the clocks of now: if the wall clock was set since, files look older or newer. */
static uint64_t unix_time(uint64_t boot_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    uint64_t since_ns = (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec - boot_ns;
    return clock_unix_ns() - since_ns;
}

static int check_file(struct perf_maps *maps, const struct safe_file *file, uint32_t pid,
                      const struct process_facts *process)
{
    struct stat status;
    uint64_t start_ns;
    if (fstat(file->fd, &status))
        return -errno;
    if (status.st_uid && status.st_uid != process->rights.uid)
        return FILE_REFUSED;
    if (file->changed_ns + 2 * CLOCK_TICK_NS < unix_time(process->start_ns))
        return FILE_STALE;
    /* The same start as before: everything read in between was of one process. */
    int error = read_start(maps, pid, &start_ns);
    return error == -EAGAIN ? error : error || start_ns != process->start_ns ? PROCESS_GONE : 0;
}

static int open_file(struct perf_maps *maps, uint32_t pid, struct safe_file *file)
{
    char path[48];
    struct process_facts process;
    int error = read_process(maps, pid, &process);
    if (error)
        return error;
    snprintf(path, sizeof(path), "/tmp/perf-%u.map", process.own_pid);
    error = open_path(pid, path, file);
    if (error)
        return error;
    error = check_file(maps, file, pid, &process);
    if (error)
        close(file->fd);
    return error;
}

/* ---- its lines ---- */

static void perf_file_empty(struct perf_file *file)
{
    perf_map_close(&file->map);
    file->offset = file->tail_len = file->device = file->inode = 0;
    file->behind = file->skipping = false;
}

static bool perf_file_continues(const struct perf_file *file, const struct safe_file *opened)
{
    uint8_t tail[TAIL_BYTES];
    return opened->device == file->device && opened->inode == file->inode &&
           opened->size >= file->offset &&
           pread(opened->fd, tail, file->tail_len, (off_t)(file->offset - file->tail_len)) ==
               (ssize_t)file->tail_len &&
           !memcmp(tail, file->tail, file->tail_len);
}

static void perf_file_begin(struct perf_file *file, const struct safe_file *opened)
{
    perf_file_empty(file);
    file->device = opened->device;
    file->inode = opened->inode;
    if (opened->size <= PERF_MAPS_FILE_BYTES)
        return;
    file->offset = opened->size - PERF_MAPS_FILE_BYTES;
    file->skipping = true;
    stat_add(&cut, 1);
}

/* Adds whole lines. Of a line that is too long the rest is skipped too. Returns the bytes consumed.
 */
static size_t perf_file_add_lines(struct perf_file *file, struct bytes text)
{
    size_t taken = 0;
    if (file->skipping) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        file->skipping = !end;
        taken = end ? (size_t)(end + 1 - text.data) : text.len;
    }
    taken += perf_map_add(&file->map, BYTES(text.data + taken, text.len - taken));
    if (taken || text.len < PERF_MAPS_LINE_BYTES)
        return taken;
    perf_map_count_left_out(PERF_MAP_LINE_TOO_LONG);
    file->skipping = true;
    return text.len;
}

static void perf_file_keep_tail(struct perf_file *file, struct bytes taken)
{
    file->offset += taken.len;
    file->tail_len = taken.len < TAIL_BYTES ? taken.len : TAIL_BYTES;
    memcpy(file->tail, taken.data + taken.len - file->tail_len, file->tail_len);
}

/* Whether another line may be read in this second. */
static bool perf_maps_may_read(struct perf_maps *maps, uint64_t tenant, uint64_t now_ns)
{
    if (now_ns - maps->second_ns >= NS_PER_SEC) {
        maps->second_ns = now_ns;
        fair_share_clear(&maps->second);
    }
    return fair_share_has_room(&maps->second, tenant, sizeof(maps->line));
}

static int perf_file_read_step(struct perf_maps *maps, struct perf_file *file,
                               const struct safe_file *opened, uint64_t now_ns)
{
    file->behind = opened->size > file->offset;
    if (!file->behind)
        return 0;
    for (size_t i = 0; i < CHUNKS && perf_maps_may_read(maps, file->kept.tenant, now_ns); i++) {
        ssize_t n = pread(opened->fd, maps->line, sizeof(maps->line), (off_t)file->offset);
        if (n < 0)
            return -errno;
        size_t taken = perf_file_add_lines(file, BYTES(maps->line, (size_t)n));
        fair_share_take(&maps->second, file->kept.tenant, (uint64_t)n);
        if (taken)
            perf_file_keep_tail(file, BYTES(maps->line, taken));
        file->behind = (size_t)n == sizeof(maps->line);
        if (!file->behind)
            return 0;
    }
    stat_add_of(&not_read, UNREAD_TOO_MUCH, 1);
    return 0;
}

/* ---- readings ---- */

/* -EAGAIN: the reader had no time; what was read before still counts. */
static void perf_file_note_outcome(struct perf_file *file, int error)
{
    if (error == -EAGAIN)
        return;
    if (!error || error == PROCESS_GONE) {
        file->failures = 0;
        return;
    }
    perf_file_empty(file);
    if (file->failures < FAILURES_MAX)
        file->failures++;
    if (error == FILE_REFUSED)
        stat_add_of(&not_read, UNREAD_REFUSED, 1);
    else if (error == FILE_STALE)
        stat_add_of(&not_read, UNREAD_STALE, 1);
    else if (error < 0)
        stat_add_of(&not_read, UNREAD_FAILED, 1);
}

static int perf_file_read(struct perf_maps *maps, struct perf_file *file, uint64_t now_ns)
{
    struct safe_file opened = {.fd = -1};
    int error = open_file(maps, file->pid, &opened);
    if (error)
        return error;
    if (!perf_file_continues(file, &opened))
        perf_file_begin(file, &opened);
    error = perf_file_read_step(maps, file, &opened, now_ns);
    close(opened.fd);
    return error;
}

static void perf_file_remove(struct perf_maps *maps, struct perf_file *file)
{
    map_remove(&maps->by_pid, &file->pid);
    fair_lru_remove(&maps->kept, &file->kept);
    list_remove(&file->left);
    assert(maps->bytes >= file->map.bytes);
    maps->bytes -= file->map.bytes;
    perf_map_close(&file->map);
    free(file);
}

static void perf_maps_enforce_limits(struct perf_maps *maps, struct perf_file *current)
{
    struct fair_entry *excess;
    size_t bytes = current->map.bytes > PERF_MAPS_LEAST ? current->map.bytes : PERF_MAPS_LEAST;
    fair_lru_resize(&maps->kept, &current->kept, (uint32_t)bytes);
    while ((excess = fair_lru_excess(&maps->kept, &current->kept))) {
        perf_file_remove(maps, container_of(excess, struct perf_file, kept));
        stat_add(&evicted, 1);
    }
}

static void perf_file_refresh(struct perf_maps *maps, struct perf_file *file, uint64_t now_ns)
{
    assert(maps->bytes >= file->map.bytes);
    maps->bytes -= file->map.bytes;
    perf_file_note_outcome(file, perf_file_read(maps, file, now_ns));
    maps->bytes += file->map.bytes;
    file->read_ns = now_ns;
    perf_maps_enforce_limits(maps, file);
    stat_set(&map_bytes, (int64_t)maps->bytes);
}

static struct perf_file *perf_file_new(struct perf_maps *maps, struct perf_user user)
{
    struct perf_file *file = calloc(1, sizeof(*file));
    if (!file)
        return NULL;
    file->pid = user.pid;
    perf_map_init(&file->map, PERF_MAPS_PROCESS_MAX);
    if (map_put(&maps->by_pid, file, NULL)) {
        free(file);
        return NULL;
    }
    fair_lru_add(&maps->kept, &file->kept, user.tenant, PERF_MAPS_LEAST);
    return file;
}

/* The process's file, read at most age_ns ago; NULL: no memory. */
static struct perf_file *perf_maps_file(struct perf_maps *maps, struct perf_user user,
                                        uint64_t now_ns, uint64_t age_ns)
{
    struct perf_file *file = map_get(&maps->by_pid, &user.pid);
    bool fresh = !file;
    if (fresh)
        file = perf_file_new(maps, user);
    if (!file)
        return NULL;
    fair_lru_use(&maps->kept, &file->kept, user.tenant);
    if (file->failures)
        age_ns = PERF_MAPS_AGE_NS << (file->failures - 1);
    else if (file->behind)
        age_ns = PERF_MAPS_RETRY_NS;
    if (fresh || now_ns - file->read_ns >= age_ns)
        perf_file_refresh(maps, file, now_ns);
    return file;
}

static bool perf_file_find(const struct perf_file *file, uint64_t address,
                           struct perf_map_range *range)
{
    *range = (struct perf_map_range){.last = UINT64_MAX};
    if (file && !file->behind)
        *range = perf_map_find(&file->map, address);
    return range->name;
}

int perf_maps_init(struct perf_maps *maps)
{
    memset(maps, 0, sizeof(*maps));
    MAP_INIT(&maps->by_pid, struct perf_file, pid);
    list_init(&maps->left);
    int error = fair_lru_init(&maps->kept, PERF_MAPS_BYTES_MAX);
    return error ? error : fair_share_init(&maps->second, PERF_MAPS_RATE_BYTES);
}

void perf_maps_close(struct perf_maps *maps)
{
    struct fair_entry *entry;
    while ((entry = fair_lru_any(&maps->kept)))
        perf_file_remove(maps, container_of(entry, struct perf_file, kept));
    assert(!maps->bytes && !maps->by_pid.count);
    map_close(&maps->by_pid);
    buf_close(&maps->text);
}

const struct perf_map *perf_maps_get(struct perf_maps *maps, struct perf_user user, uint64_t now_ns)
{
    const struct perf_file *file = perf_maps_file(maps, user, now_ns, PERF_MAPS_AGE_NS);
    return file && !file->behind && file->map.n ? &file->map : NULL;
}

bool perf_maps_find(struct perf_maps *maps, struct perf_user user, uint64_t now_ns,
                    uint64_t address, struct perf_map_range *range)
{
    return perf_file_find(perf_maps_file(maps, user, now_ns, PERF_MAPS_AGE_NS), address, range) ||
           perf_file_find(perf_maps_file(maps, user, now_ns, PERF_MAPS_RETRY_NS), address, range);
}

static void perf_maps_remove_left(struct perf_maps *maps, uint64_t now_ns)
{
    struct list *link;
    while ((link = list_first(&maps->left))) {
        struct perf_file *file = container_of(link, struct perf_file, left);
        if (now_ns - file->left_ns < PERF_MAPS_LEFT_NS)
            return;
        perf_file_remove(maps, file);
    }
}

void perf_maps_left(struct perf_maps *maps, uint32_t pid, uint64_t now_ns)
{
    perf_maps_remove_left(maps, now_ns);
    struct perf_file *file = map_get(&maps->by_pid, &pid);
    if (!file || list_linked(&file->left))
        return;
    file->left_ns = now_ns;
    list_append(&maps->left, &file->left);
}

void perf_maps_forget(struct perf_maps *maps, uint32_t pid)
{
    struct perf_file *file = map_get(&maps->by_pid, &pid);
    if (file)
        perf_file_remove(maps, file);
}

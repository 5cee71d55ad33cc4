/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches parts of the durability path off and on while the service runs, in a program that is
 * linked for bench_durability.py alone. The linker puts __wrap_x() in place of x() (-Wl,--wrap), so
 * the product has no line for it. SPANPROF_BENCH_SWITCHES names a file of struct switches, which
 * the bench and the service map.
 */
#include "store/db/db.h"
#include "store/outbox/outbox_bodies.h"
#include "store/outbox/outbox_handoff.h"
#include "store/store.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define log_write wal_vfs_write /* base/log.h has a function of this name */
#include "store/db/wal_vfs.c"   /* for its struct; the library's copy is then not linked */
#undef log_write

#define ALTERNATE_TRANSACTIONS 7

enum part { HANDOFF = 1, RECYCLING = 2, ONE_WRITE = 4 };

struct switches {
    /* Written by the bench: masks of parts. */
    _Atomic uint64_t off;
    _Atomic uint64_t alternating; /* off in every other group of transactions */
    /* Written by the service. */
    _Atomic uint64_t items;                              /* put into the outbox */
    _Atomic uint64_t pages;                              /* written to the store's log */
    _Atomic uint64_t transactions[2], transaction_ns[2]; /* CPU time; [1]: alternating parts off */
};

static struct switches *switches;

__attribute__((constructor)) static void switches_map(void)
{
    const char *path = getenv("SPANPROF_BENCH_SWITCHES");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(*switches), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    if (at == MAP_FAILED) {
        fprintf(stderr, "SPANPROF_BENCH_SWITCHES names no file\n");
        exit(1);
    }
    switches = at;
}

/* Writer: whether the group of the transaction is one with the alternating parts off. */
static bool alternate;

static bool is_off(enum part part)
{
    return (switches->off | (alternate ? switches->alternating : 0)) & part;
}

/* `INSTEAD(result, name, parameters) {...}` replaces name(), which __real_name() still calls. */
#define INSTEAD(result, name, ...)                                                                 \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

/* ---- HANDOFF: each request is read back from the store ---- */

INSTEAD(void, outbox_handoff_open, struct outbox_handoff *handoff, struct outbox_handoff_read *read)
{
    __real_outbox_handoff_open(handoff, read);
    if (is_off(HANDOFF))
        outbox_handoff_close(handoff);
}

INSTEAD(int, outbox_handoff_take, struct outbox_handoff *handoff,
        const struct outbox_handoff_want *want, struct list *taken, bool *more)
{
    if (is_off(HANDOFF))
        outbox_handoff_close(handoff);
    return __real_outbox_handoff_take(handoff, want, taken, more);
}

/* ---- RECYCLING: a body is inserted as it is, and deleted when its request has left ---- */

INSTEAD(int, outbox_bodies_put, struct outbox_bodies *bodies, enum signal signal, int64_t new_id,
        struct bytes body, int64_t *id)
{
    if (!is_off(RECYCLING))
        return __real_outbox_bodies_put(bodies, signal, new_id, body, id);
    *id = new_id;
    sqlite3_bind_int64(bodies->put, 1, new_id);
    sqlite3_bind_blob64(bodies->put, 2, body.data, body.len, SQLITE_STATIC);
    int error = db_run(bodies->db, bodies->put);
    sqlite3_clear_bindings(bodies->put);
    return error;
}

INSTEAD(int, outbox_bodies_recycle, struct outbox_bodies *bodies, enum signal signal, int64_t id,
        size_t size)
{
    return is_off(RECYCLING) ? 0 : __real_outbox_bodies_recycle(bodies, signal, id, size);
}

/* ---- ONE_WRITE: SQLite writes to the log itself; a pragma asks for the file's size ---- */

static int switched_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    struct wal_file *log = vfs_own(file);
    if (is_off(ONE_WRITE) && !log->len)
        return log->real->pMethods->xWrite(log->real, data, size, at);
    return wal_vfs_write(file, data, size, at);
}

INSTEAD(int, store_open, const struct store_settings *settings, struct store **store)
{
    static sqlite3_io_methods switched;
    sqlite3_file *log = NULL;
    int error = __real_store_open(settings, store);
    if (error)
        return error;
    sqlite3_file_control(db_handle(store_db(*store)), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (!log || log->pMethods != &methods)
        abort();
    switched = methods;
    switched.xWrite = switched_write;
    log->pMethods = &switched;
    return 0;
}

/* ---- what was done ---- */

static uint64_t thread_cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t transaction_began_ns;

INSTEAD(int, db_begin, struct db *db)
{
    static unsigned n;
    if (++n % ALTERNATE_TRANSACTIONS == 0)
        alternate = !alternate;
    transaction_began_ns = thread_cpu_ns();
    return __real_db_begin(db);
}

INSTEAD(int, db_commit, struct db *db)
{
    int pages = 0, most, error = __real_db_commit(db);
    switches->transaction_ns[alternate] += thread_cpu_ns() - transaction_began_ns;
    switches->transactions[alternate]++;
    if (db_handle(db))
        sqlite3_db_status(db_handle(db), SQLITE_DBSTATUS_CACHE_WRITE, &pages, &most, 0);
    switches->pages = (uint64_t)pages;
    return error;
}

INSTEAD(int, outbox_put, struct outbox *outbox, enum signal signal, uint64_t items,
        uint32_t destinations, struct bytes body)
{
    switches->items += items;
    return __real_outbox_put(outbox, signal, items, destinations, body);
}

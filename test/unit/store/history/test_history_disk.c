/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history on a disk that others fill: it gives way, and no more of it than helps. The disk is a
 * small tmpfs in a mount namespace of its own, so this needs root.
 */
#include "base/stats.h"
#include "store/db/db.h"
#include "test/support/fixtures/history_fixture.h"
#include "test/support/fixtures/history_load.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB          (UINT64_C(1) << 20)
#define WINDOWS      60
#define OTHERS_BYTES (2 * MIB) /* a quarter of the history's limit is left to others */
#define DISK_PART    20        /* of the disk is the store's reserve */
#define EXIT_SKIPPED 77

struct disk {
    struct fixture fixture;
    int ballast;
    uint64_t ballast_bytes;
};

static uint64_t now_unix_ns = FIXTURE_T0;

/* The store itself does it each 4 MiB and 5 s. */
static void copy_log(struct fixture *fixture)
{
    assert_int_equal(db_exec(store_db(fixture->store), "PRAGMA wal_checkpoint"), 0);
}

static int set_up(void **state)
{
    static struct disk disk;
    struct history_load load;
    struct fixture *fixture = &disk.fixture;
    fixture_make(fixture);
    assert_int_equal(mount("tmpfs", fixture->directory, "tmpfs", 0, "size=96m"), 0);
    fixture->settings.history.max_size_bytes = 4 * OTHERS_BYTES;
    fixture_open(fixture);
    disk.ballast = open(fixture_path(fixture, "ballast"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(disk.ballast >= 0);
    assert_int_equal(
        history_load_open(fixture->store, &(struct history_load_settings){4, 97, 1}, &load), 0);
    for (unsigned i = 0; i < WINDOWS; i++, now_unix_ns += HISTORY_LOAD_WINDOW_NS) {
        assert_int_equal(history_load_window(&load, now_unix_ns), 0);
        copy_log(fixture);
    }
    history_load_close(&load);
    *state = &disk;
    return 0;
}

static int tear_down(void **state)
{
    struct disk *disk = *state;
    close(disk->ballast);
    fixture_close(&disk->fixture);
    int error = umount(disk->fixture.directory);
    rmdir(disk->fixture.directory);
    return error;
}

/* Others fill the disk, until so much is free beyond the store's reserve. */
static void fill_disk(struct disk *disk, uint64_t free_bytes)
{
    struct statvfs status;
    assert_int_equal(fstatvfs(disk->ballast, &status), 0);
    uint64_t left = (uint64_t)status.f_blocks * status.f_frsize / DISK_PART + free_bytes;
    uint64_t available = (uint64_t)status.f_bavail * status.f_frsize;
    if (available <= left)
        return;
    uint64_t more = (available - left) / 4096 * 4096;
    if (more)
        assert_int_equal(posix_fallocate(disk->ballast, (off_t)disk->ballast_bytes, (off_t)more),
                         0);
    disk->ballast_bytes += more;
}

static unsigned blocks(struct disk *disk)
{
    return history_count(&disk->fixture, "SELECT count(*) FROM history_block");
}

static uint64_t history_bytes(void)
{
    return (uint64_t)stats_find("spanprof_history_bytes", "");
}

static int64_t given_way(void)
{
    return stats_find("spanprof_history_blocks_expired_total", "reason=\"store_short\"");
}

/* As so many seconds do it. */
static void tidy(struct disk *disk, unsigned seconds, bool maintain)
{
    for (unsigned i = 0; i < seconds; i++) {
        history_tidy(&disk->fixture, now_unix_ns);
        if (maintain)
            assert_int_equal(store_maintain(disk->fixture.store), 0);
    }
}

static void test_nothing_goes_while_there_is_room(void **state)
{
    struct disk *disk = *state;
    assert_true(history_bytes() > OTHERS_BYTES * 3 / 2);
    fill_disk(disk, 2 * OTHERS_BYTES);
    tidy(disk, 20, true);
    assert_int_equal(blocks(disk), WINDOWS);
}

/* As much as others need lies free in the file then, and the rest stays. */
static void test_as_much_goes_as_helps(void **state)
{
    struct disk *disk = *state;
    uint64_t before = history_bytes();
    int64_t given_before = given_way();
    fill_disk(disk, MIB);
    tidy(disk, 60, true);
    assert_in_range(before - history_bytes(), OTHERS_BYTES / 2, OTHERS_BYTES * 3 / 2);
    unsigned left = blocks(disk);
    assert_in_range(left, 1, WINDOWS - 1);
    assert_int_equal(given_way() - given_before, WINDOWS - left);
}

/* What was deleted is given back to the disk, and others can store again. */
static void test_there_is_room_for_others(void **state)
{
    static uint8_t body[MIB / 2];
    struct disk *disk = *state;
    struct fixture *fixture = &disk->fixture;
    fill_disk(disk, 0);
    fixture_begin(fixture);
    assert_false(db_has_room(store_db(fixture->store)));
    assert_int_equal(
        outbox_put(store_outbox(fixture->store), SIGNAL_LOGS, 1, 1, BYTES(body, sizeof(body))),
        -ENOSPC);
    fixture_commit(fixture);
    tidy(disk, 20, true);
    assert_true(blocks(disk) > 0);
    fixture_begin(fixture);
    assert_int_equal(
        outbox_put(store_outbox(fixture->store), SIGNAL_LOGS, 1, 1, BYTES(body, sizeof(body))), 0);
    fixture_commit(fixture);
}

/* The outbox comes before the history to the end. */
static void test_all_goes_if_it_must(void **state)
{
    struct disk *disk = *state;
    for (unsigned i = 0; i < 200 && blocks(disk); i++) {
        fill_disk(disk, 0);
        tidy(disk, 1, true);
    }
    assert_int_equal(blocks(disk), 0);
    assert_int_equal(history_count(&disk->fixture, "SELECT count(*) FROM history_part"), 0);
    assert_int_equal(history_count(&disk->fixture, "SELECT count(*) FROM outbox WHERE seq > 0"), 1);
}

int main(void)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        perror("skipped: no mount namespace of its own");
        return EXIT_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_goes_while_there_is_room),
        cmocka_unit_test(test_as_much_goes_as_helps),
        cmocka_unit_test(test_there_is_room_for_others),
        cmocka_unit_test(test_all_goes_if_it_must),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

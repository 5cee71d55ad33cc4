/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader against the real ring, under load and without rights, and against a memory file laid
 * out like one, where a record can be busy, discarded or broken at will.
 */
#include "bpf_test.h"
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/drain/ring.h"
#include "agent-bpf/sampler/sampler.h"
#include "test/support/fixtures/skip.h"
#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE      4096
#define FAKE_SIZE ((size_t)PAGE)

/* ---- a ring made of a memory file ---- */

struct fake {
    int fd;
    uint8_t *memory; /* consumer page, producer page, data twice */
    struct ring *ring;
    uint64_t produced;
};

struct seen {
    uint64_t n;
    uint32_t last_cpu;
    uint64_t last_time_ns;
    uint64_t backwards;
};

static void note(void *context, const struct record_header *record)
{
    struct seen *seen = context;
    seen->n++;
    seen->last_cpu = record->cpu;
    seen->last_time_ns = record->time_ns;
}

static void fake_open(struct fake *fake)
{
    fake->fd = memfd_create("ring", MFD_CLOEXEC);
    assert_true(fake->fd >= 0);
    assert_int_equal(ftruncate(fake->fd, 2 * PAGE + 2 * (off_t)FAKE_SIZE), 0);
    fake->memory =
        mmap(NULL, 2 * PAGE + 2 * FAKE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fake->fd, 0);
    assert_true(fake->memory != MAP_FAILED);
    assert_int_equal(ring_open(fake->fd, FAKE_SIZE, &fake->ring), 0);
    fake->produced = 0;
}

static void fake_close(struct fake *fake)
{
    ring_close(fake->ring);
    munmap(fake->memory, 2 * PAGE + 2 * FAKE_SIZE);
    close(fake->fd);
}

static uint64_t fake_consumed(const struct fake *fake)
{
    uint64_t consumed;
    memcpy(&consumed, fake->memory, sizeof(consumed));
    return consumed;
}

static void fake_byte(struct fake *fake, uint64_t position, uint8_t byte)
{
    size_t at = position & (FAKE_SIZE - 1);
    fake->memory[2 * PAGE + at] = byte;
    fake->memory[2 * PAGE + at + FAKE_SIZE] = byte; /* as the kernel maps it */
}

static void fake_write(struct fake *fake, uint64_t position, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        fake_byte(fake, position + i, ((const uint8_t *)data)[i]);
}

static uint64_t fake_put(struct fake *fake, const void *data, uint32_t size, uint32_t flags)
{
    uint64_t position = fake->produced;
    uint32_t header[2] = {size | flags, 0};
    fake_write(fake, position, header, sizeof(header));
    fake_write(fake, position + sizeof(header), data, size);
    fake->produced += (sizeof(header) + size + 7) & ~UINT64_C(7);
    memcpy(fake->memory + PAGE, &fake->produced, sizeof(fake->produced));
    return position;
}

struct sample {
    struct record_header header;
    uint64_t words[3];
};

static struct sample some_sample(uint32_t cpu)
{
    struct sample sample = {.header = {.size = sizeof(sample),
                                       .kind = RECORD_CPU,
                                       .cpu = cpu,
                                       .kernel_words = 1,
                                       .user_words = 2}};
    return sample;
}

static void put_sample(struct fake *fake, uint32_t cpu)
{
    struct sample sample = some_sample(cpu);
    fake_put(fake, &sample, sizeof(sample), 0);
}

static void test_wraps_around(void **state)
{
    struct fake fake;
    struct seen seen = {0};
    struct ring_counts counts;
    (void)state;
    fake_open(&fake);
    for (uint32_t i = 0; i < 1000; i++) {
        put_sample(&fake, i);
        assert_int_equal(ring_drain(fake.ring, ring_position(fake.ring), note, &seen, &counts), 0);
        assert_int_equal(counts.records, 1);
        assert_int_equal(counts.bytes, sizeof(struct sample));
        assert_int_equal(seen.last_cpu, i);
    }
    assert_int_equal(fake_consumed(&fake), fake.produced);
    fake_close(&fake);
}

static void test_stops_at_the_position(void **state)
{
    struct fake fake;
    struct seen seen = {0};
    (void)state;
    fake_open(&fake);
    put_sample(&fake, 1);
    put_sample(&fake, 2);
    uint64_t until = ring_position(fake.ring);
    put_sample(&fake, 3);
    assert_int_equal(ring_drain(fake.ring, until, note, &seen, NULL), 0);
    assert_int_equal(seen.n, 2);
    assert_int_equal(ring_drain(fake.ring, until, note, &seen, NULL), 0);
    assert_int_equal(seen.n, 2);
    assert_int_equal(ring_drain(fake.ring, UINT64_MAX, note, &seen, NULL), 0);
    assert_int_equal(seen.n, 3);
    fake_close(&fake);
}

static void *commit_later(void *argument)
{
    struct fake *fake = argument;
    struct timespec moment = {.tv_nsec = 300000};
    nanosleep(&moment, NULL);
    _Atomic uint32_t *word = (void *)(fake->memory + 2 * PAGE);
    atomic_fetch_and(word, ~BPF_RINGBUF_BUSY_BIT);
    return NULL;
}

static void test_waits_for_a_busy_record(void **state)
{
    struct fake fake;
    struct seen seen = {0};
    struct sample sample = some_sample(7);
    (void)state;
    fake_open(&fake);
    fake_put(&fake, &sample, sizeof(sample), BPF_RINGBUF_BUSY_BIT);
    put_sample(&fake, 8);
    uint64_t begin = clock_monotonic_ns();
    assert_int_equal(ring_drain(fake.ring, fake.produced, note, &seen, NULL), RING_BUSY);
    assert_true(clock_monotonic_ns() - begin >= RING_SPIN_NS);
    assert_int_equal(seen.n, 0);
    assert_int_equal(fake_consumed(&fake), 0);
    pthread_t committer;
    int r = RING_BUSY; /* a busy machine may wake the committer late */
    assert_int_equal(pthread_create(&committer, NULL, commit_later, &fake), 0);
    for (int i = 0; i < 1000 && r == RING_BUSY; i++)
        r = ring_drain(fake.ring, fake.produced, note, &seen, NULL);
    pthread_join(committer, NULL);
    assert_int_equal(r, 0);
    assert_int_equal(seen.n, 2);
    assert_int_equal(seen.last_cpu, 8);
    fake_close(&fake);
}

static void test_discarded_and_malformed_are_passed_over(void **state)
{
    struct fake fake;
    struct seen seen = {0};
    struct ring_counts counts;
    (void)state;
    fake_open(&fake);
    struct sample discarded = some_sample(1), broken[6];
    fake_put(&fake, &discarded, sizeof(discarded), BPF_RINGBUF_DISCARD_BIT);
    for (int i = 0; i < 6; i++)
        broken[i] = some_sample(2);
    broken[0].header.size -= 8;
    broken[1].header.kind = 0;
    broken[2].header.kind = RECORD_EVENT + 1;
    broken[3].header.user_words = RECORD_MAX_USER_FRAMES + 1;
    broken[4].header.attributes_size = 8;
    broken[5].header.kernel_words = 2;
    for (int i = 0; i < 6; i++)
        fake_put(&fake, &broken[i], sizeof(broken[i]), 0);
    fake_put(&fake, &discarded, 16, 0); /* shorter than a header */
    put_sample(&fake, 9);
    assert_int_equal(ring_drain(fake.ring, fake.produced, note, &seen, &counts), 0);
    assert_int_equal(counts.malformed, 7);
    assert_int_equal(counts.records, 1);
    assert_int_equal(seen.last_cpu, 9);
    fake_close(&fake);
}

static void test_a_length_beyond_the_ring_ends_the_drain(void **state)
{
    struct fake fake;
    struct seen seen = {0};
    struct ring_counts counts;
    uint32_t header[2] = {0x3fffffff, 0};
    (void)state;
    fake_open(&fake);
    put_sample(&fake, 1);
    fake_write(&fake, fake.produced, header, sizeof(header));
    put_sample(&fake, 2);
    fake_write(&fake, sizeof(struct sample) + 8, header, sizeof(header));
    assert_int_equal(ring_drain(fake.ring, fake.produced, note, &seen, &counts), 0);
    assert_int_equal(counts.malformed, 1);
    assert_int_equal(seen.n, 1);
    put_sample(&fake, 3); /* and goes on behind it */
    assert_int_equal(ring_drain(fake.ring, fake.produced, note, &seen, &counts), 0);
    assert_int_equal(seen.n, 2);
    fake_close(&fake);
}

static void test_sizes_that_cannot_be(void **state)
{
    struct ring *ring = NULL;
    (void)state;
    assert_int_equal(ring_open(-1, PAGE, &ring), -EBADF);
    assert_int_equal(ring_open(-1, PAGE + 8, &ring), -EINVAL);
    assert_int_equal(ring_open(-1, 16, &ring), -EINVAL);
    assert_null(ring);
}

static void test_addresses_come_back(void **state)
{
    (void)state;
    uint64_t kernel = (uint64_t)FRAME_KERNEL << RECORD_FRAME_SHIFT | 0x00ffffff81234567ULL;
    uint64_t user = (uint64_t)FRAME_NATIVE << RECORD_FRAME_SHIFT | 0x00007fff12345678ULL;
    assert_int_equal(record_frame_address(kernel), 0xffffffff81234567ULL);
    assert_int_equal(record_frame_kind(kernel), FRAME_KERNEL);
    assert_int_equal(record_frame_address(user), 0x00007fff12345678ULL);
}

/* ---- the real one ---- */

struct real {
    struct sampler *sampler;
    struct cpu_events cpus;
};

static bool real_open(struct real *real)
{
    char why[SAMPLER_DIAGNOSIS_MAX];
    struct sampler_settings settings = {.frequency_hz = 1000, .ring_size_bytes = 1 << 20};
    if (!bpf_test_possible())
        return false;
    if (sampler_open(&settings, &real->sampler, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    assert_int_equal(cpu_events_open(&real->cpus, real->sampler), 0);
    return true;
}

static void real_close(struct real *real)
{
    cpu_events_close(&real->cpus);
    sampler_close(real->sampler);
}

static _Atomic bool stop_burning;

static void *burn(void *argument)
{
    while (!stop_burning)
        ;
    return argument;
}

/* Whatever was stamped before the position was taken, with some margin, has come with the drain. */
static void test_drain_reaches_the_position_under_load(void **state)
{
    struct real real;
    struct ring *ring;
    pthread_t burners[3];
    uint64_t records = 0;
    (void)state;
    if (!real_open(&real))
        skip_because("no sampler can be opened");
    assert_int_equal(
        ring_open(sampler_ring_fd(real.sampler), sampler_ring_size(real.sampler), &ring), 0);
    stop_burning = false;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&burners[i], NULL, burn, NULL), 0);
    for (int i = 0; i < 500; i++) {
        struct seen seen = {0}, again = {0};
        struct ring_counts counts;
        uint64_t until = ring_position(ring);
        int r = ring_drain(ring, until, note, &seen, &counts);
        assert_int_equal(counts.malformed, 0);
        if (r == 0)
            assert_int_equal(ring_drain(ring, until, note, &again, NULL), 0);
        assert_int_equal(again.n, 0);
        records += seen.n;
        sleep_ms(2);
    }
    stop_burning = true;
    for (int i = 0; i < 3; i++)
        pthread_join(burners[i], NULL);
    assert_true(records > 300);
    ring_close(ring);
    real_close(&real);
}

static int drain_as_nobody(int fd, size_t size)
{
    struct ring *ring = NULL;
    struct seen seen = {0};
    if (setgid(65534) < 0 || setuid(65534) < 0 || ring_open(fd, size, &ring) < 0)
        return 1;
    uint64_t end = clock_monotonic_ns() + NS_PER_SEC / 2;
    while (clock_monotonic_ns() < end)
        ring_drain(ring, ring_position(ring), note, &seen, NULL);
    ring_close(ring);
    return seen.n > 50 ? 0 : 2;
}

static void test_drained_without_any_right(void **state)
{
    struct real real;
    (void)state;
    if (!real_open(&real))
        skip_because("no sampler can be opened");
    pid_t pid = fork();
    if (pid == 0)
        _exit(drain_as_nobody(sampler_ring_fd(real.sampler), sampler_ring_size(real.sampler)));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    real_close(&real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wraps_around),
        cmocka_unit_test(test_stops_at_the_position),
        cmocka_unit_test(test_waits_for_a_busy_record),
        cmocka_unit_test(test_discarded_and_malformed_are_passed_over),
        cmocka_unit_test(test_a_length_beyond_the_ring_ends_the_drain),
        cmocka_unit_test(test_sizes_that_cannot_be),
        cmocka_unit_test(test_addresses_come_back),
        cmocka_unit_test(test_drain_reaches_the_position_under_load),
        cmocka_unit_test(test_drained_without_any_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

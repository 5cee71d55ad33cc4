/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes what no good program would, by driving the context ABIs by hand
 * (context/context_layout.h): a reader must neither stumble nor take ids that were not whole and
 * valid. Each thread writes a line
 *     {"type":"thread", "tid", "mode", "allowed":[["trace","span"], ...]}
 * with the only ids that its samples may carry; none if the list is empty.
 * With --process the process context itself is garbage, and changes all the time.
 */
#include "context/context_layout.h"
#include "test/support/workloads/workload_burn.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PAGE        4096u
#define PAYLOAD_MAX 65536u
#define CPU_MIN_NS  UINT64_C(1000000000) /* of each thread: ticks enough, also on a busy machine */

/* The ABI's symbol: found by name in .dynsym, read through the thread pointer. */
extern _Thread_local const volatile void *otel_thread_ctx_v1;
__attribute__((visibility("default"))) _Thread_local const volatile void *otel_thread_ctx_v1;

struct text {
    uint8_t data[PAYLOAD_MAX];
    size_t size;
};

static uint64_t deadline_ns, cpu_min_ns;
static volatile struct otel_process_header *header;
static struct text good_payload;

static void put(struct text *out, uint8_t tag, const void *data, size_t size)
{
    out->data[out->size++] = tag;
    if (size >= 0x80)
        out->data[out->size++] = (uint8_t)(size | 0x80);
    out->data[out->size++] = (uint8_t)(size >= 0x80 ? size >> 7 : size);
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void put_pair(struct text *out, const char *key, const struct text *value)
{
    struct text *pair = calloc(1, sizeof(*pair));
    if (!pair)
        abort();
    put(pair, 0x0a, key, strlen(key));
    put(pair, 0x12, value->data, value->size);
    put(out, 0x12, pair->data, pair->size);
    free(pair);
}

/* ProcessContext.attributes without which nobody would look at the thread records. */
static void make_good_payload(void)
{
    static struct text schema, name, array, keys;
    put(&schema, 0x0a, OTEL_THREAD_SCHEMA_DEV, strlen(OTEL_THREAD_SCHEMA_DEV));
    put(&name, 0x0a, "role", 4);
    put(&array, 0x0a, name.data, name.size);
    put(&keys, 0x2a, array.data, array.size);
    put_pair(&good_payload, OTEL_THREAD_SCHEMA_KEY, &schema);
    put_pair(&good_payload, OTEL_THREAD_KEY_MAP_KEY, &keys);
}

static void publish_process(void)
{
    int fd = memfd_create(OTEL_PROCESS_NAME, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, PAGE))
        exit(1);
    header = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (header == MAP_FAILED)
        exit(1);
    memcpy((void *)header->signature, OTEL_PROCESS_SIGNATURE, 8);
    header->version = OTEL_PROCESS_VERSION;
    header->payload_size = (uint32_t)good_payload.size;
    header->payload = (uint64_t)good_payload.data;
    atomic_thread_fence(memory_order_seq_cst);
    header->published_at_ns = burn_wall_ns();
    prctl(0x53564d41, 0, header, PAGE, OTEL_PROCESS_NAME);
}

static const char *hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    return text;
}

static void tell(const char *mode, const struct otel_thread_record *const *allowed)
{
    char line[512];
    int length =
        snprintf(line, sizeof(line),
                 "{\"type\":\"thread\",\"tid\":%d,\"mode\":\"%s\",\"allowed\":[", gettid(), mode);
    for (int i = 0; allowed[i]; i++) {
        char trace[33], span[17];
        length += snprintf(line + length, sizeof(line) - (size_t)length, "%s[\"%s\",\"%s\"]",
                           i ? "," : "", hex(allowed[i]->trace_id, 16, trace),
                           hex(allowed[i]->span_id, 8, span));
    }
    printf("%s]}\n", line);
}

/* A page that is followed by one that cannot be read. */
static uint8_t *page_before_hole(void)
{
    uint8_t *pages =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE))
        exit(1);
    return pages;
}

static struct otel_thread_record *random_record(void *at, uint8_t valid)
{
    struct otel_thread_record *record = at;
    if (getrandom(record, sizeof(*record), 0) != sizeof(*record))
        exit(1);
    record->valid = valid;
    record->trace_flags = 1;
    record->attributes_size = 0;
    return record;
}

static bool time_is_left(void)
{
    return burn_wall_ns() < deadline_ns || burn_thread_cpu_ns() < cpu_min_ns;
}

/* Busy, so that ticks fall here; and now and then asleep, so that others get on. */
static void work(unsigned function)
{
    burn(function, 200000, UINT64_MAX);
    if (burn_wall_ns() / 1000000 % 4 == 0)
        burn_sleep_until(burn_wall_ns() + 3000000);
}

static void *wild_pointers(void *unused)
{
    static const struct otel_thread_record *const none[] = {NULL};
    uint8_t *page = page_before_hole();
    uint64_t kernel = 0xffffffff81000000u, hole = (uint64_t)page + PAGE;
    uint64_t wild[] = {1,
                       8,
                       PAGE - 1,
                       0x7fffffffffffu,
                       0x800000000000u,
                       kernel,
                       UINT64_MAX,
                       UINT64_MAX - 27,
                       hole,
                       hole - 27,
                       hole - 24,
                       hole - 16,
                       0xdeadbeefdeadbeefu,
                       (uint64_t)1 << 63};
    memset(page, 1, PAGE); /* what is readable of a record at the edge would be valid */
    tell("pointers", none);
    for (unsigned i = 0; time_is_left(); i++) {
        otel_thread_ctx_v1 = (const volatile void *)wild[i % (sizeof(wild) / sizeof(wild[0]))];
        work(0);
    }
    otel_thread_ctx_v1 = NULL;
    return unused;
}

static void *invalid_records(void *unused)
{
    static const struct otel_thread_record *const none[] = {NULL};
    static struct otel_thread_record records[4];
    random_record(&records[0], 0);
    random_record(&records[1], 2);
    random_record(&records[2], 255);
    random_record(&records[3], 1);
    memset(records[3].trace_id, 0, 16); /* one id without the other */
    tell("invalid", none);
    for (unsigned i = 0; time_is_left(); i++) {
        otel_thread_ctx_v1 = &records[i % 4];
        work(1);
    }
    otel_thread_ctx_v1 = NULL;
    return unused;
}

/* As the ABI allows, but as fast as it goes: a mixture of the two must never be seen. */
static void *changing_record(void *unused)
{
    static _Alignas(8) struct otel_thread_record first, second;
    static _Alignas(8) volatile struct otel_thread_record shown;
    const struct otel_thread_record *const allowed[] = {random_record(&first, 1),
                                                        random_record(&second, 1), NULL};
    shown.trace_flags = 1;
    otel_thread_ctx_v1 = &shown;
    tell("changing", allowed);
    for (unsigned i = 0; time_is_left(); i++) {
        for (unsigned j = 0; j < 2000; j++) {
            const struct otel_thread_record *next = allowed[(i + j) % 2];
            shown.valid = 0;
            for (unsigned k = 0; k < 16; k++)
                shown.trace_id[k] = next->trace_id[k];
            for (unsigned k = 0; k < 8; k++)
                shown.span_id[k] = next->span_id[k];
            shown.valid = 1;
            for (volatile unsigned k = 0; k < 20; k++)
                continue; /* as long whole as torn: a tick is to strike both */
        }
        if (i % 100 == 0)
            burn_sleep_until(burn_wall_ns() + 3000000);
    }
    otel_thread_ctx_v1 = NULL;
    return unused;
}

/* Whole ids, but attributes that go on past the end of memory, or are garbage. */
static void *endless_attributes(void *unused)
{
    uint8_t *page = page_before_hole();
    struct otel_thread_record *edge =
        random_record(page + PAGE - sizeof(struct otel_thread_record), 1);
    struct otel_thread_record *garbage = random_record(page, 1);
    const struct otel_thread_record *const allowed[] = {edge, garbage, NULL};
    edge->attributes_size = UINT16_MAX;
    garbage->attributes_size = 2048;
    if (getrandom(garbage->attributes, 2048, 0) != 2048)
        exit(1);
    tell("attributes", allowed);
    for (unsigned i = 0; time_is_left(); i++) {
        otel_thread_ctx_v1 = allowed[i % 2];
        work(3);
    }
    otel_thread_ctx_v1 = NULL;
    return unused;
}

static void *whole_record(void *unused)
{
    static _Alignas(8) struct otel_thread_record record;
    const struct otel_thread_record *const allowed[] = {random_record(&record, 1), NULL};
    otel_thread_ctx_v1 = &record;
    tell("whole", allowed);
    while (time_is_left())
        work(2);
    otel_thread_ctx_v1 = NULL;
    return unused;
}

/* 20,000 levels of AnyValue.kvlist in one another. */
static void fill_bomb(struct text *bomb)
{
    bomb->size = PAYLOAD_MAX - 8;
    for (size_t i = 0; i + 3 <= bomb->size; i += 3) {
        size_t left = bomb->size - i - 3;
        bomb->data[i] = 0x12;
        bomb->data[i + 1] = (uint8_t)(left | 0x80);
        bomb->data[i + 2] = (uint8_t)(left >> 7 & 0x7f);
    }
}

/* Sizes, pointers, versions and times of the process context, in all wrong combinations. */
static void *garbage_process(void *unused)
{
    static struct text bomb, noise;
    const uint64_t pointers[] = {
        (uint64_t)good_payload.data, (uint64_t)bomb.data, 0, 1, 0xffffffff81000000u,
        (uint64_t)noise.data,        UINT64_MAX - 100};
    const uint32_t sizes[] = {
        (uint32_t)good_payload.size, UINT32_MAX, 0, 1, PAYLOAD_MAX - 8, 1u << 31};
    fill_bomb(&bomb);
    unsigned seed = 1;
    for (unsigned i = 0; time_is_left(); i++) {
        for (unsigned j = 0; j < sizeof(noise.data); j += 61)
            noise.data[j] = (uint8_t)rand_r(&seed);
        header->published_at_ns = i % 3 ? burn_wall_ns() : 0;
        header->payload = pointers[(unsigned)rand_r(&seed) % 7];
        header->payload_size = sizes[(unsigned)rand_r(&seed) % 6];
        header->version = i % 50 ? OTEL_PROCESS_VERSION : i;
        header->published_at_ns = burn_wall_ns();
        if (i % 10 == 0) { /* a new name, as an update would give: readers look again */
            prctl(0x53564d41, 0, header, PAGE, OTEL_PROCESS_NAME);
            burn_sleep_until(burn_wall_ns() + 1000000);
        }
    }
    return unused;
}

static void run_threads(void *(*const *threads)(void *), size_t n)
{
    pthread_t started[8];
    for (size_t i = 0; i < n; i++)
        if (pthread_create(&started[i], NULL, threads[i], NULL))
            exit(1);
    for (size_t i = 0; i < n; i++)
        pthread_join(started[i], NULL);
}

int main(int argc, char **argv)
{
    static void *(*const of_threads[])(void *) = {wild_pointers, invalid_records, changing_record,
                                                  endless_attributes, whole_record};
    static void *(*const of_process[])(void *) = {garbage_process, whole_record};
    bool process = argc > 1 && !strcmp(argv[1], "--process");
    double seconds = argc > 1 ? atof(argv[argc - 1]) : 0;
    if (seconds <= 0)
        return fprintf(stderr, "usage: workload_hostile [--process] SECONDS\n"), 2;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    deadline_ns = burn_wall_ns() + (uint64_t)(seconds * 1e9);
    make_good_payload();
    publish_process();
    cpu_min_ns = process ? 0 : CPU_MIN_NS;
    if (process)
        run_threads(of_process, 2);
    else
        run_threads(of_threads, 5);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers that lie (test/integration/contexts/test_hostile_contexts.py):
 *     publisher_hostile --mode MODE --publish ABI=LIBRARY [--seconds N] [--path PATH]
 *                       [--root DIRECTORY] [--uid N]
 *     wild      pointers to nowhere, sizes of 4 GB, in each place of the ABI's structures
 *     torn      a second thread changes the first one's record without pause: each pair of ids
 *               comes from one number (put_number())
 *     crowd     10,000 threads, each with a span of its own, of which some work one by one
 *     agent     Elastic: the process storage names the socket PATH; nobody here listens there
 *     storage   Elastic: wild pointers and sizes of 4 GB in the process storage
 *     fuse-storage, fuse-payload, fuse-environment
 *               what a reader looks for lies on a FUSE mount (at PATH) that never answers
 * root, uid: where and as whom it goes on once the library is loaded. Writes "on" and "off" as
 * publisher.c does, {"type":"torn", "tid"}, {"type":"skip", "reason"}, and {"type":"ready", "pid"}
 * when it has begun.
 */
#include "test/support/publishers/publisher_agent.h"
#include "test/support/publishers/publisher_fuse.h"
#include "test/support/publishers/publisher_process.h"
#include "test/support/publishers/publisher_record.h"
#include "test/support/publishers/publisher_slot.h"
#include "test/support/workloads/workload_burn.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE        4096u
#define MS          1000000u
#define CROWD       10000
#define CROWD_STACK (32 * 1024)
#define CROWD_IDLE  7 /* one of so many works */

static enum publisher_abi abi;
static struct publisher_slot slot;
static uint64_t deadline_ns;
static const char *path = "";
static const char *const keys[] = {"route"};

static int tid(void)
{
    return (int)syscall(SYS_gettid);
}

static bool time_is_left(void)
{
    return burn_wall_ns() < deadline_ns;
}

static void tell_off(uint64_t from)
{
    printf("{\"type\":\"off\",\"tid\":%d,\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n", tid(), from,
           burn_unix_ns());
}

static void tell_on(const struct publisher_span *span, uint64_t from, uint64_t to)
{
    const uint8_t *t = span->trace_id, *s = span->span_id, *r = span->root_id;
    printf("{\"type\":\"on\",\"tid\":%d,\"trace_id\":\"", tid());
    for (int i = 0; i < 16; i++)
        printf("%02x", t[i]);
    printf("\",\"span_id\":\"%02x%02x%02x%02x%02x%02x%02x%02x\",\"root_id\":\"", s[0], s[1], s[2],
           s[3], s[4], s[5], s[6], s[7]);
    printf("%02x%02x%02x%02x%02x%02x%02x%02x\",\"attributes\":{\"route\":\"%s\"},", r[0], r[1],
           r[2], r[3], r[4], r[5], r[6], r[7], span->route);
    printf("\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n", from, to);
}

static void say_ready(void)
{
    printf("{\"type\":\"ready\",\"pid\":%d}\n", getpid());
}

static struct publisher_span random_span(void)
{
    struct publisher_span span = {.route = "/hostile"};
    if (getrandom(&span, 32, 0) != 32)
        abort();
    span.trace_id[0] |= 1;
    span.span_id[0] |= 1;
    span.root_id[0] |= 1;
    return span;
}

/* Truthful: what a reader must still understand of a process that lies elsewhere. */
static void work_in_spans(void)
{
    struct publisher_records *records = publisher_records_new(abi);
    void *volatile *mine = slot.of_thread();
    while (time_is_left()) {
        struct publisher_span span = random_span();
        publisher_show(records, mine, &span);
        uint64_t from = burn_unix_ns();
        burn(0, 5 * MS, deadline_ns);
        tell_on(&span, from, burn_unix_ns());
        burn_sleep_until(burn_wall_ns() + 30 * MS);
    }
    publisher_show(records, mine, NULL);
}

/* A page that is followed by one that cannot be read. */
static uint8_t *page_before_hole(void)
{
    uint8_t *pages =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE))
        abort();
    memset(pages, 1, PAGE); /* what is readable of a record at its end would be valid */
    return pages;
}

#define WILD_POINTERS 16

static void fill_wild(uint64_t wild[WILD_POINTERS])
{
    uint64_t hole = (uint64_t)page_before_hole() + PAGE;
    const uint64_t values[WILD_POINTERS] = {1,
                                            8,
                                            PAGE - 1,
                                            0x7fffffffffff,
                                            0x800000000000,
                                            0xffffffff81000000,
                                            0xffff888000000000,
                                            UINT64_MAX,
                                            UINT64_MAX - 15,
                                            UINT64_MAX - 36,
                                            hole,
                                            hole - 1,
                                            hole - 8,
                                            hole - 23,
                                            0xdeadbeefdeadbeef,
                                            (uint64_t)1 << 63};
    memcpy(wild, values, sizeof(values));
}

struct label_words { /* of custom labels v1 */
    uint64_t storage, count, capacity;
    uint64_t labels[2][4]; /* key length, key, value length, value */
};

static struct label_words good_labels(void)
{
    static const char trace_key[] = "trace_id", span_key[] = "span_id";
    static const char trace[] = "0102030405060708090a0b0c0d0e0f10", span[] = "0102030405060708";
    return (struct label_words){.count = 2,
                                .capacity = 2,
                                .labels = {{8, (uint64_t)trace_key, 32, (uint64_t)trace},
                                           {7, (uint64_t)span_key, 16, (uint64_t)span}}};
}

/* Both ids are spoilt: none may come out. */
static void spoil_labels(struct label_words *words, const uint64_t wild[WILD_POINTERS], unsigned i)
{
    static const uint64_t sizes[] = {0, UINT32_MAX, (uint64_t)1 << 32, UINT64_MAX, 1u << 20};
    uint64_t pointer = wild[i % WILD_POINTERS], size = sizes[i % 5];
    *words = good_labels();
    words->storage = (uint64_t)words->labels;
    switch (i / WILD_POINTERS % 5) {
    case 0:
        words->storage = pointer;
        words->count = size;
        break;
    case 1:
        words->labels[0][1] = words->labels[1][1] = pointer;
        break;
    case 2:
        words->labels[0][3] = words->labels[1][3] = pointer;
        break;
    case 3:
        words->labels[0][0] = words->labels[1][0] = size;
        break;
    default:
        words->labels[0][2] = words->labels[1][2] = size;
        words->count = UINT64_MAX;
    }
}

/* As long in each state as a tick or two takes to strike. */
static void run_wild(void)
{
    static struct label_words words;
    uint64_t wild[WILD_POINTERS], from = burn_unix_ns();
    fill_wild(wild);
    void *volatile *mine = slot.of_thread();
    say_ready();
    for (unsigned i = 0; time_is_left(); i++) {
        bool of_labels = abi == PUBLISHER_LABELS_V1 && i % 4;
        if (of_labels)
            spoil_labels(&words, wild, i);
        *mine = of_labels ? (void *)&words : (void *)wild[i % WILD_POINTERS];
        burn(1, MS, deadline_ns);
        if (i % 8 == 0)
            burn_sleep_until(burn_wall_ns() + 5 * MS);
    }
    *mine = NULL;
    tell_off(from);
}

/* The trace id is the number and its complement, the span id the number: who mixes is found out. */
static void put_number(volatile uint8_t *trace_id, volatile uint8_t *span_id, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++) {
        trace_id[i] = (uint8_t)(number >> (8 * i));
        trace_id[8 + i] = (uint8_t) ~(number >> (8 * i));
    }
    for (unsigned i = 0; i < 8; i++)
        span_id[i] = (uint8_t)(number >> (8 * i));
}

struct shared_record { /* where in its ABI's record things are */
    volatile uint8_t *valid, *trace_id, *span_id;
};

static struct shared_record share(uint8_t bytes[64])
{
    if (abi == PUBLISHER_OTEL)
        return (struct shared_record){bytes + 24, bytes, bytes + 16};
    bytes[0] = bytes[3] = bytes[4] = 1; /* Elastic: minor version, present, sampled */
    return (struct shared_record){bytes + 2, bytes + 5, bytes + 21};
}

static void *change_without_pause(void *argument)
{
    struct shared_record *record = argument;
    for (uint64_t number = 1; time_is_left();)
        for (unsigned i = 0; i < 1000; i++) {
            *record->valid = 0;
            atomic_thread_fence(memory_order_release);
            put_number(record->trace_id, record->span_id, number * 0x9e3779b97f4a7c15);
            atomic_thread_fence(memory_order_release);
            *record->valid = 1;
            number++;
            for (volatile unsigned k = 0; k < 30; k++)
                continue; /* as long whole as torn: a tick is to strike both */
        }
    return NULL;
}

static void run_torn(void)
{
    static _Alignas(8) uint8_t bytes[64];
    static struct shared_record record;
    pthread_t writer;
    record = share(bytes);
    *slot.of_thread() = bytes;
    printf("{\"type\":\"torn\",\"tid\":%d}\n", tid());
    say_ready();
    if (pthread_create(&writer, NULL, change_without_pause, &record))
        abort();
    while (time_is_left())
        burn(2, 10 * MS, deadline_ns);
    pthread_join(writer, NULL);
    *slot.of_thread() = NULL;
}

static pthread_barrier_t crowd_is_there, crowd_may_leave;
static pthread_mutex_t crowd_turn = PTHREAD_MUTEX_INITIALIZER;

static void *run_one_of_crowd(void *number)
{
    struct publisher_records *records = publisher_records_new(abi);
    struct publisher_span span = random_span();
    publisher_show(records, slot.of_thread(), &span);
    pthread_barrier_wait(&crowd_is_there);
    if ((uintptr_t)number % CROWD_IDLE == 0) {
        pthread_mutex_lock(&crowd_turn);
        uint64_t from = burn_unix_ns();
        burn(3, 2 * MS, UINT64_MAX);
        tell_on(&span, from, burn_unix_ns());
        pthread_mutex_unlock(&crowd_turn);
    }
    pthread_barrier_wait(&crowd_may_leave);
    return NULL;
}

static void run_crowd(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, CROWD_STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_barrier_init(&crowd_is_there, NULL, CROWD + 1);
    pthread_barrier_init(&crowd_may_leave, NULL, CROWD + 1);
    for (uintptr_t i = 0; i < CROWD; i++)
        if (pthread_create(&thread, &attributes, run_one_of_crowd, (void *)i)) {
            printf("{\"type\":\"skip\",\"reason\":\"no more than %u threads\"}\n", (unsigned)i);
            exit(0);
        }
    say_ready();
    burn_sleep_until(deadline_ns); /* until readers have taken notice */
    pthread_barrier_wait(&crowd_is_there);
    pthread_barrier_wait(&crowd_may_leave);
}

static void leave_for(const char *root, unsigned uid)
{
    if (root && (chroot(root) || chdir("/")))
        abort();
    if (uid && (setgid(uid) || setuid(uid) || prctl(PR_SET_DUMPABLE, 1)))
        abort();
}

static void run_agent(void)
{
    size_t size;
    *slot.process_storage = publisher_agent_storage("hostile", "test", path, &size);
    say_ready();
    work_in_spans();
}

/* Sizes of 4 GB at each length, and wild pointers to all of it. */
static void *spoil_storage(void *unused)
{
    uint64_t wild[WILD_POINTERS];
    size_t size;
    fill_wild(wild);
    for (unsigned i = 0; time_is_left(); i++) {
        uint8_t *storage = publisher_agent_storage("a", "b", "/c", &size);
        const size_t lengths[] = {2, 7, 12};
        memset(storage + lengths[i % 3], i % 2 ? 0xff : 0x7f, 4);
        *slot.process_storage = i % 4 ? storage : (void *)wild[i / 4 % WILD_POINTERS];
        burn_sleep_until(burn_wall_ns() + 20 * MS);
        *slot.process_storage = NULL;
        free(storage);
    }
    return unused;
}

static void run_storage(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, spoil_storage, NULL))
        abort();
    say_ready();
    work_in_spans();
    pthread_join(thread, NULL);
}

enum { /* fields of /proc/PID/stat, from the first behind the name, which is number 3 */
       STAT_START_CODE = 26 - 3,
       STAT_END_CODE = 27 - 3,
       STAT_START_STACK = 28 - 3,
       STAT_START_DATA = 45 - 3,
       STAT_END_DATA = 46 - 3,
       STAT_START_BRK = 47 - 3,
       STAT_ARG_START = 48 - 3,
       STAT_ARG_END = 49 - 3,
       STAT_FIELDS = 50,
};

static void read_stat(uint64_t fields[STAT_FIELDS])
{
    char text[2048] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file || !fgets(text, sizeof(text), file))
        abort();
    fclose(file);
    char *rest = strrchr(text, ')') + 2;
    for (unsigned i = 0; rest && i < STAT_FIELDS; i++) {
        char *field = strsep(&rest, " ");
        fields[i] = strtoull(field, NULL, 10);
    }
}

/* From now on the kernel tells all readers of /proc that the environment lies there. Needs no
 * rights. */
static bool move_environment(uint64_t page)
{
    uint64_t stat[STAT_FIELDS] = {0};
    read_stat(stat);
    struct prctl_mm_map map = {.start_code = stat[STAT_START_CODE],
                               .end_code = stat[STAT_END_CODE],
                               .start_data = stat[STAT_START_DATA],
                               .end_data = stat[STAT_END_DATA],
                               .start_brk = stat[STAT_START_BRK],
                               .brk = (uint64_t)sbrk(0),
                               .start_stack = stat[STAT_START_STACK],
                               .arg_start = stat[STAT_ARG_START],
                               .arg_end = stat[STAT_ARG_END],
                               .env_start = page,
                               .env_end = page + PAGE,
                               .exe_fd = (uint32_t)-1};
    return !prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0);
}

static void skip(const char *reason)
{
    printf("{\"type\":\"skip\",\"reason\":\"%s\"}\n", reason);
    exit(0);
}

static void run_fuse(const char *place, void *page)
{
    if (!strcmp(place, "environment") && !move_environment((uint64_t)page))
        skip("the kernel has no PR_SET_MM_MAP");
    if (!strcmp(place, "storage"))
        *slot.process_storage = page;
    if (!strcmp(place, "payload")) {
        struct publisher_process process = {"hostile", OTEL_THREAD_SCHEMA_DEV, keys, 1};
        volatile struct otel_process_header *header =
            publisher_process_publish(&process, PUBLISHER_MAPPING_NAMED);
        header->published_at_ns = 0;
        header->payload = (uint64_t)page;
        header->payload_size = PAGE;
        header->published_at_ns = burn_wall_ns();
    }
    say_ready();
    while (time_is_left()) {
        burn(0, 5 * MS, deadline_ns);
        burn_sleep_until(burn_wall_ns() + 30 * MS);
    }
}

static void open_library(char *text)
{
    const char *name = strsep(&text, "=");
    abi = !strcmp(name, "otel")      ? PUBLISHER_OTEL
          : !strcmp(name, "elastic") ? PUBLISHER_ELASTIC_V1
                                     : PUBLISHER_LABELS_V1;
    slot = publisher_open(text);
}

static void publish_process(void)
{
    struct publisher_process process = {"hostile", OTEL_THREAD_SCHEMA_DEV, keys, 1};
    if (abi == PUBLISHER_OTEL)
        publisher_process_publish(&process, PUBLISHER_MAPPING_NAMED);
}

static int run(const char *mode)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"wild", run_wild},
                 {"torn", run_torn},
                 {"crowd", run_crowd},
                 {"agent", run_agent},
                 {"storage", run_storage}};
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (!strcmp(mode, modes[i].name)) {
            publish_process();
            modes[i].run();
            return 0;
        }
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"mode", 1, NULL, 'm'}, {"publish", 1, NULL, 'p'},
                                          {"path", 1, NULL, 'f'}, {"seconds", 1, NULL, 's'},
                                          {"root", 1, NULL, 'r'}, {"uid", 1, NULL, 'u'},
                                          {NULL, 0, NULL, 0}};
    char *mode = NULL, *library = NULL, *root = NULL;
    double seconds = 5;
    unsigned uid = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (letter == 'm')
            mode = optarg;
        else if (letter == 'p')
            library = optarg;
        else if (letter == 'f')
            path = optarg;
        else if (letter == 's')
            seconds = atof(optarg);
        else if (letter == 'r')
            root = optarg;
        else if (letter == 'u')
            uid = (unsigned)atoi(optarg);
        else
            return 2;
    }
    if (!mode || !library)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    bool fuse = !strncmp(mode, "fuse-", 5);
    void *page = fuse ? publisher_fuse_page(path) : NULL;
    if (fuse && !page)
        skip("FUSE cannot be mounted");
    open_library(library);
    leave_for(root, uid);
    deadline_ns = burn_wall_ns() + (uint64_t)(seconds * 1e9);
    if (!fuse)
        return run(mode);
    run_fuse(mode + 5, page);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works on spans in several threads and publishes them by the context ABIs named, each with ids of
 * its own, and tells the truth about the first of them
 * (test/integration/contexts/test_contexts.py):
 *     {"type":"ready", "pid"}      published, asleep until SIGUSR1
 *     {"type":"on", "tid", "trace_id", "span_id", "root_id", "attributes", "from", "to"}
 *     {"type":"off", "tid", "from", "to"}
 *     {"type":"skip", "reason"}    this kernel cannot do what was asked for
 * and what its Elastic agent hears (publisher_agent.h). Times in Unix ns, within what was
 * published. Half of the threads run before the libraries are loaded.
 */
#include "test/support/publishers/publisher_agent.h"
#include "test/support/publishers/publisher_process.h"
#include "test/support/publishers/publisher_record.h"
#include "test/support/publishers/publisher_slot.h"
#include "test/support/workloads/workload_burn.h"

#include <getopt.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS           1000000u
#define SOURCES_MAX  5
#define THREADS_MAX  16
#define OFF_MS       60   /* of work without span, where the truth is "none" */
#define SETTLE_MS    2500 /* of sleep, until readers must have taken notice */
#define NO_SPAN_LEFT UINT64_MAX

struct source {
    enum publisher_abi abi;
    const char *library;
    struct publisher_slot slot;
};

static struct {
    struct source sources[SOURCES_MAX];
    unsigned n_sources;
    unsigned n_threads;
    unsigned cpu_ms;  /* each thread */
    unsigned span_ms; /* CPU time of a span */
    unsigned linger_ms;
    const char *schema;
    const char *service;
    const char *socket;
    const char *then; /* "fork", "exec" */
    enum publisher_mapping mapping;
    bool late_keys;
    bool silent; /* the first source says nothing: the second is the truth */
} options = {.n_threads = 2,
             .cpu_ms = 150,
             .span_ms = 5,
             .schema = OTEL_THREAD_SCHEMA_DEV,
             .service = "publisher",
             .socket = "",
             .then = ""};

static const char *const keys[] = {"route", "tenant"};
static struct publisher_process process;
static void *volatile obi_map;
static pthread_barrier_t all_started, all_may_go, all_grown, all_done;

static void *volatile *obi_slot(void)
{
    return &obi_map;
}

static int tid(void)
{
    return (int)syscall(SYS_gettid);
}

static const char *hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    return text;
}

static void tell_on(const struct publisher_span *span, uint64_t from, uint64_t to)
{
    char trace[33], id[17], root[17], tenant[64] = "";
    if (span->tenant[0])
        snprintf(tenant, sizeof(tenant), ",\"tenant\":\"%s\"", span->tenant);
    printf("{\"type\":\"on\",\"tid\":%d,\"trace_id\":\"%s\",\"span_id\":\"%s\",\"root_id\":\"%s\","
           "\"attributes\":{\"route\":\"%s\"%s},\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n",
           tid(), hex(span->trace_id, 16, trace), hex(span->span_id, 8, id),
           hex(span->root_id, 8, root), span->route, tenant, from, to);
}

static void work_without_span(void)
{
    uint64_t from = burn_unix_ns();
    burn(0, OFF_MS * MS, NO_SPAN_LEFT);
    printf("{\"type\":\"off\",\"tid\":%d,\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n", tid(), from,
           burn_unix_ns());
}

static struct publisher_span new_span(bool with_tenant)
{
    struct publisher_span span = {.route = "/"};
    if (getrandom(&span, 32, 0) != 32)
        abort();
    span.trace_id[0] |= 1; /* none of them is zero */
    span.span_id[0] |= 1;
    span.root_id[0] |= 1;
    hex(span.span_id, 8, span.route + 1);
    if (with_tenant)
        snprintf(span.tenant, sizeof(span.tenant), "t-%d", tid());
    return span;
}

struct publisher {
    struct publisher_records *records[SOURCES_MAX];
    void *volatile *slots[SOURCES_MAX];
};

static struct publisher open_publisher(void)
{
    struct publisher publisher;
    for (unsigned i = 0; i < options.n_sources; i++) {
        publisher.records[i] = publisher_records_new(options.sources[i].abi);
        publisher.slots[i] = options.sources[i].slot.of_thread();
    }
    return publisher;
}

static void clear(const struct publisher *publisher)
{
    for (unsigned i = 0; i < options.n_sources; i++)
        publisher_show(publisher->records[i], publisher->slots[i], NULL);
}

static void work_in_span(const struct publisher *publisher, unsigned function, bool with_tenant)
{
    struct publisher_span first;
    for (unsigned i = options.n_sources; i-- > options.silent;) {
        struct publisher_span span = new_span(with_tenant);
        publisher_show(publisher->records[i], publisher->slots[i], &span);
        first = span;
    }
    uint64_t from = burn_unix_ns();
    burn(function, options.span_ms * (uint64_t)MS, NO_SPAN_LEFT);
    tell_on(&first, from, burn_unix_ns());
    clear(publisher);
}

static void work_in_spans(const struct publisher *publisher, unsigned function, bool with_tenant)
{
    uint64_t end = burn_thread_cpu_ns() + options.cpu_ms * (uint64_t)MS;
    while (burn_thread_cpu_ns() < end)
        work_in_span(publisher, function, with_tenant);
}

static void *run_thread(void *number)
{
    unsigned function = (unsigned)(uintptr_t)number;
    pthread_barrier_wait(&all_started);
    pthread_barrier_wait(&all_may_go);
    struct publisher publisher = open_publisher();
    work_in_spans(&publisher, function, false);
    if (options.late_keys) {
        pthread_barrier_wait(&all_grown); /* all have seen the old map */
        pthread_barrier_wait(&all_grown);
        work_in_spans(&publisher, function, true);
    }
    work_without_span();
    pthread_barrier_wait(&all_done);
    return NULL;
}

static void start_threads(unsigned from, unsigned to)
{
    pthread_t thread;
    for (unsigned i = from; i < to; i++)
        if (pthread_create(&thread, NULL, run_thread, (void *)(uintptr_t)i) ||
            pthread_detach(thread))
            abort();
}

static void wait_for_go(void)
{
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    printf("{\"type\":\"ready\",\"pid\":%d}\n", getpid());
    sigwait(&set, &number);
}

static bool publishes(enum publisher_abi abi)
{
    for (unsigned i = 0; i < options.n_sources; i++)
        if (options.sources[i].abi == abi)
            return true;
    return false;
}

static void publish_process(void)
{
    process = (struct publisher_process){options.service, options.schema, keys, 1};
    if (!publishes(PUBLISHER_OTEL) || publisher_process_publish(&process, options.mapping))
        return;
    printf("{\"type\":\"skip\",\"reason\":\"the kernel cannot name anonymous memory\"}\n");
    exit(0);
}

/* As OBI: whoever comes first makes the map and pins it. */
static long make_obi_map(const char *path)
{
    union bpf_attr map = {
        .map_type = BPF_MAP_TYPE_LRU_HASH, .key_size = 8, .value_size = 24, .max_entries = 16384};
    long fd = syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
    union bpf_attr pin = {.pathname = (uint64_t)path, .bpf_fd = (uint32_t)fd};
    if (fd < 0 || syscall(SYS_bpf, BPF_OBJ_PIN, &pin, sizeof(pin)) == 0)
        return fd;
    close((int)fd);
    return -1;
}

static void open_obi_map(struct source *source)
{
    union bpf_attr get = {.pathname = (uint64_t)source->library};
    long fd = syscall(SYS_bpf, BPF_OBJ_GET, &get, sizeof(get));
    if (fd < 0)
        fd = make_obi_map(source->library);
    if (fd < 0) /* somebody else was quicker */
        fd = syscall(SYS_bpf, BPF_OBJ_GET, &get, sizeof(get));
    if (fd < 0) {
        perror(source->library);
        exit(1);
    }
    obi_map = (void *)fd;
    source->slot.of_thread = obi_slot;
}

static void open_sources(void)
{
    for (unsigned i = 0; i < options.n_sources; i++) {
        struct source *source = &options.sources[i];
        if (source->abi == PUBLISHER_OBI)
            open_obi_map(source);
        else
            source->slot = publisher_open(source->library);
        if (source->slot.process_storage)
            publisher_agent_start(source->slot.process_storage, options.service, options.socket);
    }
}

static void grow_keys(void)
{
    pthread_barrier_wait(&all_grown);
    process.n_keys = 2;
    publisher_process_update(&process);
    burn_sleep_until(burn_wall_ns() + (uint64_t)SETTLE_MS * MS);
    pthread_barrier_wait(&all_grown);
}

static void run_threads(void)
{
    unsigned parties = options.n_threads + 1;
    pthread_barrier_init(&all_started, NULL, parties);
    pthread_barrier_init(&all_may_go, NULL, parties);
    pthread_barrier_init(&all_grown, NULL, parties);
    pthread_barrier_init(&all_done, NULL, parties);
    start_threads(0, options.n_threads / 2);
    work_without_span(); /* before anything is published */
    open_sources();
    publish_process();
    start_threads(options.n_threads / 2, options.n_threads);
    pthread_barrier_wait(&all_started);
    wait_for_go();
    pthread_barrier_wait(&all_may_go);
    if (options.late_keys)
        grow_keys();
    pthread_barrier_wait(&all_done);
}

/* The child has its parent's memory, a record that says valid among it, but no process context: it
 * has published nothing. */
static int run_child(const struct publisher *publisher)
{
    work_without_span();
    clear(publisher);
    publish_process();
    wait_for_go();
    work_in_spans(publisher, 1, false);
    return 0;
}

static int fork_within_a_span(void)
{
    struct publisher publisher = open_publisher();
    struct publisher_span span = new_span(false);
    for (unsigned i = 0; i < options.n_sources; i++)
        publisher_show(publisher.records[i], publisher.slots[i], &span);
    pid_t child = fork();
    if (child == 0) {
        int error = run_child(&publisher);
        fflush(stdout);
        _exit(error);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return status != 0;
}

static void parse_source(char *text)
{
    static const char *const names[] = {"otel", "elastic", "labels", "obi"};
    const char *name = strsep(&text, "=");
    for (unsigned i = 0; i < 4; i++)
        if (!strcmp(name, names[i]) && options.n_sources < SOURCES_MAX) {
            options.sources[options.n_sources++] =
                (struct source){.abi = (enum publisher_abi)i, .library = text};
            return;
        }
    exit(2);
}

static enum publisher_mapping parse_mapping(const char *text)
{
    return !strcmp(text, "memfd")  ? PUBLISHER_MAPPING_MEMFD
           : !strcmp(text, "anon") ? PUBLISHER_MAPPING_ANON
                                   : PUBLISHER_MAPPING_NAMED;
}

static void parse(int argc, char **argv)
{
    static const struct option names[] = {
        {"publish", 1, NULL, 'p'}, {"threads", 1, NULL, 't'}, {"cpu-ms", 1, NULL, 'c'},
        {"span-ms", 1, NULL, 'l'}, {"schema", 1, NULL, 's'},  {"service", 1, NULL, 'n'},
        {"socket", 1, NULL, 'u'},  {"mapping", 1, NULL, 'm'}, {"late-keys", 0, NULL, 'k'},
        {"silent", 0, NULL, 'q'},  {"then", 1, NULL, 'x'},    {"linger-ms", 1, NULL, 'w'},
        {NULL, 0, NULL, 0}};
    for (int letter; (letter = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (letter == 'p')
            parse_source(optarg);
        else if (letter == 't')
            options.n_threads = (unsigned)atoi(optarg);
        else if (letter == 'c')
            options.cpu_ms = (unsigned)atoi(optarg);
        else if (letter == 'l')
            options.span_ms = (unsigned)atoi(optarg);
        else if (letter == 's')
            options.schema = optarg;
        else if (letter == 'n')
            options.service = optarg;
        else if (letter == 'u')
            options.socket = optarg;
        else if (letter == 'm')
            options.mapping = parse_mapping(optarg);
        else if (letter == 'k')
            options.late_keys = true;
        else if (letter == 'q')
            options.silent = true;
        else if (letter == 'x')
            options.then = optarg;
        else if (letter == 'w')
            options.linger_ms = (unsigned)atoi(optarg);
        else
            exit(2);
    }
    if (options.n_sources <= options.silent || !options.n_threads ||
        options.n_threads > THREADS_MAX)
        exit(2);
}

/* Once: with "again" in front of it the option no longer means anything. */
static int exec_again(char **argv)
{
    for (char **argument = argv; *argument; argument++)
        if (!strcmp(*argument, "exec"))
            *argument = "again";
    execv("/proc/self/exe", argv);
    return 1;
}

int main(int argc, char **argv)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    char *copies[64] = {NULL};
    for (int i = 0; i < argc && i < 63; i++)
        copies[i] = strdup(argv[i]);
    parse(argc, argv);
    run_threads();
    int error = 0;
    if (!strcmp(options.then, "fork"))
        error = fork_within_a_span();
    burn_sleep_until(burn_wall_ns() + options.linger_ms * (uint64_t)MS);
    if (!strcmp(options.then, "exec"))
        error = exec_again(copies);
    return error;
}

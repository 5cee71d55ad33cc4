/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with several publishers, or with others than OpenTelemetry's: what the symbolizer
 * enters for them, in which order, what it says of them, and how it follows changes. Children
 * compute the places of their own variables and compare.
 */
#include "agent-bpf/record.h"
#include "base/stats.h"
#include "context/spanprof_context.h"
#include "test/bpf/bpf_test.h"
#include "test/support/rigs/symbolizer_rig.h"
#include "test/support/fixtures/context_fixture.h"
#include "test/support/contexts/context_sources.h"
#include <bpf/bpf.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

extern _Thread_local void *otel_thread_ctx_v1;

#define OTEL    CONTEXT_BIT(CONTEXT_OTEL_THREAD)
#define ELASTIC CONTEXT_BIT(CONTEXT_ELASTIC)
#define LABELS  CONTEXT_BIT(CONTEXT_CUSTOM_LABELS)
#define NODEJS  CONTEXT_BIT(CONTEXT_OTEL_NODEJS)

/* Shared with the child, which does each step once it is told to. */
struct shared {
    uint64_t thread_pointer;
    uint64_t places[CONTEXT_SOURCES]; /* of the variables */
    char directory[40];
    char socket[64];
    uint32_t version; /* of custom labels */
    bool has_otel;
    bool has_nodejs;
    uint32_t nodejs_slot; /* that it publishes; 0 = none */
    volatile bool load;   /* the library */
    volatile bool loaded;
    volatile unsigned storage; /* this one is to be published; 0 = none yet */
    volatile unsigned published;
    volatile unsigned connections; /* begun by brokers */
    volatile unsigned heard;       /* datagrams on the socket */
};

static struct rig rig;
static struct shared *shared;
static pid_t child;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    rig.contexts_map_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "contexts", sizeof(__u32),
                                         sizeof(struct context_process), 64, NULL);
    assert_true(rig.contexts_map_fd >= 0);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    snprintf(shared->directory, sizeof(shared->directory), "/tmp/spanprof_agent_XXXXXX");
    assert_non_null(mkdtemp(shared->directory));
    snprintf(shared->socket, sizeof(shared->socket), "%s/socket", shared->directory);
    shared->version = 1;
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    if (child)
        fixture_kill(child);
    child = 0;
    close(rig.contexts_map_fd);
    rig_close(&rig);
    unlink(shared->socket);
    rmdir(shared->directory);
    munmap(shared, 4096);
    return 0;
}

/* ---- the child ---- */

static size_t put_text(uint8_t *out, const char *text)
{
    uint32_t len = (uint32_t)strlen(text);
    memcpy(out, &len, sizeof(len));
    memcpy(out + sizeof(len), text, len);
    return sizeof(len) + len;
}

static void *make_storage(unsigned number)
{
    uint8_t *storage = calloc(1, 512);
    const uint16_t minor_version = 1;
    memcpy(storage, &minor_version, sizeof(minor_version));
    size_t at = sizeof(minor_version);
    at += put_text(storage + at, number == 1 ? "of elastic" : "renamed");
    at += put_text(storage + at, "testing");
    put_text(storage + at, shared->socket);
    return storage;
}

static int bind_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", shared->socket);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
        _exit(1);
    return fd;
}

static const struct context_sources *load(void)
{
    void *library = dlopen(CONTEXT_SOURCES_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const struct context_sources *sources = library ? dlsym(library, "context_sources") : NULL;
    if (!sources)
        _exit(1);
    *sources->labels_version = shared->version;
    shared->places[CONTEXT_ELASTIC] = sources->elastic_variable();
    shared->places[CONTEXT_CUSTOM_LABELS] = sources->labels_variable();
    shared->places[CONTEXT_OTEL_NODEJS] = sources->nodejs_variable();
    shared->loaded = true;
    return sources;
}

static void publish_nodejs(void)
{
    static uint8_t payload[1024];
    size_t size = fixture_payload(payload, 512, OTEL_NODEJS_SCHEMA_DEV);
    if (shared->nodejs_slot)
        size += fixture_payload_number(payload + size, OTEL_NODEJS_RECORD_KEY, shared->nodejs_slot);
    if (!fixture_publish(payload, size))
        _exit(1);
}

static void run_child(void)
{
    static const struct spanprof_attribute attributes[] = {{"service.name", "shop"}};
    const struct context_sources *sources = NULL;
    unsigned published = 0;
    char byte;
    shared->thread_pointer = (uintptr_t)__builtin_thread_pointer();
    shared->places[CONTEXT_OTEL_THREAD] = (uintptr_t)&otel_thread_ctx_v1;
    if (shared->has_otel && spanprof_context_publish(attributes, 1))
        _exit(1);
    if (shared->has_nodejs)
        publish_nodejs();
    int fd = bind_socket();
    for (;; usleep(1000)) {
        if (shared->load && !sources)
            sources = load();
        if (sources && shared->storage != published) {
            published = shared->storage;
            *sources->elastic_storage = make_storage(published);
            shared->published = published;
        }
        while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0)
            shared->heard += byte == 'x'; /* another spanprof may have found it, too */
    }
}

static void start_child(void)
{
    child = fork();
    if (!child)
        run_child();
    rig.correlated_pid = child;
    assert_true(WAIT_FOR(shared->loaded == shared->load && shared->thread_pointer, 5000));
}

/* ---- what is seen of it ---- */

static bool entry_of(struct context_process *entry)
{
    __u32 pid = (__u32)child;
    return !bpf_map_lookup_elem(rig.contexts_map_fd, &pid, entry);
}

static struct process_details details_of(void)
{
    struct process_details details = {0};
    process_table_details(rig.table, (uint32_t)child, clock_monotonic_ns(), &details);
    return details;
}

static unsigned wanted_sources;

static bool is_entered(struct rig *with)
{
    struct context_process entry = {.count = 0};
    unsigned sources = 0;
    (void)with;
    entry_of(&entry);
    for (uint32_t i = 0; i < entry.count; i++)
        sources |= CONTEXT_BIT(entry.variables[i].source);
    return sources == wanted_sources && details_of().sources == wanted_sources;
}

static void expect_entered(unsigned sources)
{
    wanted_sources = sources;
    if (!rig_until(&rig, is_entered, 20000))
        fail_msg("sources %x instead of %x, %u scans", details_of().sources, sources,
                 rig.answers[SYMBOLIZER_SCAN_DONE]);
}

static uint64_t word(uint64_t address)
{
    uint64_t value = 0;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", child);
    FILE *memory = fopen(path, "re");
    assert_non_null(memory);
    setvbuf(memory, NULL, _IONBF, 0);
    assert_int_equal(fseek(memory, (long)address, SEEK_SET), 0);
    assert_int_equal(fread(&value, 8, 1, memory), 1);
    fclose(memory);
    return value;
}

/* As the sampler does it. */
static uint64_t address_by(const struct context_variable *variable)
{
    if (variable->thread_local_model == THREAD_LOCAL_STATIC)
        return shared->thread_pointer + (uint64_t)variable->offset;
    uint64_t dtv = word(shared->thread_pointer + (uint64_t)variable->dtv_offset);
    return word(dtv + variable->module * variable->dtv_entry_size) + (uint64_t)variable->offset;
}

/* The variables of the entry are those, in that order, and lead to where they are. */
static void expect_variables(const enum context_source *sources, uint32_t n)
{
    struct context_process entry;
    assert_true(entry_of(&entry));
    assert_int_equal(entry.count, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(entry.variables[i].source, sources[i]);
        assert_int_equal(address_by(&entry.variables[i]), shared->places[sources[i]]);
    }
}

static void expect_resource(const char *text)
{
    struct process_details details = details_of();
    if (!memmem(details.resource.data, details.resource.len, text, strlen(text)))
        fail_msg("%s is not in the resource", text);
}

static const enum context_source all_sources[] = {CONTEXT_OTEL_THREAD, CONTEXT_ELASTIC,
                                                  CONTEXT_CUSTOM_LABELS};

static bool is_correlated(struct rig *with)
{
    return with->correlations > 0;
}

static bool is_correlated_again(struct rig *with)
{
    return with->correlations > 1;
}

static void all_at_once(void **state)
{
    (void)state;
    shared->has_otel = shared->load = true;
    shared->storage = 1;
    start_child();
    rig_start(&rig);
    expect_entered(OTEL | ELASTIC | LABELS);
    expect_variables(all_sources, 3);
    assert_int_equal(details_of().publishes, OTEL | ELASTIC | LABELS);
    assert_true(details_of().sets_trace_flags);
    expect_resource("shop");
    expect_resource("process_context");
    expect_resource("testing"); /* what the process context does not say */
    assert_true(rig_until(&rig, is_correlated, 10000));
    assert_int_equal(send(rig.correlated_fd, "x", 1, MSG_DONTWAIT), 1);
    assert_true(WAIT_FOR(shared->heard == 1, 5000)); /* it leads to the agent */
    struct context_process entry;
    assert_true(entry_of(&entry));
    assert_int_equal(word(entry.published_address), entry.published_ns);
}

/* Without a process context: nothing but the files tells that it is still the same program. */
static void without_process_context(void **state)
{
    (void)state;
    shared->load = true;
    start_child();
    rig_start(&rig);
    expect_entered(ELASTIC | LABELS);
    expect_variables(all_sources + 1, 2);
    assert_int_equal(rig.correlations, 0);
    shared->storage = 1; /* and the agent is ready only later */
    assert_true(rig_until(&rig, is_correlated, 10000));
    expect_resource("of elastic");
    expect_resource("testing");
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 20000));
    rig_send(&rig, &(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_WANTED});
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 2, 20000)); /* as after our own restart */
    assert_true(rig_until(&rig, is_correlated_again, 10000));
    expect_entered(ELASTIC | LABELS);
}

static bool is_renamed(struct rig *with)
{
    struct process_details details = details_of();
    return with->correlations == 2 &&
           memmem(details.resource.data, details.resource.len, "renamed", 7);
}

/* Noticed by polling: told anew, and another socket. */
static void storage_replaced(void **state)
{
    (void)state;
    shared->load = true;
    shared->storage = 1;
    start_child();
    rig_start(&rig);
    assert_true(rig_until(&rig, is_correlated, 20000));
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 20000));
    expect_resource("of elastic");
    shared->storage = 2;
    assert_true(rig_until(&rig, is_renamed, 15000));
    expect_entered(ELASTIC | LABELS);
}

/* In the first broker: what named the socket is gone before that is connected. */
static void replace_storage(void)
{
    if (shared->connections++)
        return;
    shared->storage = 2;
    while (shared->published != 2)
        usleep(1000);
}

/* As if the process had become another program meanwhile: the socket is not handed over. */
static void storage_replaced_before_the_socket_is_there(void **state)
{
    (void)state;
    shared->load = true;
    shared->storage = 1;
    rig.connecting = replace_storage;
    start_child();
    rig_start(&rig);
    assert_true(rig_until(&rig, is_correlated, 20000));
    assert_true(shared->connections > 1);
    expect_resource("renamed");
}

static void library_loaded_though_it_has_a_source(void **state)
{
    (void)state;
    shared->has_otel = true;
    start_child();
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 20000));
    expect_entered(OTEL);
    shared->load = true;
    assert_true(WAIT_FOR(shared->loaded, 5000));
    uint64_t now_ns = clock_monotonic_ns();
    struct process_event mapped = {
        .kind = PROCESS_MAPPED,
        .time_ns = now_ns,
        .pid = (uint32_t)child,
        .mapping = {
            .start = 0x7000000000, .length = 4096, .inode = 1, .path = CONTEXT_SOURCES_LIBRARY}};
    assert_int_equal(process_table_apply(rig.table, &mapped), 0);
    process_table_sampled(rig.table, (uint32_t)child, 1, now_ns);
    expect_entered(OTEL | ELASTIC | LABELS);
    expect_variables(all_sources, 3);
}

static void unknown_labels_are_not_read(void **state)
{
    (void)state;
    shared->load = true;
    shared->version = 2;
    start_child();
    rig_start(&rig);
    expect_entered(ELASTIC);
    assert_int_equal(details_of().publishes, ELASTIC | LABELS);
}

/* What a process with that slot gets entered. */
static void expect_nodejs(uint32_t slot, enum nodejs_form form)
{
    static const enum context_source sources[] = {CONTEXT_ELASTIC, CONTEXT_CUSTOM_LABELS,
                                                  CONTEXT_OTEL_NODEJS};
    struct context_process entry;
    shared->load = shared->has_nodejs = true;
    shared->nodejs_slot = slot;
    start_child();
    rig_start(&rig);
    expect_entered(ELASTIC | LABELS | NODEJS);
    expect_variables(sources, 3);
    assert_true(entry_of(&entry));
    assert_int_equal(entry.variables[2].nodejs_form, form);
    assert_int_equal(entry.variables[2].nodejs_slot, slot);
    assert_int_equal(entry.variables[2].nodejs_owner, 0);
    assert_int_equal(details_of().publishes, ELASTIC | LABELS | NODEJS);
    expect_resource("shop");
}

static void of_nodejs(void **state)
{
    (void)state;
    expect_nodejs(0, NODEJS_SLOT_IN_VARIABLE);
}

static void of_nodejs_with_a_layout(void **state)
{
    (void)state;
    expect_nodejs(24, NODEJS_SLOT);
}

static int64_t n_unsupported(void)
{
    return stats_find("spanprof_contexts_unreadable_total", "reason=\"unsupported_nodejs\"");
}

static void unknown_layouts_are_not_read(void **state)
{
    (void)state;
    int64_t before = n_unsupported();
    shared->load = shared->has_nodejs = true;
    shared->nodejs_slot = 60;
    start_child();
    rig_start(&rig);
    expect_entered(ELASTIC | LABELS);
    assert_int_equal(details_of().publishes, ELASTIC | LABELS | NODEJS);
    assert_true(n_unsupported() > before);
}

/* The variable alone says nothing: its process declares another schema, or none. */
static void of_nodejs_without_its_schema(void **state)
{
    (void)state;
    shared->load = shared->has_otel = true;
    start_child();
    rig_start(&rig);
    expect_entered(OTEL | ELASTIC | LABELS);
    assert_int_equal(details_of().publishes, OTEL | ELASTIC | LABELS);
}

static bool is_mended(struct rig *with)
{
    struct context_process entry;
    (void)with;
    return entry_of(&entry) && entry.count == 1 && entry.n_torn == 0 &&
           address_by(&entry.variables[0]) == shared->places[CONTEXT_OTEL_THREAD];
}

/* The sampler reads at that place, and finds nothing but nonsense. */
static void located_again(void **state)
{
    (void)state;
    struct context_process entry;
    __u32 pid;
    shared->has_otel = true;
    start_child();
    pid = (__u32)child;
    rig_start(&rig);
    assert_true(rig_wait(&rig, SYMBOLIZER_SCAN_DONE, 1, 20000));
    expect_entered(OTEL);
    assert_true(entry_of(&entry));
    entry.variables[0].offset -= 8;
    entry.n_torn = 30;
    int64_t before = stats_find("spanprof_contexts_unreadable_total", "reason=\"records\"");
    assert_int_equal(bpf_map_update_elem(rig.contexts_map_fd, &pid, &entry, BPF_ANY), 0);
    assert_true(rig_until(&rig, is_mended, 10000));
    assert_int_equal(stats_find("spanprof_contexts_unreadable_total", "reason=\"records\""),
                     before + 1);
}

int main(void)
{
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    if (stats_share()) /* the symbolizer is a process of its own */
        return 1;
#define R(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
    const struct CMUnitTest tests[] = {
        R(all_at_once),
        R(without_process_context),
        R(storage_replaced),
        R(storage_replaced_before_the_socket_is_there),
        R(library_loaded_though_it_has_a_source),
        R(unknown_labels_are_not_read),
        R(of_nodejs),
        R(of_nodejs_with_a_layout),
        R(unknown_layouts_are_not_read),
        R(of_nodejs_without_its_schema),
        R(located_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"
#include "base/stats.h"
#include "store/db/id_set.h"
#include "store/join/owner.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int64_t put(struct fixture *fixture, const struct process_facts *facts)
{
    int64_t id;
    assert_int_equal(processes_put(store_processes(fixture->store), facts, &id), 0);
    return id;
}

static struct process_facts facts(void)
{
    return (struct process_facts){
        .start_ns = 12345,
        .pid = 10,
        .own_pid = 1,
        .executable_name = BYTES_LIT("shop"),
        .executable_path = BYTES_LIT("/usr/bin/shop"),
        .container_id = BYTES_LIT(CONTAINER),
        .pod_uid = BYTES_LIT("0b9c1f2e-3d4a-4b5c-8d6e-7f8091a2b3c4"),
        .resource = BYTES_LIT("\x0a\x00"),
        .sets_trace_flags = true,
    };
}

static void test_content(void **state)
{
    struct fixture *fixture = *state;
    struct process_facts known = facts(), other = facts();
    const struct process_facts *read;
    int64_t id = put(fixture, &known);
    assert_int_equal(put(fixture, &known), id);
    other.resource = BYTES(NULL, 0);
    int64_t later = put(fixture, &other);
    assert_int_not_equal(later, id);
    other.start_ns++;
    assert_int_not_equal(put(fixture, &other), later);
    fixture_commit(fixture);
    fixture_reopen(fixture);
    fixture_begin(fixture);
    assert_int_equal(put(fixture, &known), id);
    assert_int_equal(processes_get(store_processes(fixture->store), id, &read), 0);
    assert_int_equal(read->start_ns, 12345);
    assert_int_equal(read->pid, 10);
    assert_int_equal(read->own_pid, 1);
    assert_true(read->sets_trace_flags);
    assert_true(bytes_is(read->executable_name, "shop"));
    assert_true(bytes_is(read->executable_path, "/usr/bin/shop"));
    assert_true(bytes_is(read->container_id, CONTAINER));
    assert_true(bytes_is(read->pod_uid, "0b9c1f2e-3d4a-4b5c-8d6e-7f8091a2b3c4"));
    assert_true(bytes_equal(read->resource, known.resource));
    assert_int_equal(processes_get(store_processes(fixture->store), 99, &read), -ENOENT);
}

static void test_limits(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t big[PROCESSES_RESOURCE_MAX + 1];
    struct process_facts known = facts();
    const struct process_facts *read;
    int64_t before = stats_find("spanprof_store_process_facts_cut_total", "");
    known.resource = BYTES(big, sizeof(big));
    known.executable_path = BYTES(big, PROCESSES_TEXT_MAX + 1);
    int64_t id = put(fixture, &known);
    assert_int_equal(processes_get(store_processes(fixture->store), id, &read), 0);
    assert_int_equal(read->resource.len, 0);
    assert_int_equal(read->executable_path.len, PROCESSES_TEXT_MAX);
    assert_int_equal(stats_find("spanprof_store_process_facts_cut_total", "") - before, 1);
}

/* A hundred thousand short-lived processes leave nothing behind, in memory or on disk. */
static void test_many(void **state)
{
    struct fixture *fixture = *state;
    struct process_facts known = facts();
    struct processes *processes = store_processes(fixture->store);
    const struct process_facts *read;
    struct id_set referred = {0};
    int64_t kept = put(fixture, &known), id = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        known.pid = 100 + i;
        id = put(fixture, &known);
    }
    for (int generation = 0; generation < 3; generation++) {
        assert_int_equal(id_set_add(&referred, kept), 0);
        assert_int_equal(processes_collect_begin(processes, &referred), 0);
        for (int i = 0; i < 60; i++)
            assert_int_equal(processes_collect(processes), 0);
    }
    assert_int_equal(processes_get(processes, id, &read), -ENOENT);
    assert_int_equal(processes_get(processes, kept, &read), 0);
    known.pid = 100;
    assert_true(put(fixture, &known) > id); /* a rowid never comes back */
    sqlite3_stmt *count;
    assert_int_equal(db_prepare(store_db(fixture->store), "SELECT count(*) FROM process", &count),
                     0);
    assert_int_equal(db_step(store_db(fixture->store), count), 1);
    assert_int_equal(sqlite3_column_int64(count, 0), 2);
    db_unprepare(store_db(fixture->store), &count);
}

static void test_damaged(void **state)
{
    struct fixture *fixture = *state;
    struct process_facts known = facts();
    const struct process_facts *read;
    int64_t id = put(fixture, &known);
    assert_int_equal(db_exec(store_db(fixture->store), "UPDATE process SET facts = x'ffff'"), 0);
    assert_int_equal(processes_get(store_processes(fixture->store), id, &read), 0);
    assert_int_equal(read->pid, 0);
    assert_int_equal(read->executable_path.len, 0);
}

/* Whose is a span: the table of the rule in join.c. */
static int score_from(const struct peer *sender, const struct process_facts *process, int64_t pid,
                      const char *container, const char *instance, const char *service)
{
    struct buf resource _cleanup_buf_ = {0};
    struct owner_evidence evidence;
    if (pid)
        otlp_attribute_int(&resource, 1, "process.pid", pid);
    if (container)
        otlp_attribute_string(&resource, 1, "container.id", BYTES_STR(container));
    if (instance)
        otlp_attribute_string(&resource, 1, "service.instance.id", BYTES_STR(instance));
    if (service)
        otlp_attribute_string(&resource, 1, "service.name", BYTES_STR(service));
    owner_evidence_of(buf_bytes(&resource), &evidence);
    return owner_score(&evidence, sender, process);
}

static int score(const struct process_facts *process, int64_t pid, const char *container,
                 const char *instance, const char *service)
{
    return score_from(&fixture_forwarder, process, pid, container, instance, service);
}

static void test_owner(void **state)
{
    struct buf published _cleanup_buf_ = {0};
    struct process_facts process = facts(), silent = facts();
    (void)state;
    otlp_attribute_string(&published, 1, "service.name", BYTES_LIT("shop"));
    otlp_attribute_string(&published, 1, "service.instance.id", BYTES_LIT("i-1"));
    process.resource = buf_bytes(&published);
    silent.resource = BYTES(NULL, 0);
    silent.container_id = BYTES(NULL, 0);
    assert_true(score(&process, 10, NULL, NULL, NULL) > 0);
    assert_true(score(&process, 1, "0123456789ab", NULL, NULL) >
                score(&process, 0, "0123456789ab", NULL, NULL));        /* in its own namespace */
    assert_int_equal(score(&process, 1, NULL, NULL, NULL), OWNER_OPEN); /* all have a process 1 */
    assert_int_equal(score(&process, 1, NULL, NULL, "bank"), OWNER_NOT);
    assert_int_equal(score(&process, 11, NULL, "i-1", "shop"), OWNER_NOT);
    assert_int_equal(score(&process, 10, "another", NULL, NULL), OWNER_NOT);
    assert_true(score(&process, 10, CONTAINER, NULL, NULL) > score(&process, 10, NULL, NULL, NULL));
    assert_true(score(&process, 10, "0123456789ab", NULL, NULL) > 0); /* cut short */
    assert_int_equal(score(&process, 10, "0123", NULL, NULL), OWNER_NOT);
    assert_true(score(&process, 10, NULL, "i-2", "bank") > 0); /* the pid decides */
    assert_true(score(&process, 0, NULL, "i-1", NULL) > 0);
    assert_int_equal(score(&process, 0, NULL, "i-2", "shop"), OWNER_NOT);
    assert_true(score(&process, 0, NULL, "i-1", "bank") > 0); /* the instance decides */
    assert_true(score(&process, 0, NULL, NULL, "shop") > 0);
    assert_int_equal(score(&process, 0, NULL, NULL, "bank"), OWNER_NOT);
    assert_int_equal(score(&process, 0, NULL, NULL, NULL), OWNER_OPEN);
    assert_int_equal(score(&silent, 0, "another", "i-1", "shop"), OWNER_OPEN);
    assert_true(score(&silent, 10, "another", NULL, NULL) > 0);
}

/* Its SDK was set up in the process that forked it. */
static void test_owner_with_the_pid_of_its_parent(void **state)
{
    struct buf published _cleanup_buf_ = {0};
    struct process_facts child = facts(), silent = facts();
    const struct peer same = {.cgroup_id = 77}, other = {.cgroup_id = 78};
    (void)state;
    otlp_attribute_string(&published, 1, "service.name", BYTES_LIT("shop"));
    otlp_attribute_string(&published, 1, "process.pid", BYTES_LIT("9"));
    child.cgroup_id = silent.cgroup_id = 77;
    child.resource = buf_bytes(&published);
    silent.resource = BYTES(NULL, 0);
    assert_true(score_from(&same, &child, 9, NULL, NULL, "shop") > 0);
    assert_true(score_from(&same, &child, 9, NULL, NULL, "shop") <
                score_from(&same, &child, 10, NULL, NULL, "shop"));
    assert_int_equal(score_from(&same, &child, 8, NULL, NULL, "shop"), OWNER_NOT);
    assert_int_equal(score_from(&same, &silent, 9, NULL, NULL, "shop"), OWNER_NOT);
    assert_int_equal(score_from(&fixture_forwarder, &child, 9, NULL, NULL, "shop"), OWNER_NOT);
    assert_int_equal(score_from(&other, &child, 9, NULL, NULL, "shop"), OWNER_UNPROVEN);
}

/* Names are chosen and guessed: they agree or contradict, but prove nothing. */
static void test_owner_in_a_named_container(void **state)
{
    static const struct peer stranger = {.cgroup_id = 999};
    struct process_facts process = facts(), named = facts();
    (void)state;
    process.resource = named.resource = BYTES(NULL, 0);
    named.container_id = BYTES_LIT("mail");
    assert_true(score(&named, 10, "mail", NULL, NULL) > score(&named, 10, NULL, NULL, NULL));
    assert_int_equal(score(&named, 10, "web", NULL, NULL), OWNER_NOT);
    assert_int_equal(score(&named, 10, "mai", NULL, NULL), OWNER_NOT); /* no name is cut short */
    assert_int_equal(score(&named, 10, CONTAINER, NULL, NULL),
                     score(&named, 10, NULL, NULL, NULL)); /* a container in it, or by its id */
    assert_true(score_from(&stranger, &process, 0, CONTAINER, NULL, NULL) > 0);
    assert_int_equal(score_from(&stranger, &named, 0, "mail", NULL, NULL), OWNER_UNPROVEN);
    named.container_id = BYTES_LIT("mail-server-in-cellar");
    assert_int_equal(score(&named, 10, "mail-server-in-attic", NULL, NULL), OWNER_NOT);
    assert_int_equal(score(&named, 10, "mail-server-", NULL, NULL), OWNER_NOT);
}

/* Who sent it: at the top of the hierarchy, where processes are that nobody keeps apart, the user
 * counts as well. */
static void test_owner_by_sender(void **state)
{
    struct process_facts process = facts(), top = facts();
    const struct peer same = {.cgroup_id = 77, .uid = 5}, other = {.cgroup_id = 78, .uid = 5},
                      nowhere = {.uid = PEER_UID_UNKNOWN},
                      top_same = {.cgroup_id = CGROUP_TOP_ID, .uid = 5},
                      top_other = {.cgroup_id = CGROUP_TOP_ID, .uid = 6};
    (void)state;
    process.resource = top.resource = top.container_id = BYTES(NULL, 0);
    process.cgroup_id = 77;
    top.cgroup_id = CGROUP_TOP_ID;
    top.uid = 5;
    assert_true(score_from(&same, &process, 0, NULL, NULL, NULL) > 0);
    assert_true(score_from(&same, &process, 1, NULL, NULL, NULL) >
                score_from(&same, &process, 0, NULL, NULL, NULL));
    assert_int_equal(score_from(&same, &process, 11, NULL, NULL, NULL), OWNER_NOT);
    assert_int_equal(score_from(&same, &process, 0, "another-one", NULL, NULL), OWNER_NOT);
    assert_int_equal(score_from(&other, &process, 10, NULL, "i-1", "shop"), OWNER_UNPROVEN);
    assert_int_equal(score_from(&nowhere, &process, 10, NULL, NULL, NULL), OWNER_UNPROVEN);
    assert_true(score_from(&other, &process, 0, "0123456789ab", NULL, NULL) > 0);
    assert_true(score_from(&top_same, &top, 0, NULL, NULL, NULL) > 0);
    assert_int_equal(score_from(&top_other, &top, 0, NULL, NULL, NULL), OWNER_UNPROVEN);
    top.cgroup_id = 0;
    assert_int_equal(score_from(&nowhere, &top, 0, NULL, NULL, NULL), OWNER_UNPROVEN);
}

int main(void)
{
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, fixture_set_up_in_transaction,                           \
                                    fixture_tear_down_in_transaction)
    const struct CMUnitTest tests[] = {
        TEST(test_content),
        TEST(test_limits),
        TEST(test_many),
        TEST(test_damaged),
        TEST(test_owner),
        TEST(test_owner_by_sender),
        TEST(test_owner_with_the_pid_of_its_parent),
        TEST(test_owner_in_a_named_container),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about files: tenants take turns, and few are with the symbolizer at a time. */
#include "agent-bpf/process/symbolizer_client.h"
#include "base/stats.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define FLOODER 7
/* The others: more than one, as two tenants rarely have one share (base/fair_share.h). */
#define TENANT    8
#define N_TENANTS 4
#define N_FLOOD   1000
#define NO_ONE    0
#define ANOTHER   -1 /* kind of request */

static struct loop *loop;
static struct symbolizer_client *client;
static int peer;

static void answered(void *context, struct symbolizer_answer *answer)
{
    (void)context;
    symbolizer_answer_free(answer);
}

static void attach(void)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    if (peer >= 0)
        close(peer);
    peer = fds[1];
    assert_int_equal(symbolizer_client_attach(client, fds[0]), 0);
}

static int set_up(void **state)
{
    (void)state;
    peer = -1;
    assert_int_equal(loop_open(&loop), 0);
    const struct symbolizer_client_settings settings = {.loop = loop, .answered = answered};
    assert_int_equal(symbolizer_client_open(&settings, &client), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (peer >= 0)
        close(peer);
    symbolizer_client_close(client);
    loop_close(loop);
    return 0;
}

/* Of one of the tenant's files; path_size: bytes more. */
static void want(uint64_t tenant, uint32_t number, size_t path_size)
{
    static char path[SYMBOLIZER_PATH_MAX];
    struct symbolizer_message message = {.kind = SYMBOLIZER_EXECUTABLE_WANTED};
    struct list requests;
    memset(path, 'x', sizeof(path));
    path[path_size] = '\0';
    message.executable_ref.mapping.path = path;
    message.executable_ref.identity[0] = (uint8_t)tenant;
    memcpy(message.executable_ref.identity + 1, &number, sizeof(number));
    struct symbolizer_request *request = symbolizer_request_make(&message);
    assert_non_null(request);
    request->tenant = tenant;
    list_init(&requests);
    list_append(&requests, &request->link);
    symbolizer_client_submit(client, &requests);
}

static void want_process(void)
{
    struct list requests;
    struct symbolizer_request *request =
        symbolizer_request_make(&(struct symbolizer_message){.kind = SYMBOLIZER_PROCESS_WANTED});
    assert_non_null(request);
    list_init(&requests);
    list_append(&requests, &request->link);
    symbolizer_client_submit(client, &requests);
}

/* The tenant of the next request about a file; NO_ONE: nothing has come; ANOTHER kind. */
static int take(uint8_t identity[16])
{
    static uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    struct symbolizer_message message;
    struct arena arena;
    ssize_t n = recv(peer, datagram, sizeof(datagram), MSG_DONTWAIT);
    if (n <= 0)
        return NO_ONE;
    arena_init(&arena, 64 * 1024);
    assert_int_equal(symbolizer_message_decode(BYTES(datagram, (size_t)n), &arena, &message), 0);
    bool file = message.kind == SYMBOLIZER_EXECUTABLE_WANTED;
    if (file)
        memcpy(identity, message.executable_ref.identity, 16);
    arena_close(&arena);
    return file ? identity[0] : ANOTHER;
}

static void answer(const uint8_t identity[16])
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct symbolizer_message message = {.kind = SYMBOLIZER_EXECUTABLE};
    memcpy(message.executable.identity, identity, 16);
    assert_int_equal(symbolizer_message_encode(&message, &text), 0);
    assert_int_equal(send(peer, text.data, text.len, 0), text.len);
    assert_int_equal(loop_once(loop, 200), 0);
}

static void want_of_tenants(size_t path_size)
{
    for (unsigned i = 0; i < N_TENANTS; i++)
        want(TENANT + i, 1, path_size);
}

static void test_turns(void **state)
{
    uint8_t sent[SYMBOLIZER_TURNS_MAX][16], identity[16];
    unsigned n = 0, early = 0, all = 0;
    (void)state;
    for (uint32_t i = 0; i < N_FLOOD; i++)
        want(FLOODER, i, 10);
    attach();
    assert_int_equal(take(identity), ANOTHER); /* the scan */
    for (int i = 0; i < SYMBOLIZER_TURNS_MAX; i++)
        assert_int_equal(take(sent[i]), FLOODER);
    assert_int_equal(take(identity), NO_ONE);
    want_of_tenants(10);
    assert_int_equal(take(identity), NO_ONE);
    for (int i = 0; i < SYMBOLIZER_TURNS_MAX; i++)
        answer(sent[i]);
    for (int who; (who = take(identity)) != NO_ONE; n++) {
        all += who >= TENANT;
        early += who >= TENANT && n <= N_TENANTS; /* the flooder has a turn, too */
        answer(identity);
    }
    assert_int_equal(n, N_FLOOD - SYMBOLIZER_TURNS_MAX + N_TENANTS);
    assert_int_equal(all, N_TENANTS);
    assert_in_range(early, N_TENANTS / 2, N_TENANTS);
}

/* Other requests pass those about files, and these are not kept waiting by them. */
static void test_others_pass(void **state)
{
    uint8_t identity[16];
    (void)state;
    attach();
    assert_int_equal(take(identity), ANOTHER);
    for (uint32_t i = 0; i < 2 * SYMBOLIZER_TURNS_MAX; i++)
        want(FLOODER, i, 10);
    for (int i = 0; i < 3; i++)
        want_process();
    for (int i = 0; i < SYMBOLIZER_TURNS_MAX; i++)
        assert_int_equal(take(identity), FLOODER);
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(identity), ANOTHER);
    assert_int_equal(take(identity), NO_ONE);
    symbolizer_client_detach(client);
    want(TENANT, 1, 10);
    for (int i = 0; i < 3; i++)
        want_process();
    attach(); /* what has no answer is asked again, in turns too */
    unsigned others = 0, files = 0;
    for (int who; (who = take(identity)) != NO_ONE;) {
        others += who == ANOTHER;
        files += who >= FLOODER;
    }
    assert_int_equal(others, 4);
    assert_int_equal(files, SYMBOLIZER_TURNS_MAX);
}

/* A flood loses its own. */
static void test_room(void **state)
{
    static const char dropped[] = "spanprof_symbolizer_requests_dropped_total";
    int64_t before = stats_find(dropped, "reason=\"queue_full\"");
    uint8_t identity[16];
    (void)state;
    want_of_tenants(4000);
    for (uint32_t i = 0; i < 2 * SYMBOLIZER_FILES_BYTES_MAX / 4000; i++)
        want(FLOODER, i, 4000);
    int64_t lost = stats_find(dropped, "reason=\"queue_full\"") - before;
    assert_in_range(lost, SYMBOLIZER_FILES_BYTES_MAX / 4000, 2 * SYMBOLIZER_FILES_BYTES_MAX / 4000);
    attach();
    assert_int_equal(take(identity), ANOTHER);
    unsigned tenants = 0;
    for (int i = 0; i < SYMBOLIZER_TURNS_MAX; i++)
        tenants += take(identity) >= TENANT;
    assert_in_range(tenants, SYMBOLIZER_TURNS_MAX / 2, SYMBOLIZER_TURNS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_others_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_room, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that is asked may send, once it has fallen to what it reads. */
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/role.h"
#include "agent-bpf/supervisor/supervisor_answer.h"
#include "agent-bpf/supervisor/supervisor_ask.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/memfd.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define ANSWER_MAX 100
#define LIMIT_NS   (20 * NS_PER_SEC)
#define SHORT_NS   (200 * NS_PER_MS) /* for one that does not end */

/* ---- its part: what it is asked says what it does ---- */

static void send_fd(int answer_fd, int fd)
{
    control_send(answer_fd, &(struct control_message){.kind = CONTROL_ANSWER}, fd);
    close(fd);
}

static void send_unsealed(int answer_fd)
{
    int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd_write(fd, BYTES_LIT("text")) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        send_fd(answer_fd, fd);
}

static int fallen(int answer_fd, const char *what)
{
    static const char large[ANSWER_MAX + 1];
    if (!strcmp(what, "unsealed"))
        send_unsealed(answer_fd);
    else if (!strcmp(what, "large"))
        return answer_contents(answer_fd, 0, BYTES(large, sizeof(large)));
    else if (!strcmp(what, "file"))
        send_fd(answer_fd, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    else if (!strcmp(what, "success"))
        return answer_error(answer_fd, 0, 0);
    else if (!strcmp(what, "heartbeat"))
        control_send(answer_fd, &(struct control_message){.kind = CONTROL_HEARTBEAT}, -1);
    else if (!strcmp(what, "half"))
        send(answer_fd, "half", 4, 0);
    else if (!strcmp(what, "index"))
        return answer_contents(answer_fd, UINT32_MAX, BYTES_LIT("text"));
    else if (!strcmp(what, "flood"))
        for (;;)
            answer_error(answer_fd, 0, -EIO);
    else if (!strcmp(what, "closes")) {
        close(answer_fd);
        pause();
    } else if (!strcmp(what, "silence"))
        pause();
    else if (!strcmp(what, "signal"))
        raise(SIGKILL);
    return !strcmp(what, "code");
}

static int answer(struct role_start *start)
{
    struct bytes rest = buf_bytes(&start->settings);
    const char *what;
    int code = answer_next(&rest, &what) ? fallen(start->config.answer_fd, what) : 1;
    buf_close(&start->settings);
    return code;
}

/* ---- the supervisor's ---- */

struct answers {
    unsigned n;
    size_t i;
    int error; /* of the last one */
};

static void answered(void *context, size_t i, int fd)
{
    struct answers *answers = context;
    answers->n++;
    answers->i = i;
    answers->error = fd < 0 ? fd : 0;
    fd_close(fd);
}

static struct answers ask(const char *what, int result)
{
    uint64_t limit_ns = result == -ETIMEDOUT ? SHORT_NS : LIMIT_NS;
    struct answers answers = {.n = 0};
    const struct supervisor_question question = {.kind = QUESTION_FILES,
                                                 .texts = BYTES(what, strlen(what) + 1),
                                                 .answer_max = ANSWER_MAX,
                                                 .limit_ns = limit_ns,
                                                 .answered = answered,
                                                 .context = &answers};
    uint64_t began_ns = clock_monotonic_ns();
    assert_int_equal(supervisor_ask(&question), result);
    assert_true(clock_monotonic_ns() < began_ns + limit_ns + 10 * NS_PER_SEC);
    return answers;
}

static void expect_answer(const char *what, size_t i, int error)
{
    struct answers answers = ask(what, 0);
    assert_int_equal(answers.n, 1);
    assert_int_equal(answers.i, i);
    assert_int_equal(answers.error, error);
}

static void test_what_is_not_believed(void **state)
{
    (void)state;
    expect_answer("unsealed", 0, -EPROTO);
    expect_answer("large", 0, -EPROTO);
    expect_answer("file", 0, -EPROTO);
    expect_answer("success", 0, -EPROTO);
    expect_answer("index", UINT32_MAX, 0);
    assert_int_equal(ask("heartbeat", 0).n, 0);
    assert_int_equal(ask("half", 0).n, 0);
}

static void test_how_it_ends(void **state)
{
    (void)state;
    assert_int_equal(ask("nothing", 0).n, 0);
    assert_int_equal(ask("code", -EINVAL).n, 0);
    assert_int_equal(ask("signal", -EINVAL).n, 0);
}

/* It dies, so that there is room for others; on a busy node that takes its time. */
static void expect_lost(const char *what)
{
    ask(what, -ETIMEDOUT);
    for (int i = 0; i < 2000 && children_left(SUPERVISED_CONFIG); i++) {
        children_reap_left(clock_monotonic_ns());
        usleep(10000);
    }
    assert_int_equal(children_left(SUPERVISED_CONFIG), 0);
}

/* Each of them is ended. */
static void test_it_has_a_limit(void **state)
{
    (void)state;
    expect_lost("closes");
    expect_lost("flood");
    for (int i = 0; i <= ASKED_LEFT_MAX; i++)
        expect_lost("silence");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_not_believed),
        cmocka_unit_test(test_how_it_ends),
        cmocka_unit_test(test_it_has_a_limit),
    };
    struct role_start start;
    if (role_take(argc, argv, &start))
        return SERVICE_EXIT_FATAL;
    if (start.role == ROLE_CONFIG)
        return answer(&start);
    return cmocka_run_group_tests_name("supervisor_ask", tests, NULL, NULL);
}

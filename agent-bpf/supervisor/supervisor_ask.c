/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/supervisor_ask.h"
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/supervisor_state.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memfd.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#define ANSWERS_A_ROUND 64
#define LOOK_MS         50 /* where no descriptor tells that it has ended */
#define STARVED_NS      (5 * NS_PER_SEC)

/* A place stays for the configuration, which can mend what the others wait for. */
static size_t left_max(enum question kind)
{
    return kind == QUESTION_FILES ? ASKED_LEFT_MAX - 1 : ASKED_LEFT_MAX;
}

int asking_begin(struct asking *asking, const struct supervisor_question *question)
{
    int fds[2];
    uint64_t now_ns = clock_monotonic_ns();
    children_reap_left(now_ns);
    if (children_left(SUPERVISED_CONFIG) >= left_max(question->kind))
        return -EBUSY;
    int r = control_pair(fds);
    if (r < 0)
        return r;
    *asking = (struct asking){.question = *question, .until_ns = now_ns + question->limit_ns};
    asking->question.texts = (struct bytes){0};
    child_init(&asking->child, SUPERVISED_CONFIG, 0);
    asking->child.control_fd = fds[0];
    asking->pid = supervisor_execute_config(question, fds[1]);
    close(fds[1]);
    if (asking->pid < 0) {
        fd_closep(&asking->child.control_fd);
        return asking->pid;
    }
    child_started(&asking->child, asking->pid);
    return 0;
}

int asking_fd(const struct asking *asking)
{
    return asking->heard_all ? asking->child.pidfd : asking->child.control_fd;
}

void asking_end(struct asking *asking)
{
    child_give_up(&asking->child, clock_monotonic_ns());
}

/* What it sends is believed no more than it has to be: it read what others wrote. */
static void take_answer(const struct supervisor_question *question,
                        const struct control_message *message, int fd)
{
    if (message->kind != CONTROL_ANSWER)
        return fd_close(fd);
    int answer = fd;
    if (fd < 0)
        answer = message->error < 0 ? message->error : -EPROTO;
    else if (memfd_size(fd, question->answer_max) < 0)
        answer = -EPROTO;
    if (answer != fd)
        fd_close(fd);
    question->answered(question->context, message->file, answer);
}

/* True: no more will come. */
static bool take_answers(struct asking *asking)
{
    for (int i = 0; i < ANSWERS_A_ROUND; i++) {
        struct control_message message;
        int fd;
        int r = control_receive(asking->child.control_fd, &message, &fd);
        if (r == CONTROL_NONE)
            return false;
        if (r == CONTROL_CLOSED)
            return true;
        if (r == 0)
            take_answer(&asking->question, &message, fd);
    }
    return false;
}

static int ended(int status)
{
    if (WIFSIGNALED(status))
        log_error("supervisor", "the process that reads it was ended by signal %d (%s)",
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
    return status ? -EINVAL : 0;
}

/* Waiting for a CPU does not count, as long as it lasts seconds and not more. */
static bool is_late(const struct asking *asking, uint64_t now_ns)
{
    struct cpu_need need;
    if (now_ns < asking->until_ns)
        return false;
    cpu_need_read(asking->pid, &need);
    return now_ns >= asking->until_ns + STARVED_NS ||
           hang_detector_is_hang(&asking->child.hang, &need, now_ns, asking->question.limit_ns);
}

int asking_hear(struct asking *asking, uint64_t now_ns)
{
    int status;
    if (!asking->heard_all)
        asking->heard_all = take_answers(asking);
    if (asking->heard_all && child_reap(&asking->child, now_ns, &status))
        return ended(status);
    if (!is_late(asking, now_ns))
        return ASKING_UNDER_WAY;
    asking_end(asking);
    return -ETIMEDOUT;
}

int asking_wait(struct asking *asking)
{
    int r;
    do {
        struct pollfd fd = {.fd = asking_fd(asking), .events = POLLIN};
        (void)poll(&fd, 1, LOOK_MS);
        r = asking_hear(asking, clock_monotonic_ns());
    } while (r == ASKING_UNDER_WAY);
    return r;
}

int supervisor_ask(const struct supervisor_question *question)
{
    struct asking asking;
    int r = asking_begin(&asking, question);
    return r < 0 ? r : asking_wait(&asking);
}

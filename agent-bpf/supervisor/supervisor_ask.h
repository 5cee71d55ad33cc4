/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions whose answers may never come, since they lie on a file system or at a server of names
 * that need not answer. A process (ROLE_CONFIG) looks for them, sends each as a sealed memfd, and
 * ends. The supervisor waits for a limited time, and compares and passes on what it gets: it
 * touches no such file system itself. A process that does not end is left as any other child
 * (supervisor_child.h).
 *
 * What is asked is a list of texts; answers have their index. Limit: ASKED_LEFT_MAX processes that
 * were left and are still there, for files one less; then -EBUSY. Thread: the supervisor's.
 */
#include "agent-bpf/supervisor/supervisor_child.h"
#include "base/bytes.h"

enum question {
    QUESTION_CONFIG, /* sources of the configuration: one answer, the image */
    QUESTION_FILES,  /* paths: contents */
    QUESTION_NAMES,  /* names of hosts: their addresses (receiver/listen.h) */
    QUESTIONS,
};

#define ASKED_LEFT_MAX 3

struct supervisor_question {
    enum question kind;
    struct bytes texts; /* as the process of this kind knows them */
    size_t answer_max;  /* bytes */
    uint64_t limit_ns;  /* of time; while there is no CPU for it, up to 5 s more */
    /* fd: a sealed memfd of at most answer_max bytes, the callee's; or negative errno. i is what
     * the process says: any number, any number of times. */
    void (*answered)(void *context, size_t i, int fd);
    void *context;
};

/* Asks, and waits. 0: the process has ended well; -EINVAL: it has said what is wrong; -ETIMEDOUT;
 * -EBUSY; other negative errno. */
int supervisor_ask(const struct supervisor_question *question);

/* The same for a loop, which calls asking_hear() when fd is readable and from time to time, as long
 * as it says ASKING_UNDER_WAY. What texts borrows need not stay. */
enum { ASKING_UNDER_WAY = 1 };

struct asking {
    struct supervisor_question question;
    struct child child;
    pid_t pid; /* also when it has ended */
    uint64_t until_ns;
    bool heard_all;
};

int asking_begin(struct asking *asking, const struct supervisor_question *question);
int asking_fd(const struct asking *asking); /* readable: it is to be heard; -1 */
int asking_hear(struct asking *asking, uint64_t now_ns);
int asking_wait(struct asking *asking); /* until it is not under way any more */
void asking_end(struct asking *asking); /* of one under way: it is left */

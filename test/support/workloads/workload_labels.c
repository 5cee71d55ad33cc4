/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload_labels CPU_MS KEY=VALUE ... [-- KEY=VALUE ...] ...: once SIGUSR1 has come, threads that
 * burn CPU under labels of the custom-labels ABI (v1, in the executable), a set each. Tells
 *     {"type":"ready", "pid"}
 *     {"type":"thread", "number", "tid", "start", "end", "cpu_ns"}    Unix ns, within its labels
 * Source of the format: custom-labels-v1.md of polarsignals/custom-labels.
 */
#include "test/support/workloads/workload_burn.h"
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SETS_MAX   8
#define LABELS_MAX 40
#define EXPORTED   __attribute__((visibility("default"), used))

struct text {
    size_t size;
    const char *at;
};

struct label {
    struct text key, value;
};

struct label_set {
    const struct label *labels;
    size_t count, capacity;
};

extern const uint32_t custom_labels_abi_version;
extern _Thread_local const struct label_set *custom_labels_current_set;
EXPORTED const uint32_t custom_labels_abi_version = 1;
EXPORTED _Thread_local const struct label_set *custom_labels_current_set;

struct work {
    pthread_t thread;
    unsigned number;
    uint64_t cpu_ns;
    struct label labels[LABELS_MAX];
    struct label_set set;
};

static struct work works[SETS_MAX];
static pthread_barrier_t may_go;

static void *run(void *data)
{
    struct work *work = data;
    custom_labels_current_set = &work->set;
    pthread_barrier_wait(&may_go);
    uint64_t start = burn_unix_ns(), before = burn_thread_cpu_ns();
    burn(work->number % BURN_FUNCTIONS, work->cpu_ns, UINT64_MAX);
    uint64_t spent = burn_thread_cpu_ns() - before, end = burn_unix_ns();
    custom_labels_current_set = NULL;
    printf("{\"type\":\"thread\",\"number\":%u,\"tid\":%d,\"start\":%" PRIu64 ",\"end\":%" PRIu64
           ",\"cpu_ns\":%" PRIu64 "}\n",
           work->number, (int)syscall(SYS_gettid), start, end, spent);
    return NULL;
}

static void add_label(struct work *work, const char *argument)
{
    size_t key = strcspn(argument, "=");
    if (work->set.count == LABELS_MAX || !argument[key])
        exit(2);
    struct label *label = &work->labels[work->set.count++];
    label->key = (struct text){key, argument};
    label->value = (struct text){strlen(argument + key + 1), argument + key + 1};
}

static unsigned parse(int argc, char **argv)
{
    unsigned n = 1;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--") != 0)
            add_label(&works[n - 1], argv[i]);
        else if (n++ == SETS_MAX)
            exit(2);
    }
    return n;
}

static void wait_for_signal(void)
{
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL); /* also of the threads to come */
    printf("{\"type\":\"ready\",\"pid\":%d}\n", getpid());
    sigwait(&set, &number);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    unsigned n = parse(argc, argv);
    wait_for_signal();
    pthread_barrier_init(&may_go, NULL, n);
    for (unsigned i = 0; i < n; i++) {
        struct work *work = &works[i];
        work->number = i;
        work->cpu_ns = (uint64_t)atoi(argv[1]) * 1000000;
        work->set.labels = work->labels;
        work->set.capacity = LABELS_MAX;
        if (pthread_create(&work->thread, NULL, run, work))
            return 1;
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(works[i].thread, NULL);
    return 0;
}

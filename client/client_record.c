/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command runs in a cgroup of its own, and a spanprof of its own samples that cgroup alone: so
 * whatever the command starts is seen, and nothing else.
 */
#include "client/client_ask.h"
#include "client/client_cgroup.h"
#include "client/client_node.h"
#include "base/clock.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define FREQUENCY_DEFAULT 199
#define FREQUENCY_MAX     1000
#define OUTPUT_DEFAULT    "record.svg"
#define LAST_SAMPLES_S    6 /* a profile window, and what its stacks take to be found */
#define SUMMARY_ROWS      15
#define EXIT_CANNOT_RUN   127

static volatile sig_atomic_t command_pid;

static void pass_on(int number)
{
    if (command_pid > 0)
        kill(command_pid, number);
}

/* ctrl-C is for the command, to which the terminal sends it; what others send us is passed on. In
 * all cases we go on to tell what it did, and to clean up. */
static const struct {
    int number;
    void (*handler)(int number);
} signals[] = {{SIGINT, SIG_IGN},
               {SIGQUIT, SIG_IGN},
               {SIGPIPE, SIG_IGN},
               {SIGTERM, pass_on},
               {SIGHUP, pass_on}};
#define N_SIGNALS (sizeof(signals) / sizeof(signals[0]))

static void set_signals(struct sigaction before[N_SIGNALS])
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i].number, &(struct sigaction){.sa_handler = signals[i].handler},
                  &before[i]);
}

static void reset_signals(const struct sigaction before[N_SIGNALS])
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i].number, &before[i], NULL);
}

struct recording {
    struct client *client;
    struct client_cgroup cgroup;
    struct client_node node;
    unsigned frequency;
    const char *output;
    struct sigaction signals_before[N_SIGNALS];
};

static int read_frequency(struct recording *recording)
{
    const char *text = recording->client->frequency;
    char *end = NULL;
    unsigned long frequency = text ? strtoul(text, &end, 10) : FREQUENCY_DEFAULT;
    recording->frequency = (unsigned)frequency;
    if (text && (!*text || *end || frequency < 1 || frequency > FREQUENCY_MAX)) {
        fprintf(recording->client->err, "spanprof: -F is samples a second, 1 to %d\n",
                FREQUENCY_MAX);
        return -EINVAL;
    }
    return 0;
}

static void show_log(const struct recording *recording)
{
    char path[300], line[1024];
    client_node_log(&recording->node, path, sizeof(path));
    FILE *log = fopen(path, "re");
    while (log && fgets(line, sizeof(line), log))
        fputs(line, recording->client->err);
    if (log)
        fclose(log);
}

static int recording_prepare(struct recording *recording)
{
    const struct client *client = recording->client;
    if (geteuid() != 0) {
        fputs("spanprof: record samples the kernel's clock and must be run as root (sudo)\n",
              client->err);
        return -EPERM;
    }
    int error = client_check_writable(client, recording->output);
    if (error)
        return error;
    error = client_cgroup_make(&recording->cgroup);
    if (error == -ENOTSUP)
        fputs("spanprof: no cgroup2 is mounted here, which is needed to separate the command's "
              "processes from others; mount -t cgroup2 none DIRECTORY\n",
              client->err);
    else if (error)
        client_fail(client, error, "cannot make a cgroup");
    if (error)
        return error;
    error = client_node_start(&recording->node, recording->cgroup.name, recording->frequency);
    if (error) {
        client_fail(client, error == -ENOENT ? -ECHILD : error, "cannot start sampling");
        show_log(recording);
    }
    return error;
}

static pid_t start_command(const struct recording *recording)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    reset_signals(recording->signals_before);
    char *const *words = recording->client->words;
    int error = client_cgroup_enter(&recording->cgroup);
    if (!error)
        execvp(words[0], words);
    client_fail(recording->client, error ? error : -errno, words[0]);
    _exit(EXIT_CANNOT_RUN);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static int run_command(const struct recording *recording)
{
    struct rusage used = {0};
    int status;
    uint64_t start_ns = clock_monotonic_ns();
    pid_t pid = start_command(recording);
    if (pid < 0)
        return EXIT_CANNOT_RUN;
    command_pid = pid;
    while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
        ;
    command_pid = 0;
    fprintf(
        recording->client->err,
        "\nspanprof: the command ran %.2f s; it and the children it waited for used %.2f s of CPU "
        "time. The last samples come within %d s.\n",
        (double)(clock_monotonic_ns() - start_ns) / 1e9,
        seconds_of(used.ru_utime) + seconds_of(used.ru_stime), LAST_SAMPLES_S);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* There is no Status page for this short run, so losses are printed here. */
static void say_losses(const struct client *client, const struct value *status)
{
    char sentence[512];
    double expired = value_number(value_get(status, "history"), "expired_blocks");
    if (expired > 0)
        fprintf(client->err,
                "spanprof: incomplete: the oldest samples, %.0f times those of 5 s, had to go; a "
                "week is kept at most, and no more than half of what is free in $TMPDIR\n",
                expired);
    for (const struct value *problem = value_items(status, "problems"); problem;
         problem = problem->next) {
        bytes_sanitize(value_text(problem, "what"), sentence, sizeof(sentence));
        fprintf(client->err, "spanprof: %s\n", sentence);
    }
}

static int ask_losses(struct client *client)
{
    struct client_tree tree;
    size_t before = client->query.len;
    client->query.len = 0; /* the status is that of all */
    int error = client_ask_json(client, "/api/status", &tree);
    client->query.len = before;
    if (!error)
        say_losses(client, &tree.root);
    client_tree_close(&tree);
    return error;
}

static int recording_summarize(const struct recording *recording)
{
    struct client *client = recording->client;
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    client->socket = recording->node.socket;
    int error = client_parameter(client, "from", BYTES_LIT("-7d"));
    if (!error && client->json)
        error = client_print_answer(client, "/api/functions");
    else if (!error)
        error = client_put_top(client, SUMMARY_ROWS, &text);
    if (!error && text.len)
        fwrite(text.data, 1, text.len, client->err);
    error = error ? error : client_write_flame(client, recording->output);
    if (!error)
        fprintf(client->err, "\nspanprof: written: %s\n", recording->output);
    error = error ? error : ask_losses(client);
    return error;
}

int client_record(struct client *client)
{
    struct recording recording = {.client = client,
                                  .output = client->output ? client->output : OUTPUT_DEFAULT};
    if (!client->n_words) {
        fputs("spanprof: record what? spanprof record -- COMMAND\n", client->err);
        return 2;
    }
    if (read_frequency(&recording) || client_check_form(client, recording.output))
        return 2;
    set_signals(recording.signals_before);
    int code = 1, error = recording_prepare(&recording);
    if (!error) {
        code = run_command(&recording);
        sleep(LAST_SAMPLES_S);
        if (recording_summarize(&recording) && code == 0)
            code = 1;
    }
    client_node_stop(&recording.node);
    client_cgroup_remove(&recording.cgroup);
    reset_signals(recording.signals_before);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * It is asked one question (supervisor_ask.h), and is given no more rights than that takes: for
 * files it may open any for reading, for names of hosts it may make sockets, and is nobody.
 *
 * Of the configuration it is given the sources that the command line names, each as a byte that
 * says its kind, and its text with a zero; and the environment, which the configuration may refer
 * to.
 */
#include "service/config_process.h"
#include "agent-bpf/supervisor/supervisor_answer.h"
#include "agent-bpf/supervisor/supervisor_ask.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memfd.h"
#include "config/load/config_load.h"
#include "receiver/listen_name.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include "service/supervisor_sandbox.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CONFIG_LIMIT_NS (10 * NS_PER_SEC)
#define NAME_LIMIT_NS   (2 * NS_PER_SEC)

/* ---- the supervisor's part ---- */

static int pack_sources(const struct cli *cli, struct buf *out)
{
    int error = 0;
    for (size_t i = 0; !error && i < cli->n_sources; i++) {
        const struct config_source *source = &cli->sources[i];
        error = buf_append(out, &(uint8_t){(uint8_t)source->kind}, 1);
        if (!error)
            error = buf_append(out, source->text, strlen(source->text) + 1);
    }
    return error ? -ENOMEM : 0;
}

static void take_only_answer(void *context, size_t i, int fd)
{
    int *answer = context;
    if (i != 0 || *answer >= 0)
        return fd_close(fd);
    *answer = fd;
}

/* The sealed memfd with the one answer, or negative errno. */
static int ask_one(enum question kind, struct bytes texts, size_t answer_max, uint64_t limit_ns)
{
    int answer = -ENODATA;
    const struct supervisor_question question = {.kind = kind,
                                                 .texts = texts,
                                                 .answer_max = answer_max,
                                                 .limit_ns = limit_ns,
                                                 .answered = take_only_answer,
                                                 .context = &answer};
    int error = supervisor_ask(&question);
    if (!error)
        return answer;
    fd_close(answer);
    return error;
}

/* The sealed image. */
static int run(const struct cli *cli, struct config **config)
{
    _cleanup_buf_ struct buf sources = BUF_INIT(0);
    _cleanup_wipe_ struct buf image = BUF_INIT(CONFIG_IMAGE_MAX);
    int error = pack_sources(cli, &sources);
    if (error)
        return error;
    _cleanup_fd_ int fd =
        ask_one(QUESTION_CONFIG, buf_bytes(&sources), CONFIG_IMAGE_MAX, CONFIG_LIMIT_NS);
    if (fd < 0)
        return fd;
    error = memfd_read(fd, CONFIG_IMAGE_MAX, &image);
    if (!error)
        error = config_unpack(buf_bytes(&image), config);
    if (error)
        return error == BUF_FULL ? -EFBIG : error;
    int sealed = fd;
    fd = -1;
    return sealed;
}

int config_process_load(const struct cli *cli, struct config **config)
{
    *config = NULL;
    int fd = run(cli, config);
    if (fd == -ETIMEDOUT)
        log_error("config", "the configuration was not read within 10 s; its files may lie on a "
                            "file system that does not answer");
    else if (fd == -EBUSY)
        log_error("config", "the configuration is not read: too many processes that read before "
                            "wait for a file system that does not answer");
    else if (fd < 0 && fd != -EINVAL)
        log_error("config", "cannot read the configuration: %s", strerror(-fd));
    return fd;
}

int config_process_look_up(const char *name, struct buf *addresses)
{
    const struct bytes text = {(const uint8_t *)name, strlen(name) + 1};
    _cleanup_fd_ int fd = ask_one(QUESTION_NAMES, text, LISTEN_ADDRESSES_MAX, NAME_LIMIT_NS);
    return fd < 0 ? fd : memfd_read(fd, LISTEN_ADDRESSES_MAX, addresses);
}

/* ---- its own part ---- */

#define CALLS_OF_ANSWERS                                                                           \
    CALLS_OF_MEMORY, CALLS_OF_PROCESS, CALLS_OF_DESCRIPTORS,                                       \
        SANDBOX_CALL_IF(openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),                       \
        SANDBOX_CALL(readlinkat), SANDBOX_CALL(memfd_create), SANDBOX_CALL(sendmsg),               \
        SANDBOX_CALL_FAILS(ioctl, ENOTTY)

static const struct sandbox_call calls_of_files[] = {
    CALLS_OF_ANSWERS,
#ifdef __x86_64__
    SANDBOX_CALL_IF(open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(readlink),
#endif
};

/* As the service's resolver has them. */
static const struct sandbox_call calls_of_names[] = {
    CALLS_OF_ANSWERS,
    SANDBOX_CALL_IS(socket, 0, AF_UNIX),
    SANDBOX_CALL_IS(socket, 0, AF_INET),
    SANDBOX_CALL_IS(socket, 0, AF_INET6),
    SANDBOX_CALL_FAILS(socket, EAFNOSUPPORT),
    SANDBOX_CALL(connect),
    SANDBOX_CALL(getsockname),
    SANDBOX_CALL(getpeername),
    SANDBOX_CALL(getsockopt),
    SANDBOX_CALL(setsockopt),
    SANDBOX_CALL(sendto),
    SANDBOX_CALL(sendmmsg),
    SANDBOX_CALL(recvfrom),
    SANDBOX_CALL(recvmsg),
    SANDBOX_CALL_IS(ioctl, 1, FIONREAD),
#ifdef __x86_64__
    SANDBOX_CALL(access),
    SANDBOX_CALL_IF(open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(readlink),
#endif
};

const struct sandbox_table config_calls = SANDBOX_TABLE(calls_of_files);
const struct sandbox_table names_calls = SANDBOX_TABLE(calls_of_names);

static int unpack_sources(struct bytes packed, struct cli *cli)
{
    *cli = (struct cli){.command = CLI_RUN};
    while (packed.len) {
        const uint8_t kind = *packed.data;
        const char *text;
        packed = bytes_skip(packed, 1);
        if (cli->n_sources == CLI_SOURCES_MAX || !answer_next(&packed, &text))
            return -EINVAL;
        cli->sources[cli->n_sources++] = (struct config_source){kind, text};
    }
    return 0;
}

/* What is wrong with it is printed here. */
static int answer_config(int answer_fd, struct bytes sources)
{
    struct cli cli;
    struct config *config;
    _cleanup_wipe_ struct buf image = BUF_INIT(CONFIG_IMAGE_MAX);
    int error = unpack_sources(sources, &cli);
    if (error)
        return error;
    if (cli_load_config(&cli, &config, stderr))
        exit(EXIT_FAILURE);
    error = config_pack(config, CONFIG_WITH_SECRETS, &image) ? -ENOMEM : 0;
    config_close(config);
    return error ? error : answer_contents(answer_fd, 0, buf_bytes(&image));
}

static int answer_name(int answer_fd, struct bytes names)
{
    const char *name;
    _cleanup_buf_ struct buf addresses = BUF_INIT(LISTEN_ADDRESSES_MAX);
    int error = answer_next(&names, &name) ? listen_name_resolve(name, &addresses) : -EINVAL;
    return error ? answer_error(answer_fd, 0, error)
                 : answer_contents(answer_fd, 0, buf_bytes(&addresses));
}

int config_process_run(const struct role_start *start)
{
    static const struct {
        const char *name;
        const struct sandbox_table *calls;
        int (*answer)(int answer_fd, struct bytes texts);
    } tasks[QUESTIONS] = {
        [QUESTION_CONFIG] = {"config", &config_calls, answer_config},
        [QUESTION_FILES] = {"files", &config_calls, answer_files},
        [QUESTION_NAMES] = {"names", &names_calls, answer_name},
    };
    enum question question = start->config.question;
    int error = sandbox_calls(tasks[question].calls->calls, tasks[question].calls->n);
    sandbox_break_out(tasks[question].name);
    if (!error)
        error = tasks[question].answer(start->config.answer_fd, buf_bytes(&start->settings));
    if (error)
        log_error("config", "cannot answer: %s", strerror(-error));
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

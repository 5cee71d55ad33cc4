/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof: the table of contents.
 *
 *   a command that asks a running spanprof    client/client.h
 *   exec: a service with its publishers       client/exec.h
 *   validate, print-config and the like       config/load/cli.h
 *   otherwise the supervisor                  service/reload.h, agent-bpf/supervisor/supervisor.h
 *     which starts this program again (--role=...), as
 *     the service                             service/service_process.h, service/service.h
 *     the symbolizer                          service/symbolizer_process.h
 *     the reader                              service/reader_process.h
 *     brokers                                 service/broker_process.h
 *     and who reads the configuration         service/config_process.h
 *
 * docs/architecture.md, "Processes and threads".
 */
#include "agent-bpf/supervisor/role.h"
#include "client/client.h"
#include "client/exec.h"
#include "config/load/cli.h"
#include "service/broker_process.h"
#include "service/config_process.h"
#include "service/reader_process.h"
#include "service/reload.h"
#include "service/service_process.h"
#include "service/symbolizer_process.h"
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define HEAP_LARGE_BYTES (1 << 20)

/* Requests of megabytes come and go. With fixed thresholds each of them has pages of its own, which
 * return to the kernel with it; glibc's own thresholds rise until the heap keeps all of them. */
static void heap_set_up(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 4 * HEAP_LARGE_BYTES);
}

static int role_run(struct role_start *start)
{
    static int (*const runs[ROLES])(const struct role_start *) = {
        [ROLE_SERVICE] = service_process_run,
        [ROLE_SYMBOLIZER] = symbolizer_process_run,
        [ROLE_READER] = reader_process_run,
        [ROLE_BROKER] = broker_process_run,
        [ROLE_CONFIG] = config_process_run};
    int code = runs[start->role](start);
    buf_close(&start->settings);
    return code;
}

int main(int argc, char **argv)
{
    struct cli cli;
    struct role_start start;
    heap_set_up();
    if (role_take(argc, argv, &start))
        return SERVICE_EXIT_FATAL;
    if (start.role != ROLE_NONE)
        return role_run(&start);
    if (argc > 1 && strcmp(argv[1], "exec") == 0)
        return exec_main(argc, argv, stdout, stderr);
    if (argc > 1 && client_has_command(argv[1]))
        return client_main(argc, argv, stdout, stderr);
    if (cli_parse(argc, argv, &cli, stderr))
        return CLI_EXIT_USAGE;
    if (cli.command != CLI_RUN)
        return cli_run_command(&cli, SPANPROF_VERSION, stdout, stderr);
    return reload_run(&cli);
}

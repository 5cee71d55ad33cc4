/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof: the table of contents.
 *
 *   a command that asks a running spanprof    client/client.h
 *   validate, print-config and the like       config/load/cli.h
 *   otherwise the supervisor                  service/reload.h, agent-bpf/supervisor/supervisor.h
 *     which forks the service                 service/service.h
 *     and the symbolizer                      service/symbolizer_process.h
 *
 * docs/architecture.md, "Processes and threads".
 */
#include "client/client.h"
#include "config/load/cli.h"
#include "service/reload.h"
#include <malloc.h>
#include <stdio.h>

#define HEAP_LARGE_BYTES (1 << 20)

/* Requests of megabytes come and go. With fixed thresholds each of them has pages of its own, which
 * return to the kernel with it; glibc's own thresholds rise until the heap keeps all of them. */
static void heap_set_up(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 4 * HEAP_LARGE_BYTES);
}

int main(int argc, char **argv)
{
    struct cli cli;
    heap_set_up();
    if (argc > 1 && client_has_command(argv[1]))
        return client_main(argc, argv, stdout, stderr);
    if (cli_parse(argc, argv, &cli, stderr))
        return CLI_EXIT_USAGE;
    if (cli.command != CLI_RUN)
        return cli_run_command(&cli, SPANPROF_VERSION, stdout, stderr);
    return reload_run(&cli);
}

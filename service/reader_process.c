/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader has the right to see memory and files of all processes, and the least else: it makes
 * no socket, starts no process and opens nothing for writing. Landlock would keep it from looking
 * into processes, as it would the symbolizer (symbolizer_sandbox.c).
 */
#include "service/reader_process.h"
#include "agent-bpf/reader/reader.h"
#include "base/log.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include "service/supervisor_sandbox.h"
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>

static const struct sandbox_call calls[] = {
    SANDBOX_CALL(process_vm_readv),
    SANDBOX_CALL_IF(openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(openat2),
    SANDBOX_CALL(readlinkat),
    SANDBOX_CALL(getdents64),
    SANDBOX_CALL_IS(ioctl, 1, (uint32_t)FS_IOC_GETVERSION),
    SANDBOX_CALL_FAILS(ioctl, ENOTTY),
    SANDBOX_CALL(pwrite64), /* copies of files, to the symbolizer's memfd */
    CALLS_OF_MEMORY,
    CALLS_OF_PROCESS,
    CALLS_OF_DESCRIPTORS,
    CALLS_OF_MESSAGES,
#ifdef __x86_64__
    SANDBOX_CALL_IF(open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(readlink),
#endif
};

const struct sandbox_table reader_calls = SANDBOX_TABLE(calls);

int reader_process_run(const struct role_start *start)
{
    int error = sandbox_calls(calls, sizeof(calls) / sizeof(*calls));
    if (error) {
        log_error("reader", "cannot give up its rights: %s", strerror(-error));
        return EXIT_FAILURE;
    }
    sandbox_break_out("reader");
    return reader_run(start->reader.socket) ? EXIT_FAILURE : EXIT_SUCCESS;
}

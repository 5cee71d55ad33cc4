/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbolizer parses files that strangers made. The reader opens them, so that this process
 * needs no capability and opens nothing: it works on descriptors and bytes alone.
 */
#include "service/symbolizer_sandbox.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include "service/supervisor_sandbox.h"
#include <linux/bpf.h>
#include <linux/fs.h>

static const struct sandbox_call calls[] = {
    /* for the answer of a broker */
    SANDBOX_CALL(socketpair),
    /* libraries look for files of their own */
    SANDBOX_CALL_FAILS(openat, EACCES),
    SANDBOX_CALL_IS(ioctl, 1, (uint32_t)FS_IOC_GETVERSION),
    SANDBOX_CALL_FAILS(ioctl, ENOTTY),
    SANDBOX_CALL(memfd_create), /* for copies of files */
    SANDBOX_CALL(ftruncate),
    /* elements of the maps that it was given */
    SANDBOX_CALL_IS(bpf, 0, BPF_MAP_LOOKUP_ELEM),
    SANDBOX_CALL_IS(bpf, 0, BPF_MAP_UPDATE_ELEM),
    SANDBOX_CALL_IS(bpf, 0, BPF_MAP_DELETE_ELEM),
    SANDBOX_CALL_IS(bpf, 0, BPF_MAP_GET_NEXT_KEY),
    CALLS_OF_MEMORY,
    CALLS_OF_PROCESS,
    CALLS_OF_DESCRIPTORS,
    CALLS_OF_MESSAGES,
};

const struct sandbox_table symbolizer_calls = SANDBOX_TABLE(calls);

int symbolizer_sandbox_enter(void)
{
    int error = sandbox_calls(calls, sizeof(calls) / sizeof(*calls));
    if (!error)
        sandbox_break_out("symbolizer");
    return error;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbolizer parses files that strangers made, and looks into /proc. Landlock would keep it
 * from that: a process in a Landlock domain may look into no process outside it. What holds it are
 * its user, which owns nothing, its filter, and that it has neither network nor a way to start a
 * program.
 */
#include "service/symbolizer_sandbox.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include <linux/bpf.h>
#include <linux/fs.h>

static const struct sandbox_call calls[] = {
    /* for the answer of a broker */
    SANDBOX_CALL(socketpair),
    /* files and memory of processes; nothing is opened for writing */
    SANDBOX_CALL_IF(openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(openat2),
    SANDBOX_CALL(getdents64),
    SANDBOX_CALL(readlinkat),
    SANDBOX_CALL(statfs),
    SANDBOX_CALL_IS(ioctl, 1, (uint32_t)FS_IOC_GETVERSION),
    SANDBOX_CALL_FAILS(ioctl, ENOTTY),
    SANDBOX_CALL(memfd_create),
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
#ifdef __x86_64__
    SANDBOX_CALL_IF(open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(readlink),
#endif
};

int symbolizer_sandbox_enter(void)
{
    int error = sandbox_calls(calls, sizeof(calls) / sizeof(*calls));
    if (!error)
        sandbox_break_out("symbolizer");
    return error;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A file that says it is a Go executable; its process's memory is the file's bytes. */
#include "agent-bpf/contexts/go_binary.h"
#include "agent-bpf/contexts/thread_local.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_input(void *context, uint64_t address, void *out, size_t size)
{
    const struct bytes *input = context;
    if (size > input->len)
        return -EFAULT;
    memcpy(out, input->data + address % (input->len - size + 1), size);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (ftruncate(fd, (off_t)size) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    struct elf elf;
    struct go_binary go;
    if (elf_open(fd, &elf))
        return 0;
    int outcome = go_binary_find(&elf, &go);
    assert(go.found || !go.labels_form);
    if (outcome || !go.found)
        return 0;
    assert(go.major == 1 && go.minor >= 13 && go.labels_form && go.g_labels);
    assert(go.g_in_word + go.g_in_register <= 1);
    struct bytes input = BYTES(data, size);
    struct thread_local_process process = {read_input, &input, .bias = 0x1000,
                                           .is_executable = true};
    struct context_variable variable;
    if (!go_binary_locate(&go, &process, &variable))
        assert(variable.source == CONTEXT_GO_LABELS && variable.go_g_labels == go.g_labels);
    return 0;
}

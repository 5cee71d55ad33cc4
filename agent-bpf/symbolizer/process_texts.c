/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/process_texts.h"
#include "agent-bpf/files/proc_maps.h"
#include <errno.h>

#define KEEP_NS   (10 * NS_PER_MS)
#define BYTES_MAX (64 * 1024)
#define KINDS                                                                                      \
    (1u << READER_STAT | 1u << READER_STATUS | 1u << READER_CGROUP | 1u << READER_EXE |            \
     1u << READER_MOUNTS)

void process_texts_close(struct process_texts *texts)
{
    for (int i = 0; i < READER_TEXTS; i++)
        buf_close(&texts->texts[i]);
    *texts = (struct process_texts){0};
}

int process_text(struct process_texts *texts, uint32_t pid, enum reader_text_kind kind,
                 struct bytes *text)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (texts->pid != pid || now_ns - texts->read_ns > KEEP_NS) {
        for (int i = 0; i < READER_TEXTS; i++)
            texts->texts[i].limit_bytes = i == READER_MOUNTS ? PROC_MOUNTS_BYTES_MAX : BYTES_MAX;
        texts->pid = 0;
        int error = reader_proc_texts(pid, KINDS, texts->texts, texts->outcomes);
        if (error)
            return error;
        texts->pid = pid;
        texts->read_ns = now_ns;
    }
    *text = buf_bytes(&texts->texts[kind]);
    return texts->outcomes[kind];
}

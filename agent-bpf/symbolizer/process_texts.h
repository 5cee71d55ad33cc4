/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What /proc says of the process in hand: the texts that each look at a process needs, asked of the
 * reader in one request. Thread: the owner's.
 */
#include "agent-bpf/files/reader_client.h"

struct process_texts {
    uint32_t pid; /* 0 = of none */
    uint64_t read_ns;
    int outcomes[READER_TEXTS];
    struct buf texts[READER_TEXTS];
};

void process_texts_close(struct process_texts *texts);
/* One of READER_STAT, STATUS, CGROUP, EXE and MOUNTS, at most some milliseconds old; borrowed until
 * the next call. 0, -EAGAIN (the reader has not answered), or negative errno. */
int process_text(struct process_texts *texts, uint32_t pid, enum reader_text_kind kind,
                 struct bytes *text);

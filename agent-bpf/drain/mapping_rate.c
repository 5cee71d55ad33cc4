/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/drain/mapping_rate.h"
#include "base/clock.h"

static struct mapping_tokens *tokens_of(struct mapping_rate *rate, uint32_t pid)
{
    return &rate->of[pid % MAPPING_RATE_PROCESSES];
}

static void tokens_refill(struct mapping_tokens *tokens, uint64_t time_ns)
{
    const uint64_t token_ns = NS_PER_SEC / MAPPING_RATE;
    uint64_t passed_ns = time_ns > tokens->time_ns ? time_ns - tokens->time_ns : 0;
    uint64_t more = passed_ns / token_ns;
    if (!more)
        return;
    tokens->tokens =
        more < MAPPING_BURST - tokens->tokens ? tokens->tokens + (uint32_t)more : MAPPING_BURST;
    tokens->time_ns += more * token_ns;
}

bool mapping_rate_take(struct mapping_rate *rate, uint32_t pid, uint64_t time_ns)
{
    struct mapping_tokens *tokens = tokens_of(rate, pid);
    if (tokens->pid != pid)
        *tokens = (struct mapping_tokens){.pid = pid, .tokens = MAPPING_BURST, .time_ns = time_ns};
    tokens_refill(tokens, time_ns);
    if (!tokens->tokens)
        return false;
    tokens->tokens--;
    return true;
}

void mapping_rate_forget(struct mapping_rate *rate, uint32_t pid)
{
    struct mapping_tokens *tokens = tokens_of(rate, pid);
    if (tokens->pid == pid)
        *tokens = (struct mapping_tokens){0};
}

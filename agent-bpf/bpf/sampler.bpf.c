/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
/*
 * The tick. A record is built in a per-CPU buffer and copied to the ring as a whole, so the reader
 * never waits for a half-written one, and it takes no more space than it needs. Nothing wakes the
 * reader: it polls a few times a second.
 *
 * (Contains kernel helper calls that are offered to GPL-compatible programs alone.)
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "agent-bpf/record.h"
#include "agent-bpf/bpf/arch.bpf.h"
#include "agent-bpf/bpf/connections.bpf.h"
#include "agent-bpf/bpf/unwind.bpf.h"
#include "agent-bpf/bpf/context.bpf.h"
#include "agent-bpf/bpf/context_obi.bpf.h"
#include "agent-bpf/bpf/filter.bpf.h"

#define PF_KTHREAD 0x00200000

/* Set before loading. */
const volatile __u8 ticks_timed; /* in SAMPLER_TICK_NS */
const volatile __u32 pidns_inum; /* spanprof's own PID namespace; 0 = the root */

#define PIDNS_LEVELS 32 /* the kernel's limit */

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20); /* resized before loading */
} ring SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CONTEXT_PROCESSES_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC); /* most nodes have few instrumented processes */
    __type(key, __u32);
    __type(value, struct context_process);
} contexts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SAMPLER_COUNTERS);
    __type(key, __u32);
    __type(value, __u64);
} counters SEC(".maps");

/* By CPU; a value is too large for an array of that kind. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* resized before loading */
    __type(key, __u32);
    __type(value, struct build);
} builds SEC(".maps");

static __always_inline void add(__u32 what, __u64 amount)
{
    __u64 *counter = bpf_map_lookup_elem(&counters, &what);
    if (counter)
        *counter += amount;
}

static __always_inline void count(__u32 what)
{
    add(what, 1);
}

/*
 * numbers[level] cannot be reached through a pointer that the verifier knows to be a struct pid: it
 * would not have the varying index. Read as a plain number, the address may be computed with.
 */
static __always_inline __u64 pid_address(const struct task_struct *task)
{
    return (__u64)BPF_CORE_READ(task, thread_pid);
}

static __always_inline const struct upid *pid_upid(__u64 pid, __u32 level)
{
    __u64 numbers = pid + bpf_core_field_offset(struct pid, numbers);
    return (const struct upid *)(numbers + level * bpf_core_type_size(struct upid));
}

/* Number of a struct pid in spanprof's own namespace, which is not the root; 0: it has none. */
static __noinline __u32 pid_in_namespace(__u64 pid)
{
    __u32 last = pid ? BPF_CORE_READ((const struct pid *)pid, level) : 0;
    for (__u32 level = 1; level < PIDNS_LEVELS && level <= last; level++) {
        const struct upid *upid = pid_upid(pid, level);
        if (BPF_CORE_READ(upid, ns, ns.inum) == pidns_inum)
            return (__u32)BPF_CORE_READ(upid, nr);
    }
    return 0;
}

static __always_inline __u32 pid_seen(const struct task_struct *task, int root_number)
{
    return pidns_inum ? pid_in_namespace(pid_address(task)) : (__u32)root_number;
}

static __always_inline __u32 pid_own(const struct task_struct *task, int root_number)
{
    const struct pid *pid = task->thread_pid;
    __u32 level = pid ? pid->level : 0;
    if (level == 0)
        return (__u32)root_number;
    return (__u32)BPF_CORE_READ(pid_upid(pid_address(task), level), nr);
}

static __always_inline void fill_identity(struct record_header *header, struct task_struct *task)
{
    struct task_struct *leader = task->group_leader;
    header->root_pid = (__u32)task->tgid;
    header->root_tid = (__u32)task->pid;
    header->pid = pid_seen(leader, task->tgid);
    header->tid = pid_seen(task, task->pid);
    header->own_pid = pid_own(leader, task->tgid);
    header->own_tid = pid_own(task, task->pid);
    header->process_start_ns = leader->start_boottime;
    header->cgroup_id = bpf_get_current_cgroup_id();
    header->uid = task->cred->fsuid.val;
    bpf_get_current_comm(header->comm, sizeof(header->comm));
}

/* The context that the process itself publishes. */
static __always_inline void fill_published(struct build *build, struct task_struct *task)
{
    struct record_header *header = &build->header;
    __u32 pid = header->pid;
    struct context_process *process = bpf_map_lookup_elem(&contexts, &pid);
    if (!process || exec_under_way(task))
        return;
    if (!starts_equal(process->process_start_ns, header->process_start_ns))
        count(SAMPLER_CONTEXTS_STALE);
    else
        context_read(process, arch_thread_pointer(task), build);
}

static __always_inline void fill_context(struct build *build, struct task_struct *task)
{
    struct record_header *header = &build->header;
    if (header->pid == 0) {
        count(SAMPLER_FOREIGN_PIDS);
        return;
    }
    fill_published(build, task);
    if (!header->context_source)
        context_read_obi(build);
    if (header->flags & RECORD_FLAG_LABELS_CUT)
        count(SAMPLER_LABELS_CUT);
    if (header->context_source)
        count(SAMPLER_CONTEXTS);
    else if (header->attributes_source)
        count(SAMPLER_LABELS);
    else if (header->flags & RECORD_FLAG_CONTEXT_TORN)
        count(SAMPLER_CONTEXTS_TORN);
}

/* Copies the stack so that user space can finish unwinding. Skipped while the ring is over half
 * full, so that records without a copy still fit. */
static __always_inline __u32 fill_copy(struct build *build, __u32 at)
{
    if (!build->header.pid)
        return 0;
    bool room = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) * 2 <
                bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE);
    __u32 size = room ? (__u32)stack_copy(build, at) : 0;
    if (!size || size > RECORD_STACK_MAX) {
        count(SAMPLER_STACKS_NOT_COPIED);
        return 0;
    }
    build->walk.stack.size = size;
    bpf_probe_read_kernel(build->rest + (at & BUILD_AT_MASK), sizeof(struct record_stack),
                          &build->walk.stack);
    build->header.flags |= RECORD_FLAG_STACK;
    count(SAMPLER_STACKS_COPIED);
    return sizeof(struct record_stack) + size;
}

/* Frames behind the attributes; returns the record's size. */
static __always_inline __u32 fill_stacks(struct bpf_perf_event_data *ctx, struct build *build,
                                         struct task_struct *task)
{
    __u32 at = (build->header.attributes_size + 7u) & BUILD_AT_MASK;
    if (at > RECORD_MAX_ATTRIBUTES)
        at = RECORD_MAX_ATTRIBUTES;
    at += unwind(ctx, build, task, at) * 8;
    if (build->walk.end == UNWIND_END_WANTED || (stacks_always && build->walk.n_frames))
        at += fill_copy(build, at);
    return sizeof(struct record_header) + at;
}

static __always_inline void take_sample(struct bpf_perf_event_data *ctx, struct task_struct *task,
                                        __u64 now)
{
    __u32 cpu = bpf_get_smp_processor_id();
    struct build *build = bpf_map_lookup_elem(&builds, &cpu);
    if (!build)
        return;
    struct record_header *header = &build->header;
    __builtin_memset(header, 0, sizeof(*header));
    header->kind = RECORD_CPU;
    header->time_ns = now;
    header->value_ns = ctx->sample_period; /* of this event: the rate may change */
    header->period_ns = ctx->sample_period;
    header->cpu = cpu;
    if (arch_in_user_mode(&ctx->regs))
        header->flags |= RECORD_FLAG_USER_MODE;
    if (task->flags & PF_KTHREAD)
        header->flags |= RECORD_FLAG_KERNEL_THREAD;
    fill_identity(header, task);
    if (task->mm)
        fill_context(build, task);
    __u32 size = fill_stacks(ctx, build, task);
    if (size > RECORD_MAX_SIZE)
        return;
    header->size = size;
    long lost = bpf_ringbuf_output(&ring, build, size, BPF_RB_NO_WAKEUP);
    count(lost ? SAMPLER_LOST_RING_FULL : SAMPLER_SAMPLES);
}

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
    __u64 now = bpf_ktime_get_ns();
    struct task_struct *task = bpf_get_current_task_btf();
    if (task->pid == 0) /* the idle task */
        return 0;
    __u32 filtered = SAMPLER_SAMPLES;
    if (filter_kinds)
        filtered = filter(task, pid_seen(task->group_leader, task->tgid));
    if (filtered == SAMPLER_SAMPLES)
        take_sample(ctx, task, now);
    else
        count(filtered);
    if (ticks_timed)
        add(SAMPLER_TICK_NS, bpf_ktime_get_ns() - now);
    return 0;
}

static __always_inline void forget(struct task_struct *task)
{
    __u32 pid = pid_seen(task->group_leader, task->tgid);
    if (!pid)
        return;
    bpf_map_delete_elem(&runtimes, &pid);
    if (bpf_map_delete_elem(&contexts, &pid) == 0)
        count(SAMPLER_CONTEXTS_DELETED);
}

/* The new program has its variables elsewhere, or none. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
    forget(task);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
    if (task->signal->live.counter == 0) /* the group's last thread */
        forget(task);
    return 0;
}

/* The connecting side is told in whose context the socket was made, not in whose it becomes
 * established. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_tcp_state, const struct sock *sock, int from, int to)
{
    if (from == TCP_SYN_SENT && to == TCP_ESTABLISHED && connection_is_ours(sock))
        connection_note(sock);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/break_out.h"
#ifdef SANDBOX_BREAK_OUT
#include "base/log.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *target; /* SPANPROF_TEST_BREAK_OUT_TARGET */

static long read_shadow(void)
{
    return open("/etc/shadow", O_RDONLY | O_CLOEXEC);
}

static long read_target(void)
{
    return open(target, O_RDONLY | O_CLOEXEC);
}

static long write_target(void)
{
    return open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

/* A filter does not see its flags. */
static long open_target(unsigned flags)
{
    const struct open_how how = {.flags = flags | O_CLOEXEC};
    return syscall(SYS_openat2, AT_FDCWD, target, &how, sizeof(how));
}

static long openat2_read_target(void)
{
    return open_target(O_RDONLY);
}

static long openat2_write_target(void)
{
    return open_target(O_WRONLY);
}

static long execute(void)
{
    return execl("/bin/true", "true", (char *)NULL);
}

static long start_process(void)
{
    return fork();
}

static long trace_supervisor(void)
{
    return ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
}

static long signal_supervisor(void)
{
    return kill(getppid(), SIGTERM);
}

static long read_supervisor(void)
{
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void *)read_supervisor, 1};
    return process_vm_readv(getppid(), &local, 1, &remote, 1, 0);
}

static long packet_socket(void)
{
    return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
}

static long tcp_socket(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static long connect_target(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(target)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect((int)tcp_socket(), (const struct sockaddr *)&to, sizeof(to));
}

static long listen_anywhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    return bind((int)tcp_socket(), (const struct sockaddr *)&at, sizeof(at));
}

static long become_root(void)
{
    return setresuid(0, 0, 0);
}

static long become_root_for_files(void)
{
    setfsuid(0);
    return setfsuid((uid_t)-1) == 0 ? 0 : -1;
}

static long load_program(void)
{
    union bpf_attr attributes = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER};
    return syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes));
}

static long executable_memory(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) == MAP_FAILED
               ? -1
               : 0;
}

static long new_namespace(void)
{
    return unshare(CLONE_NEWUSER);
}

static long mount_something(void)
{
    return mount("none", "/mnt", "tmpfs", 0, NULL);
}

static long io_uring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL);
}

static const struct attempt {
    const char *name;
    long (*run)(void);
} attempts[] = {
    {"read_shadow", read_shadow},
    {"read_target", read_target},
    {"write_target", write_target},
    {"openat2_read_target", openat2_read_target},
    {"openat2_write_target", openat2_write_target},
    {"execute", execute},
    {"start_process", start_process},
    {"trace_supervisor", trace_supervisor},
    {"signal_supervisor", signal_supervisor},
    {"read_supervisor", read_supervisor},
    {"packet_socket", packet_socket},
    {"tcp_socket", tcp_socket},
    {"connect_target", connect_target},
    {"listen", listen_anywhere},
    {"become_root", become_root},
    {"become_root_for_files", become_root_for_files},
    {"load_program", load_program},
    {"executable_memory", executable_memory},
    {"new_namespace", new_namespace},
    {"mount", mount_something},
    {"io_uring", io_uring},
};

static void try_one(const char *name)
{
    for (size_t i = 0; i < sizeof(attempts) / sizeof(*attempts); i++) {
        if (strcmp(attempts[i].name, name) != 0)
            continue;
        log_info("sandbox", "attempt %s", name);
        errno = 0;
        if (attempts[i].run() < 0)
            log_info("sandbox", "attempt %s failed: %s", name, strerrorname_np(errno));
        else
            log_info("sandbox", "attempt %s succeeded", name);
    }
}

void sandbox_break_out(const char *role)
{
    const char *wanted = getenv("SPANPROF_TEST_BREAK_OUT");
    size_t n = strlen(role);
    target = getenv("SPANPROF_TEST_BREAK_OUT_TARGET");
    if (wanted && strncmp(wanted, role, n) == 0 && wanted[n] == ':')
        try_one(wanted + n + 1);
}
#endif

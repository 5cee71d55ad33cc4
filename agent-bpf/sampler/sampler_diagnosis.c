/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EACCES comes from a security module, or from the verifier if it rejects a program. Only the
 * verifier leaves a log, which libbpf passes on.
 */
#include "agent-bpf/sampler/sampler_diagnosis.h"
#include "agent-bpf/sampler/sampler.h"
#include "base/log.h"
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define KERNEL_BTF  "/sys/kernel/btf/vmlinux"
#define LOG_BEGINS  "-- BEGIN PROG LOAD LOG --"
#define LOG_FIGURES "processed " /* how its last line begins */

static char first_complaint[256];  /* libbpf's: the nearest to what the kernel refused */
static char verifier_verdict[256]; /* its last line, except statistics; empty = it did not run */

static void keep_line(const char *line, char out[256])
{
    int len = (int)strcspn(line, "\n");
    snprintf(out, 256, "%.*s", len < 255 ? len : 255, line);
}

static void note_verdict(char *text)
{
    snprintf(verifier_verdict, sizeof(verifier_verdict), "no word");
    char *rest = strchr(text, '\n'), *next = NULL;
    for (char *line = strtok_r(rest, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        if (!strncmp(line, LOG_FIGURES, sizeof(LOG_FIGURES) - 1) || !strncmp(line, "-- END", 6))
            return;
        keep_line(line, verifier_verdict);
    }
}

static int on_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return 0;
    char line[256];
    keep_line(text, line);
    log_debug("sampler", "libbpf: %s", line);
    if (level == LIBBPF_WARN && !first_complaint[0])
        memcpy(first_complaint, line, sizeof(line));
    if (level == LIBBPF_WARN && strstr(line, LOG_BEGINS))
        note_verdict(text);
    free(text);
    return 0;
}

void sampler_diagnosis_listen(void)
{
    first_complaint[0] = verifier_verdict[0] = '\0';
    libbpf_set_print(on_libbpf);
}

static bool kernel_new_enough(char *release, size_t size)
{
    struct utsname name;
    unsigned major = 0, minor = 0;
    uname(&name);
    snprintf(release, size, "%s", name.release);
    if (sscanf(release, "%u.%u", &major, &minor) != 2)
        return true; /* let the kernel itself decide */
    return major > 6 || (major == 6 && minor >= 1);
}

static long read_sysctl(const char *path)
{
    long value = -1;
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%ld", &value) != 1)
        value = -1;
    fclose(file);
    return value;
}

bool sampler_wants_admin(void)
{
    return read_sysctl("/proc/sys/kernel/perf_event_paranoid") > 2;
}

int sampler_diagnosis_kernel(char *why, size_t size)
{
    char release[65];
    if (!kernel_new_enough(release, sizeof(release))) {
        snprintf(why, size, "this kernel (%s) is too old to sample: 6.1 or later is needed",
                 release);
        return SAMPLER_UNAVAILABLE;
    }
    if (access(KERNEL_BTF, R_OK) < 0) {
        snprintf(why, size,
                 "cannot read " KERNEL_BTF " (%s): sampling needs a kernel built with "
                 "CONFIG_DEBUG_INFO_BTF=y, and /sys mounted where spanprof runs",
                 strerror(errno));
        return SAMPLER_UNAVAILABLE;
    }
    return 0;
}

int sampler_diagnosis_load(int error, char *why, size_t size)
{
    if (error == -ENOMEM)
        return error;
    if (!verifier_verdict[0] && (error == -EPERM || error == -EACCES))
        snprintf(
            why, size,
            "loading BPF programs is not permitted: start spanprof as root, or give it CAP_BPF "
            "and CAP_PERFMON (in a container: --cap-add, and a seccomp profile that allows bpf)");
    else
        snprintf(why, size,
                 "the kernel does not take the BPF program (%s; %s): please report this "
                 "with the output of `uname -a`",
                 strerror(-error), verifier_verdict[0] ? verifier_verdict : first_complaint);
    return SAMPLER_UNAVAILABLE;
}

int sampler_diagnosis_perf(int error, char *why, size_t size)
{
    long paranoid = read_sysctl("/proc/sys/kernel/perf_event_paranoid");
    if (error != -EPERM && error != -EACCES)
        snprintf(why, size, "cannot open a cpu-clock perf event (%s)", strerror(-error));
    else if (paranoid > 2)
        snprintf(why, size,
                 "perf events are not permitted: kernel.perf_event_paranoid is %ld, which asks for "
                 "CAP_SYS_ADMIN; start spanprof as root, or set it to 2 and give CAP_PERFMON",
                 paranoid);
    else
        snprintf(why, size,
                 "perf events of whole CPUs are not permitted: start spanprof as root, or "
                 "give it CAP_PERFMON");
    return SAMPLER_UNAVAILABLE;
}

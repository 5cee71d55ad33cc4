/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service reads what anyone sends, so it is the part most likely to fall. It may then use what
 * it has: its sockets, its store, the streams of samples, and its exporters' ports. It starts no
 * program, opens no other file but what the resolver and TLS read, and reaches no other process.
 *
 * /etc as a whole may be read, as far as the service's user may: resolv.conf, hosts and the CAs are
 * replaced by renaming, and Landlock would go on to allow the file that was there.
 */
#include "service/service_sandbox.h"
#include "base/log.h"
#include "base/peer.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include "service/supervisor_sandbox.h"
#include <limits.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DNS_PORT  53
#define PATHS_MAX (CONFIG_COMPONENTS_MAX + 16)
#define PORTS_MAX (CONFIG_COMPONENTS_MAX * (CONFIG_SIGNALS + 2) + 1)

static const struct sandbox_call calls[] = {
    CALLS_OF_MEMORY,
    CALLS_OF_PROCESS,
    CALLS_OF_THREADS,
    CALLS_OF_DESCRIPTORS,
    CALLS_OF_MESSAGES,
    /* whether a process still lives */
    SANDBOX_CALL_IS(kill, 1, 0),
    /* connections and names of hosts; a socket of another kind is not made, which the resolver
       survives */
    SANDBOX_CALL_IS(socket, 0, AF_UNIX),
    SANDBOX_CALL_IS(socket, 0, AF_INET),
    SANDBOX_CALL_IS(socket, 0, AF_INET6),
    SANDBOX_CALL_FAILS(socket, EAFNOSUPPORT),
    SANDBOX_CALL(socketpair),
    SANDBOX_CALL(connect),
    SANDBOX_CALL(accept),
    SANDBOX_CALL(accept4),
    SANDBOX_CALL(getsockname),
    SANDBOX_CALL(getpeername),
    SANDBOX_CALL(sendmmsg),
    SANDBOX_CALL(recvmmsg),
    SANDBOX_CALL(sendfile),
    SANDBOX_CALL_IS(ioctl, 1, FIONREAD),
    SANDBOX_CALL_IS(ioctl, 1, FIONBIO),
    /* whose a connection is */
    SANDBOX_CALL_IS(ioctl, 1, PEER_PIDFD_ASK),
    SANDBOX_CALL_IS(bpf, 0, BPF_MAP_LOOKUP_AND_DELETE_ELEM),
    SANDBOX_CALL_FAILS(ioctl, ENOTTY),
    /* the store, files of exporters */
    SANDBOX_CALL(openat),
    SANDBOX_CALL(pwrite64),
    SANDBOX_CALL(pwritev),
    SANDBOX_CALL(ftruncate),
    SANDBOX_CALL(fallocate),
    SANDBOX_CALL(fsync),
    SANDBOX_CALL(fdatasync),
    SANDBOX_CALL(flock),
    SANDBOX_CALL_IS(fcntl, 1, F_GETLK),
    SANDBOX_CALL_IS(fcntl, 1, F_SETLK),
    SANDBOX_CALL_IS(fcntl, 1, F_SETLKW),
    SANDBOX_CALL(fchmod),
    SANDBOX_CALL(fchown),
    SANDBOX_CALL(statfs),
    SANDBOX_CALL(faccessat),
    SANDBOX_CALL(faccessat2),
    SANDBOX_CALL(getdents64),
    SANDBOX_CALL(getcwd),
    SANDBOX_CALL(mkdirat),
    SANDBOX_CALL(readlinkat),
    SANDBOX_CALL(renameat),
    SANDBOX_CALL(renameat2),
    SANDBOX_CALL(unlinkat),
#ifdef __x86_64__
    SANDBOX_CALL(access),
    SANDBOX_CALL(open),
    SANDBOX_CALL(mkdir),
    SANDBOX_CALL(readlink),
    SANDBOX_CALL(rename),
    SANDBOX_CALL(rmdir),
    SANDBOX_CALL(unlink),
#endif
};

const struct sandbox_table service_calls = SANDBOX_TABLE(calls);

struct places {
    struct sandbox_path paths[PATHS_MAX];
    char texts[CONFIG_COMPONENTS_MAX][PATH_MAX];
    uint16_t ports[PORTS_MAX];
    struct sandbox_places all;
};

static void places_path(struct places *places, const char *path, enum sandbox_access access)
{
    if (places->all.n_paths < PATHS_MAX)
        places->paths[places->all.n_paths++] = (struct sandbox_path){path, access};
}

static void places_port(struct places *places, const struct config_endpoint *endpoint)
{
    if (endpoint->port && places->all.n_ports < PORTS_MAX)
        places->ports[places->all.n_ports++] = endpoint->port;
}

/* The directory of a file, or the nearest one above it that exists. */
static void places_directory_of(struct places *places, char text[PATH_MAX], const char *path)
{
    char *slash;
    snprintf(text, PATH_MAX, "%s", path);
    do {
        slash = strrchr(text, '/');
        if (slash == text)
            text[1] = '\0';
        else if (slash)
            *slash = '\0';
        else
            snprintf(text, PATH_MAX, ".");
    } while (slash && slash != text && access(text, F_OK) < 0);
    places_path(places, text, SANDBOX_WRITE);
}

static void places_exporter(struct places *places, const struct config_exporter *exporter, size_t i)
{
    if (exporter->type == CONFIG_EXPORTER_FILE)
        places_directory_of(places, places->texts[i], exporter->file.path);
    if (exporter->type != CONFIG_EXPORTER_OTLP_GRPC && exporter->type != CONFIG_EXPORTER_OTLP_HTTP)
        return;
    places_port(places, &exporter->otlp.endpoint);
    places_port(places, &exporter->otlp.url.endpoint);
    for (size_t signal = 0; signal < CONFIG_SIGNALS; signal++)
        places_port(places, &exporter->otlp.urls[signal].endpoint);
}

static void places_read(struct places *places)
{
    static const char *const paths[] = {
        "/etc",
        "/proc", /* cgroups of peers on Unix sockets, before Linux 6.13 */
        "/run/systemd/resolve",
        "/run/resolvconf",
        "/run/NetworkManager",
        "/usr/share/zoneinfo",
        "/usr/share/ca-certificates",
        "/usr/local/share/ca-certificates",
        "/usr/lib/ssl",
        "/usr/share/p11-kit",
        "/dev/urandom",
        "/dev/null"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        places_path(places, paths[i], SANDBOX_READ);
}

static int enter_places(const struct config *config, enum sandbox_support *support)
{
    struct places *places = calloc(1, sizeof(*places));
    if (!places)
        return -ENOMEM;
    places_read(places);
    places_path(
        places,
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE)->sqlite_storage.directory,
        SANDBOX_WRITE);
    places->ports[places->all.n_ports++] = DNS_PORT;
    for (size_t i = 0; i < config->n_exporters; i++)
        if (config->exporters[i].used)
            places_exporter(places, &config->exporters[i], i);
    places->all.paths = places->paths;
    places->all.ports = places->ports;
    int error = sandbox_places(&places->all, support);
    free(places);
    return error;
}

int service_sandbox_enter(const struct config *config, bool first)
{
    static const char *const lacks[] = {
        [SANDBOX_NONE] = "this kernel has no Landlock: which files and ports the service reaches "
                         "is limited by its "
                         "user alone",
        [SANDBOX_PATHS] = "this kernel's Landlock knows no ports (it does from 6.7 on): the "
                          "service may connect to any",
        [SANDBOX_PATHS_AND_PORTS] = NULL};
    enum sandbox_support support;
    int error = enter_places(config, &support);
    if (!error && first && lacks[support])
        log_info("service", "%s", lacks[support]);
    if (!error)
        error = sandbox_calls(calls, sizeof(calls) / sizeof(*calls));
    if (!error)
        sandbox_break_out("service");
    return error;
}

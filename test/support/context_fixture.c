/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/context_fixture.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* One length-delimited field; all lengths here are below 128. */
static size_t put(uint8_t *out, uint8_t field, const void *data, size_t size)
{
    out[0] = (uint8_t)(field << 3 | 2);
    out[1] = (uint8_t)size;
    memcpy(out + 2, data, size);
    return size + 2;
}

static size_t put_pair(uint8_t *out, uint8_t field, const char *key, const uint8_t *any,
                       size_t any_size)
{
    uint8_t pair[256];
    size_t n = put(pair, 1, key, strlen(key));
    n += put(pair + n, 2, any, any_size);
    return put(out, field, pair, n);
}

static size_t put_string_pair(uint8_t *out, uint8_t field, const char *key, const char *value)
{
    uint8_t any[128];
    return put_pair(out, field, key, any, put(any, 1, value, strlen(value)));
}

size_t fixture_payload(uint8_t *out, size_t size, const char *schema)
{
    uint8_t resource[256], any[256], array[256], value[64];
    if (size < 512)
        abort();
    size_t n = put_string_pair(resource, 1, "service.name", "shop");
    size_t at = put(out, 1, resource, n);
    if (schema)
        at += put_string_pair(out + at, 2, OTEL_THREAD_SCHEMA_KEY, schema);
    const char *keys[] = {"http.route", "user.id"};
    size_t array_size = 0;
    for (int i = 0; i < 2; i++)
        array_size += put(array + array_size, 1, value, put(value, 1, keys[i], strlen(keys[i])));
    n = put(any, 5, array, array_size);
    return at + put_pair(out + at, 2, OTEL_THREAD_KEY_MAP_KEY, any, n);
}

struct otel_process_header *fixture_publish(const void *payload, size_t size)
{
    int fd = memfd_create(OTEL_PROCESS_NAME, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 4096))
        return NULL;
    struct otel_process_header *header =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    if (header == MAP_FAILED)
        return NULL;
    madvise(header, 4096, MADV_DONTFORK);
    memcpy(header->signature, OTEL_PROCESS_SIGNATURE, sizeof(header->signature));
    header->version = OTEL_PROCESS_VERSION;
    header->payload_size = (uint32_t)size;
    header->payload = (uintptr_t)payload;
    header->published_at_ns = 1234;
    return header;
}

pid_t fixture_child(void (*body)(void *context), void *context)
{
    int ready[2];
    if (pipe(ready))
        abort();
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body(context);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    char byte;
    if (read(ready[0], &byte, 1) != 1)
        abort();
    close(ready[0]);
    return pid;
}

void fixture_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static char *slurp(pid_t pid, const char *name, size_t *len)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    FILE *file = fopen(path, "re");
    char *text = malloc(1 << 20);
    if (!file || !text)
        abort();
    *len = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

struct fixture_texts fixture_texts(pid_t pid)
{
    struct fixture_texts texts;
    texts.maps = slurp(pid, "maps", &texts.maps_len);
    texts.mounts = slurp(pid, "mountinfo", &texts.mounts_len);
    return texts;
}

void fixture_texts_free(struct fixture_texts *texts)
{
    free(texts->maps);
    free(texts->mounts);
}

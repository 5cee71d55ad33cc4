/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/contexts/context_read.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

size_t context_mappings(pid_t pid, uint64_t *address)
{
    char path[64], line[4096];
    size_t n = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    assert(maps);
    while (fgets(line, sizeof(line), maps)) {
        uint64_t start, end;
        char rights[8], name[256] = "";
        sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %255[^\n]", &start, &end, rights,
               name);
        if (strncmp(name, OTEL_PROCESS_MAP_NAME_SHMEM, strlen(OTEL_PROCESS_MAP_NAME_SHMEM)) &&
            strncmp(name, OTEL_PROCESS_MAP_NAME_MEMFD, strlen(OTEL_PROCESS_MAP_NAME_MEMFD)) &&
            strncmp(name, OTEL_PROCESS_MAP_NAME_ANON, strlen(OTEL_PROCESS_MAP_NAME_ANON)))
            continue;
        assert(rights[2] == '-'); /* readers refuse what is executable */
        *address = start;
        n++;
    }
    fclose(maps);
    return n;
}

static int read_memory(pid_t pid, uint64_t address, void *out, size_t size)
{
    struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}

int context_read(pid_t pid, uint64_t address, struct context_read *read)
{
    struct otel_process_header after;
    int error = read_memory(pid, address, &read->header, sizeof(read->header));
    if (error)
        return error;
    if (!read->header.published_at_ns)
        return -EAGAIN;
    if (memcmp(read->header.signature, OTEL_PROCESS_SIGNATURE, 8) ||
        read->header.version != OTEL_PROCESS_VERSION ||
        read->header.payload_size > sizeof(read->payload))
        return -EBADMSG;
    error = read_memory(pid, read->header.payload, read->payload, read->header.payload_size);
    if (!error)
        error = read_memory(pid, address, &after, sizeof(after));
    if (error)
        return error;
    return after.published_at_ns == read->header.published_at_ns ? 0 : -EAGAIN;
}

struct span {
    const uint8_t *at, *end;
};

static size_t varint(struct span *in)
{
    size_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert(in->at < in->end && shift < 35);
        value |= (size_t)(*in->at & 0x7f) << shift;
        if (!(*in->at++ & 0x80))
            return value;
    }
}

/* The next field, all of which are length-delimited here; false at the end. */
static bool field(struct span *in, unsigned *number, struct span *value)
{
    if (in->at == in->end)
        return false;
    size_t tag = varint(in);
    assert((tag & 7) == 2);
    size_t len = varint(in);
    assert(len <= (size_t)(in->end - in->at));
    *number = (unsigned)(tag >> 3);
    *value = (struct span){in->at, in->at + len};
    in->at += len;
    return true;
}

static bool text_is(struct span text, const char *expected)
{
    size_t len = (size_t)(text.end - text.at);
    return len == strlen(expected) && !memcmp(text.at, expected, len);
}

static void copy_text(struct span text, char out[4097])
{
    size_t len = (size_t)(text.end - text.at);
    assert(len <= 4096);
    memcpy(out, text.at, len);
    out[len] = '\0';
}

/* Searches KeyValue messages that are fields `number` of `in`; gives the AnyValue. */
static bool find_pair(struct span in, unsigned number, const char *key, struct span *value,
                      size_t *n)
{
    struct span pair, part;
    unsigned at, of;
    bool found = false;
    while (field(&in, &at, &pair)) {
        if (at != number)
            continue;
        if (n)
            ++*n;
        bool field_of_key = field(&pair, &of, &part) && of == 1;
        assert(field_of_key);
        bool is_it = key && text_is(part, key);
        bool field_of_value = field(&pair, &of, &part) && of == 2 && pair.at == pair.end;
        assert(field_of_value);
        if (is_it) {
            assert(!found); /* once each */
            *value = part;
            found = true;
        }
    }
    return found;
}

static struct span message(const struct context_read *read)
{
    return (struct span){read->payload, read->payload + read->header.payload_size};
}

static struct span resource(const struct context_read *read)
{
    struct span in = message(read), value;
    unsigned number;
    bool there = field(&in, &number, &value) && number == 1;
    assert(there);
    return value;
}

static bool string_value(struct span any, char out[4097])
{
    struct span text;
    unsigned number;
    bool there = field(&any, &number, &text);
    if (!there || number != 1)
        return false;
    copy_text(text, out);
    return true;
}

bool context_resource(const struct context_read *read, const char *key, char out[4097])
{
    struct span value;
    return find_pair(resource(read), 1, key, &value, NULL) && string_value(value, out);
}

size_t context_resource_count(const struct context_read *read)
{
    struct span value;
    size_t n = 0;
    find_pair(resource(read), 1, NULL, &value, &n);
    return n;
}

bool context_attribute(const struct context_read *read, const char *key, char out[4097])
{
    struct span value;
    return find_pair(message(read), 2, key, &value, NULL) && string_value(value, out);
}

bool context_key_name(const struct context_read *read, unsigned i, char out[4097])
{
    struct span value, array, item;
    unsigned number;
    if (!find_pair(message(read), 2, OTEL_THREAD_KEY_MAP_KEY, &value, NULL))
        return false;
    bool is_array = field(&value, &number, &array) && number == 5;
    assert(is_array);
    while (field(&array, &number, &item)) {
        assert(number == 1);
        if (!i--)
            return string_value(item, out);
    }
    return false;
}

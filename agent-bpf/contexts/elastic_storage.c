/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/contexts/elastic_storage.h"

static bool storage_read(struct bytes *data, void *out, size_t size)
{
    if (data->len < size)
        return false;
    memcpy(out, data->data, size);
    *data = BYTES(data->data + size, data->len - size);
    return true;
}

static bool take_text(struct bytes *data, struct bytes *text)
{
    uint32_t len;
    if (!storage_read(data, &len, sizeof(len)) || len > data->len)
        return false;
    *text = len <= ELASTIC_TEXT_MAX ? BYTES(data->data, len) : BYTES(data->data, 0);
    *data = BYTES(data->data + len, data->len - len);
    return true;
}

static bool is_path(struct bytes path)
{
    return path.len > 0 && path.data[0] == '/' && !memchr(path.data, 0, path.len);
}

int elastic_storage_decode(struct bytes data, struct elastic_storage *storage)
{
    *storage = (struct elastic_storage){0};
    struct elastic_storage found = {0};
    if (!storage_read(&data, &found.minor_version, sizeof(found.minor_version)) ||
        !found.minor_version || !take_text(&data, &found.service_name) ||
        !take_text(&data, &found.service_environment) || !take_text(&data, &found.socket_path))
        return ELASTIC_MALFORMED;
    if (!bytes_utf8_valid(found.service_name))
        found.service_name.len = 0;
    if (!bytes_utf8_valid(found.service_environment))
        found.service_environment.len = 0;
    if (!is_path(found.socket_path))
        found.socket_path.len = 0;
    *storage = found;
    return 0;
}

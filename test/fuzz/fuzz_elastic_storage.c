/* SPDX-License-Identifier: Apache-2.0 */
/* A process storage is memory of a stranger; so is, in part, /proc/PID/status. */
#include "agent-bpf/contexts/elastic_storage.h"
#include "agent-bpf/files/fs_rights.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_within(struct bytes text, const uint8_t *data, size_t size)
{
    assert(text.len <= ELASTIC_TEXT_MAX);
    assert(!text.len || (text.data >= data && text.data + text.len <= data + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elastic_storage storage;
    struct fs_rights rights;
    if (elastic_storage_decode(BYTES(data, size), &storage) == 0) {
        assert_within(storage.service_name, data, size);
        assert_within(storage.service_environment, data, size);
        assert_within(storage.socket_path, data, size);
        assert(bytes_utf8_valid(storage.service_name));
        assert(bytes_utf8_valid(storage.service_environment));
        assert(!storage.socket_path.len || storage.socket_path.data[0] == '/');
    }
    if (fs_rights_parse(BYTES(data, size), &rights))
        assert(rights.n_groups <= FS_RIGHTS_GROUPS_MAX);
    return 0;
}

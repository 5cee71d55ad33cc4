/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration as one process gives it to another: a valid image, changed where the input says:
 * words of 12 bytes, where (modulo the image) and what. It is refused, or all of it can be walked:
 * packed again.
 */
#include "config/load/config_load.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "receivers: {otlp: {protocols: {grpc: {tls: {cert_pem: a, key_pem: b}}}}, sampler: {include: "
    "{comms: [a]}}}\n"
    "processors: {join: }\n"
    "exporters: {otlp_grpc: {endpoint: 'http://b:1', headers: {a: b}}, otlp_http: {endpoint: "
    "'http://b:1/p'}}\n"
    "extensions: {sqlite_storage: , pages: }\n"
    "service:\n"
    "  extensions: [sqlite_storage, pages]\n"
    "  pipelines:\n"
    "    traces: {receivers: [otlp], processors: [join], exporters: [otlp_grpc, otlp_http]}\n"
    "    profiles: {receivers: [sampler], processors: [join], exporters: [otlp_grpc]}\n";

static struct buf valid_image(void)
{
    struct config_source source = {CONFIG_SOURCE_FILE, "/proc/self/fd/0"};
    char path[64];
    int fd = memfd_create("config", MFD_CLOEXEC);
    struct buf errors = BUF_INIT(0), image = BUF_INIT(CONFIG_IMAGE_MAX);
    struct config *config;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    source.text = path;
    if (write(fd, text, sizeof(text) - 1) != sizeof(text) - 1 ||
        config_load(&source, 1, &config, &errors) ||
        config_pack(config, CONFIG_WITH_SECRETS, &image))
        abort();
    config_close(config);
    close(fd);
    return image;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct buf valid;
    struct buf image = BUF_INIT(0), again = BUF_INIT(0);
    struct config *config;
    if (!valid.len)
        valid = valid_image();
    int error = buf_append_bytes(&image, buf_bytes(&valid));
    assert(!error);
    for (; size >= 12; data += 12, size -= 12) {
        uint32_t where;
        memcpy(&where, data, 4);
        memcpy(image.data + where % (image.len - 8), data + 4, 8);
    }
    image.len -= size; /* the rest cuts it */
    if (!config_unpack(buf_bytes(&image), &config)) {
        error = config_pack(config, CONFIG_WITH_SECRETS, &again);
        assert(!error);
        config_close(config);
    }
    buf_close(&again);
    buf_close(&image);
    return 0;
}

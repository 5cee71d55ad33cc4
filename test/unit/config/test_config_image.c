/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration on its way to another process: all of it arrives, without secrets none of those,
 * and what is broken is refused. */
#include "test_config.h"

#define SECRET_KEY    "k-secret"
#define SECRET_HEADER "h-secret"
#define SECRET_TOKEN  "t-secret-0123456789"

static const char text[] =
    "receivers:\n"
    "  otlp: {protocols: {grpc: {tls: {cert_pem: c, key_pem: " SECRET_KEY
    "}}, http: {cors: {allowed_origins: [http://o]}}}}\n"
    "  sampler: {include: {comms: [a, b], cgroups: [/c]}, contexts: {obi_map: /sys/x}}\n"
    "processors: {join: {span_attributes: [x, y]}}\n"
    "exporters:\n"
    "  otlp_grpc: {endpoint: 'http://b:1', headers: {authorization: " SECRET_HEADER "}}\n"
    "  otlp_http: {endpoint: 'https://b:2/p', traces_endpoint: 'http://c:3/t'}\n"
    "  file: {path: /f}\n"
    "extensions:\n"
    "  sqlite_storage: {directory: /s}\n"
    "  pages: {auth: {token: " SECRET_TOKEN "}}\n"
    "service:\n"
    "  user: somebody\n"
    "  extensions: [sqlite_storage, pages]\n"
    "  pipelines:\n"
    "    traces: {receivers: [otlp], processors: [join], exporters: [otlp_grpc, otlp_http, file]}\n"
    "    profiles: {receivers: [sampler], processors: [join], exporters: [otlp_grpc]}\n";

static struct buf pack(enum config_secrets secrets)
{
    struct buf image = BUF_INIT(CONFIG_IMAGE_MAX);
    struct config *config = load_valid(text, NULL, NULL);
    assert_int_equal(config_pack(config, secrets, &image), 0);
    config_close(config);
    return image;
}

static bool holds(const struct buf *image, const char *what)
{
    return memmem(image->data, image->len, what, strlen(what)) != NULL;
}

static void all_of_it_arrives(void **state)
{
    (void)state;
    struct config *config = load_valid(text, NULL, NULL), *copy;
    struct buf image = pack(CONFIG_WITH_SECRETS);
    assert_int_equal(config_unpack(buf_bytes(&image), &copy), 0);
    memset(image.data, 0xa5, image.len); /* the copy is its own */
    buf_close(&image);
    assert_true(config_same(config, copy));
    assert_string_equal(copy->service.user, "somebody");
    assert_string_equal(
        config_find_extension(copy, CONFIG_EXTENSION_PAGES)->pages.socket_endpoint.host,
        "/s/spanprof.sock");
    config_close(copy);
    config_close(config);
}

static void secrets_may_stay_behind(void **state)
{
    static const char *const secrets[] = {SECRET_KEY, SECRET_HEADER, SECRET_TOKEN};
    (void)state;
    struct buf with = pack(CONFIG_WITH_SECRETS), without = pack(CONFIG_WITHOUT_SECRETS);
    for (size_t i = 0; i < sizeof(secrets) / sizeof(*secrets); i++) {
        assert_true(holds(&with, secrets[i]));
        assert_false(holds(&without, secrets[i]));
    }
    struct config *config;
    assert_int_equal(config_unpack(buf_bytes(&without), &config), 0);
    assert_string_equal(config_find_extension(config, CONFIG_EXTENSION_PAGES)->pages.auth.token,
                        "");
    config_close(config);
    buf_close(&with);
    buf_close(&without);
}

static void refuse(struct bytes image)
{
    struct config *config;
    assert_int_equal(config_unpack(image, &config), -EINVAL);
    assert_null(config);
}

/* Numbers have their ranges here too. */
static void numbers_have_ranges(void **state)
{
    (void)state;
    struct buf image = pack(CONFIG_WITH_SECRETS);
    struct config *config = (struct config *)(void *)image.data;
    for (size_t i = 0; i < config->n_receivers; i++)
        if (config->receivers[i].type == CONFIG_RECEIVER_SAMPLER)
            config->receivers[i].sampler.frequency = 0;
    refuse(buf_bytes(&image));
    buf_close(&image);
}

/* Any word may be anything: it is refused, or what comes out can be walked again. */
static void what_is_broken_does_no_harm(void **state)
{
    (void)state;
    struct buf image = pack(CONFIG_WITH_SECRETS), again = BUF_INIT(0);
    refuse(BYTES(image.data, 0));
    refuse(BYTES(image.data, sizeof(struct config) - 1));
    refuse(BYTES(image.data, sizeof(struct config)));
    refuse(BYTES(image.data, image.len - 1));
    unsigned refused = 0, taken = 0;
    for (size_t at = 0; at + 8 <= sizeof(struct config); at += 8 * (1 + at % 37)) {
        uint64_t old, broken[] = {UINT64_MAX, image.len, 1, 0x6161616161616161};
        memcpy(&old, image.data + at, 8);
        for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
            struct config *config;
            memcpy(image.data + at, &broken[i], 8);
            bool ok = !config_unpack(buf_bytes(&image), &config);
            if (ok)
                assert_int_equal(config_pack(config, CONFIG_WITH_SECRETS, &again), 0);
            refused += !ok;
            taken += ok;
            config_close(config);
        }
        memcpy(image.data + at, &old, 8);
    }
    assert_true(refused > 10 && taken > 10);
    buf_close(&again);
    buf_close(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_arrives),
        cmocka_unit_test(secrets_may_stay_behind),
        cmocka_unit_test(numbers_have_ranges),
        cmocka_unit_test(what_is_broken_does_no_harm),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}

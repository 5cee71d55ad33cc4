/* SPDX-License-Identifier: Apache-2.0 */
/* Process storages as agents write them, and as they might; and the messages to them, byte by byte.
 */
#include "receiver/intake/elastic_message.h"
#include "agent-bpf/contexts/elastic_storage.h"
#include "base/buf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void put_text(struct buf *out, struct bytes text)
{
    uint32_t len = (uint32_t)text.len;
    assert_int_equal(buf_append(out, &len, sizeof(len)), 0);
    assert_int_equal(buf_append_bytes(out, text), 0);
}

static struct buf storage_of(uint16_t minor, struct bytes name, struct bytes environment,
                             struct bytes path)
{
    struct buf out = BUF_INIT(0);
    assert_int_equal(buf_append(&out, &minor, sizeof(minor)), 0);
    put_text(&out, name);
    put_text(&out, environment);
    put_text(&out, path);
    return out;
}

#define SHOP(path) storage_of(1, BYTES_LIT("shop"), BYTES_LIT("test"), path)

static void test_whole(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf data = SHOP(BYTES_LIT("/tmp/essock1"));
    struct elastic_storage storage;
    assert_int_equal(elastic_storage_decode(buf_bytes(&data), &storage), 0);
    assert_int_equal(storage.minor_version, 1);
    assert_true(bytes_is(storage.service_name, "shop"));
    assert_true(bytes_is(storage.service_environment, "test"));
    assert_true(bytes_is(storage.socket_path, "/tmp/essock1"));
}

/* A later minor version has further fields; the memory behind is the agent's. */
static void test_later_version(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf data =
        storage_of(7, BYTES_LIT("shop"), BYTES_LIT(""), BYTES_LIT("/s"));
    struct elastic_storage storage;
    assert_int_equal(buf_append(&data, "\xff\xff\xff\xff more", 9), 0);
    assert_int_equal(elastic_storage_decode(buf_bytes(&data), &storage), 0);
    assert_int_equal(storage.minor_version, 7);
    assert_int_equal(storage.service_environment.len, 0);
    assert_true(bytes_is(storage.socket_path, "/s"));
}

static void test_cut(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf data = SHOP(BYTES_LIT("/tmp/essock1"));
    struct elastic_storage storage;
    for (size_t len = 0; len < data.len; len++) {
        uint8_t *exact = malloc(len + 1); /* so that a sanitizer sees one byte too many */
        assert_non_null(exact);
        memcpy(exact, data.data, len);
        assert_int_equal(elastic_storage_decode(BYTES(exact, len), &storage), ELASTIC_MALFORMED);
        assert_int_equal(storage.service_name.len, 0);
        free(exact);
    }
}

/* What a length says must lie within the data, wherever it stands. */
static void test_lengths(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {ELASTIC_STORAGE_MAX - 5,
                                       ELASTIC_STORAGE_MAX,
                                       0x7fffffff,
                                       0x80000000,
                                       0xfffffffa,
                                       0xffffffff};
    struct elastic_storage storage;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        for (size_t at = 2; at <= 10; at += 4) {
            uint8_t data[ELASTIC_STORAGE_MAX] = {1};
            memcpy(data + at, &lengths[i], sizeof(lengths[i]));
            assert_int_equal(elastic_storage_decode(BYTES(data, sizeof(data)), &storage),
                             ELASTIC_MALFORMED);
        }
}

static void test_long_texts(void **state)
{
    (void)state;
    static char text[ELASTIC_TEXT_MAX + 1];
    memset(text, 'a', sizeof(text));
    text[0] = '/';
    struct bytes fits = BYTES(text, ELASTIC_TEXT_MAX), too_long = BYTES(text, sizeof(text));
    struct elastic_storage storage;
    _cleanup_buf_ struct buf long_name = storage_of(1, too_long, fits, fits);
    assert_int_equal(elastic_storage_decode(buf_bytes(&long_name), &storage), 0);
    assert_int_equal(storage.service_name.len, 0);
    assert_true(bytes_equal(storage.service_environment, fits));
    assert_true(bytes_equal(storage.socket_path, fits));
    _cleanup_buf_ struct buf long_path = storage_of(1, fits, too_long, too_long);
    assert_int_equal(elastic_storage_decode(buf_bytes(&long_path), &storage), 0);
    assert_int_equal(storage.service_environment.len, 0);
    assert_int_equal(storage.socket_path.len, 0);
    assert_true(bytes_equal(storage.service_name, fits));
}

static void test_unusable(void **state)
{
    (void)state;
    static const struct bytes paths[] = {BYTES("", 0), BYTES("tmp/s", 5), BYTES("\0abstract", 9),
                                         BYTES("/tmp/s\0x", 8), BYTES("../s", 4)};
    struct elastic_storage storage;
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        _cleanup_buf_ struct buf data =
            storage_of(1, BYTES_LIT("\xff\xfe"), BYTES_LIT("a\xc3"), paths[i]);
        assert_int_equal(elastic_storage_decode(buf_bytes(&data), &storage), 0);
        assert_int_equal(storage.socket_path.len, 0);
        assert_int_equal(storage.service_name.len, 0);
        assert_int_equal(storage.service_environment.len, 0);
    }
    _cleanup_buf_ struct buf version_0 = storage_of(0, paths[0], paths[0], paths[0]);
    assert_int_equal(elastic_storage_decode(buf_bytes(&version_0), &storage), ELASTIC_MALFORMED);
}

/* The bytes of the specification, on a little-endian machine. */
static void test_registration(void **state)
{
    (void)state;
    uint8_t out[ELASTIC_MESSAGE_MAX];
    static const uint8_t empty[] = {2, 0, 1, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0};
    static const uint8_t named[] = {2, 0, 1, 0, 1, 2, 3, 4, 3, 0, 0, 0, 'a', 'b', 'c'};
    assert_int_equal(elastic_registration(out, 1000, BYTES(NULL, 0)), sizeof(empty));
    assert_memory_equal(out, empty, sizeof(empty));
    assert_int_equal(elastic_registration(out, 0x04030201, BYTES_LIT("abc")), sizeof(named));
    assert_memory_equal(out, named, sizeof(named));
    char host[ELASTIC_HOST_ID_MAX] = {0};
    assert_int_equal(elastic_registration(out, 1, BYTES(host, sizeof(host))), 12 + sizeof(host));
}

static void test_correlation(void **state)
{
    (void)state;
    uint8_t out[ELASTIC_MESSAGE_MAX], expected[46] = {1, 0, 1, 0};
    struct elastic_correlation message = {.count = 0x1234};
    for (uint8_t i = 0; i < 40; i++)
        expected[4 + i] = (uint8_t)(100 + i);
    memcpy(message.trace_id, expected + 4, 16);
    memcpy(message.local_root_id, expected + 20, 8);
    memcpy(message.stack_id, expected + 28, 16);
    expected[44] = 0x34, expected[45] = 0x12;
    assert_int_equal(elastic_correlation(out, &message), sizeof(expected));
    assert_memory_equal(out, expected, sizeof(expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),        cmocka_unit_test(test_later_version),
        cmocka_unit_test(test_cut),          cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_long_texts),   cmocka_unit_test(test_unusable),
        cmocka_unit_test(test_registration), cmocka_unit_test(test_correlation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

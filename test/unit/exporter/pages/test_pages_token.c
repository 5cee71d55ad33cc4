/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_token.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char directory[] = "/tmp/spanprof-token-XXXXXX";
static char file[sizeof(directory) + 32];

static int set_up(void **state)
{
    (void)state;
    snprintf(file, sizeof(file), "%s/pages.token", mkdtemp(directory));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(file);
    rmdir(directory);
    memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
    return 0;
}

static void put(const char *text)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_made_once(void **state)
{
    struct buf first = BUF_INIT(0), second = BUF_INIT(0);
    struct stat status;
    (void)state;
    assert_int_equal(pages_token_load(directory, &first), 0);
    assert_int_equal(first.len, 32);
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    assert_int_equal(pages_token_load(directory, &second), 0);
    assert_true(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
    unlink(file);
    buf_clear(&second);
    assert_int_equal(pages_token_load(directory, &second), 0);
    assert_false(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
    buf_close(&first);
    buf_close(&second);
}

static void test_own(void **state)
{
    struct buf token = BUF_INIT(0);
    (void)state;
    put("somebody-wrote-this-one\r\n");
    assert_int_equal(pages_token_load(directory, &token), 0);
    assert_true(bytes_is(buf_bytes(&token), "somebody-wrote-this-one"));
    buf_close(&token);
}

static void test_not_a_token(void **state)
{
    static const char *const texts[] = {"", "\n", "short", "two words of a sentence"};
    char longest[PAGES_TOKEN_BYTES_MAX + 2];
    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t i = 0; i <= sizeof(texts) / sizeof(texts[0]); i++) {
        struct buf token = BUF_INIT(0);
        put(i < sizeof(texts) / sizeof(texts[0]) ? texts[i] : longest);
        assert_int_equal(pages_token_load(directory, &token), -EINVAL);
        buf_close(&token);
    }
}

/* A link is not followed: it might lead to a file that the service alone may read. */
static void test_link(void **state)
{
    struct buf token = BUF_INIT(0);
    (void)state;
    assert_int_equal(symlink("/etc/hostname", file), 0);
    assert_int_equal(pages_token_load(directory, &token), -ELOOP);
    buf_close(&token);
    assert_int_equal(pages_token_load("/nonexistent", &token), -ENOENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_made_once), TEST(test_own), TEST(test_not_a_token),
                                       TEST(test_link)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

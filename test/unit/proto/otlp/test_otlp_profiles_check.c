/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/fixtures/pb_pack.h"
#include "test_otlp_profiles.h"

#include <string.h>

struct broken {
    const char *rule; /* part of the sentence */
    void (*break_it)(Request *request);
};

static Profile *first_profile(Request *request)
{
    return request->resource_profiles[0]->scope_profiles[0]->profiles[0];
}

static void no_resources(Request *request)
{
    request->n_resource_profiles = 0;
}
static void no_scopes(Request *request)
{
    request->resource_profiles[0]->n_scope_profiles = 0;
}
static void no_profiles(Request *request)
{
    request->resource_profiles[0]->scope_profiles[0]->n_profiles = 0;
}
static void no_dictionary(Request *request)
{
    request->dictionary = NULL;
}
static void stack_out(Request *request)
{
    first_profile(request)->samples[0]->stack_index = 99;
}
static void link_negative(Request *request)
{
    first_profile(request)->samples[0]->link_index = -1;
}
static void mixed(Request *request)
{
    first_profile(request)->samples[1]->n_timestamps_unix_nano = 0;
}
static void early(Request *request)
{
    first_profile(request)->samples[0]->timestamps_unix_nano[0] = 999;
}
static void at_end(Request *request)
{
    first_profile(request)->samples[0]->timestamps_unix_nano[0] = 2000;
}
static void key_twice(Request *request)
{
    int32_t *indices = first_profile(request)->samples[0]->attribute_indices;
    indices[1] = indices[0];
}
static void short_id(Request *request)
{
    request->dictionary->link_table[1]->span_id.len = 7;
}
static void long_zero(Request *request)
{
    static uint8_t zero[16];
    request->dictionary->link_table[0]->trace_id = (ProtobufCBinaryData){16, zero};
}
static void empty_table(Request *request)
{
    request->dictionary->n_mapping_table = 0;
}
static void no_empty_string(Request *request)
{
    request->dictionary->string_table[0] = (char *)"zero";
}
static void strings_twice(Request *request)
{
    request->dictionary->string_table[2] = request->dictionary->string_table[1];
}
static void entries_twice(Request *request)
{
    request->dictionary->location_table[2] = request->dictionary->location_table[1];
}
static void orphan(Request *request)
{
    first_profile(request)->samples[0]->link_index = 0;
}
static void backwards(Request *request)
{
    request->dictionary->mapping_table[1]->memory_limit = 0x1000;
}
static void negative_line(Request *request)
{
    request->dictionary->location_table[1]->lines[0]->line = -1;
}
static void nameless(Request *request)
{
    request->dictionary->function_table[1]->name_strindex = 0;
    request->dictionary->function_table[1]->filename_strindex = 0;
    request->dictionary->function_table[1]->start_line = 3;
}
static void same_sample(Request *request)
{
    *first_profile(request)->samples[1] = *first_profile(request)->samples[0];
}
static void zero_id(Request *request)
{
    memset(first_profile(request)->profile_id.data, 0, 16);
}

static const struct broken rules[] = {
    {"no resource_profiles", no_resources},
    {"no scope_profiles", no_scopes},
    {"no profiles", no_profiles},
    {"no dictionary", no_dictionary},
    {"outside of stack_table", stack_out},
    {"outside of link_table", link_negative},
    {"unlike the first", mixed},
    {"outside the window", early},
    {"outside the window", at_end},
    {"key", key_twice},
    {"ids of 16 and 7 bytes", short_id},
    {"link_table[0] is not the zero value", long_zero},
    {"mapping_table is empty", empty_table},
    {"string_table[0] is not the zero value", no_empty_string},
    {"string_table has an entry twice", strings_twice},
    {"location_table has an entry twice", entries_twice},
    {"nothing refers to link_table[1]", orphan},
    {"a mapping ends", backwards},
    {"negative line", negative_line},
    {"without any name", nameless},
    {"two samples of one identity", same_sample},
    {"profile_id", zero_id},
};

static void test_the_check_sees_each_broken_rule(void **state)
{
    const struct plan plans[] = {{"shop", "f", PROFILE_CPU, 1500, 0, 10, true, "worker"},
                                 {"shop", "g", PROFILE_CPU, 1600, 0, 10, false, "other"}};
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0), broken = BUF_INIT(0);
        struct otlp_profiles *profiles = profiles_open(1 << 20);
        struct arena arena;
        char why[200];
        for (size_t j = 0; j < 2; j++)
            assert_int_equal(add(profiles, &plans[j]), 0);
        Request *request = (Request *)(void *)(uintptr_t)finish(profiles, &out, &arena);
        rules[i].break_it(request);
        pb_pack(&request->base, &broken);
        assert_int_equal(otlp_profiles_check(buf_bytes(&broken), 1 << 20, why, sizeof(why)),
                         PROFILES_BREAK_RULE);
        if (!strstr(why, rules[i].rule))
            fail_msg("rule %s: %s", rules[i].rule, why);
        arena_close(&arena);
        otlp_profiles_close(profiles);
    }
}

static void test_the_check_of_other_bytes(void **state)
{
    char why[200];
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles = profiles_open(1 << 20);
    struct plan plan = {"shop", "f", PROFILE_CPU, 1500, 0, 10, true, "worker"};
    (void)state;
    assert_int_equal(otlp_profiles_check(BYTES_LIT("\x0b"), 1 << 20, why, sizeof(why)),
                     PROFILES_MALFORMED);
    assert_true(*why);
    assert_int_equal(add(profiles, &plan), 0);
    assert_int_equal(otlp_profiles_finish(profiles, 1000, 2000, "1", &out), 0);
    for (size_t limit = 0; limit < 12000; limit += 16) {
        int outcome = otlp_profiles_check(buf_bytes(&out), limit, why, sizeof(why));
        assert_true(outcome == PROFILES_TOO_BIG || outcome == PROFILES_CONFORM);
        assert_int_equal(*why != 0, outcome == PROFILES_TOO_BIG);
    }
    otlp_profiles_close(profiles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_check_sees_each_broken_rule),
        cmocka_unit_test(test_the_check_of_other_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

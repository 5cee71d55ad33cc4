/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbols/demangle.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static void shows(void **state)
{
    static const struct {
        const char *mangled, *shown;
    } names[] = {
        {"_Z3foov", "foo"},
        {"_ZN4shop4Cart5totalEid", "shop::Cart::total"},
        {"_ZNK4shop4Cart5totalEv", "shop::Cart::total"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"},
        {"_ZN4shop4CartC2Ev", "shop::Cart::Cart"},
        {"_ZN4shop4CartD0Ev", "shop::Cart::~Cart"},
        {"_Z5twiceIdET_S0_", "twice<double>"},
        {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"},
        {"_ZN4shop4CartppEv", "shop::Cart::operator++"},
        {"_ZL6helperv.part.0", "helper"},
        {"_ZThn16_N4shop4Cart5totalEv", "non-virtual thunk to shop::Cart::total()"},
        /* Rust, legacy: with its hash, and a generic's place */
        {"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
        {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
         "3bar17h930b740aa94f1d3aE",
         "<Test + 'static as foo::Bar<Test>>::bar"},
        /* Rust, v0 */
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
        {"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"},
        {"_RNvC7mycrateu8gdel_5qa", "mycrate::g\xc3\xb6"
                                    "del"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char out[256];
        assert_true(demangle(names[i].mangled, out, sizeof(out)));
        assert_string_equal(out, names[i].shown);
    }
}

static void leaves(void **state)
{
    static const char *const names[] = {"",
                                        "_",
                                        "main",
                                        "_start",
                                        "_Z",
                                        "_R",
                                        "__libc_start_main",
                                        "_ZN",
                                        "_Z3fo",
                                        "_RNvC",
                                        "Z3foov",

                                        "_zend_vm_call",
                                        "_Z99999999999999999999a"};
    char out[256];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (demangle(names[i], out, sizeof(out)))
            fail_msg("%s was taken for %s", names[i], out);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Each template argument repeats the one before it twice: text of 2^60 bytes. */
static void grows(void **state)
{
    char name[1024] = "_Z1fI1aIiiE", out[513];
    (void)state;
    for (int i = 0; i < 60; i++) {
        char more[32];
        if (i == 0)
            strcpy(more, "1bIS0_S0_E");
        else if (i < 35)
            snprintf(more, sizeof(more), "S_IS%c_S%c_E",
                     "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 1],
                     "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 1]);
        else
            snprintf(more, sizeof(more), "S_IS1%c_S1%c_E",
                     "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 35],
                     "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 35]);
        strcat(name, more);
    }
    strcat(name, "Evv");
    double start = seconds();
    bool shown = demangle(name, out, sizeof(out));
    assert_true(seconds() - start < 1);
    assert_true(shown && strlen(out) == sizeof(out) - 1);
}

/* The same by Rust's back references: tuples of twice the tuple before. */
static void grows_in_rust(void **state)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char name[1024] = "_RINvC1a1fTuuE", out[513];
    (void)state;
    size_t before = strlen("INvC1a1f"); /* places are counted from behind "_R" */
    for (int i = 0; i < 40; i++) {
        char more[32];
        size_t here = strlen(name) - 2, at = before - 1;
        if (at < 62)
            snprintf(more, sizeof(more), "TB%c_B%c_E", digits[at], digits[at]);
        else
            snprintf(more, sizeof(more), "TB%c%c_B%c%c_E", digits[at / 62], digits[at % 62],
                     digits[at / 62], digits[at % 62]);
        strcat(name, more);
        before = here;
    }
    strcat(name, "E");
    double start = seconds();
    bool shown = demangle(name, out, sizeof(out));
    assert_true(seconds() - start < 1);
    assert_true(shown && strlen(out) == sizeof(out) - 1);
}

static void nests(void **state)
{
    static const struct {
        const char *start, *again;
    } deep[] = {{"_Z1f", "P"},  {"_Z1f", "1aI"}, {"_ZN", "1a"},     {"_RINvC1a1f", "T"},
                {"_RNv", "Nv"}, {"_ZN", "17h"},  {"_Z1fI", "DpT_"}, {"_Z1f", "U1a"}};
    char name[2048], out[513];
    (void)state;
    for (size_t i = 0; i < sizeof(deep) / sizeof(*deep); i++) {
        strcpy(name, deep[i].start);
        while (strlen(name) + strlen(deep[i].again) < sizeof(name))
            strcat(name, deep[i].again);
        double start = seconds();
        demangle(name, out, sizeof(out));
        assert_true(seconds() - start < 1);
    }
}

static void small_room(void **state)
{
    char out[8];
    (void)state;
    assert_true(demangle("_ZN4shop4Cart5totalEid", out, sizeof(out)));
    assert_string_equal(out, "shop::C");
    assert_true(demangle("_RNvC7mycrateu8gdel_5qa", out, sizeof(out)));
    assert_string_equal(out, "mycrate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows), cmocka_unit_test(leaves),        cmocka_unit_test(grows),
        cmocka_unit_test(nests), cmocka_unit_test(grows_in_rust), cmocka_unit_test(small_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

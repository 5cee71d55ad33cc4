/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers are read strictly: a value that libc's lenient readers would half understand ("10 MiB",
 * "1e3 Hz", "0x") is refused: a program must not run with a value other than the written one.
 */
#include "config/yaml/value.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

bool value_is_null(const char *text)
{
    return is_one_of(text, (const char *const[]){"", "~", "null", "Null", "NULL", NULL});
}

int value_parse_bool(const char *text, bool *value)
{
    *value = is_one_of(text, (const char *const[]){"true", "True", "TRUE", NULL});
    bool no = is_one_of(text, (const char *const[]){"false", "False", "FALSE", NULL});
    return *value || no ? 0 : -EINVAL;
}

static int parse_digits(const char *digits, unsigned base, uint64_t *value)
{
    uint64_t sum = 0;
    bool overflow = false;
    if (!*digits)
        return -EINVAL;
    for (; *digits; digits++) {
        char lower = (char)(*digits | 0x20);
        unsigned digit = *digits >= '0' && *digits <= '9' ? (unsigned)(*digits - '0')
                         : lower >= 'a' && lower <= 'f'   ? (unsigned)(lower - 'a') + 10
                                                          : 99;
        if (digit >= base)
            return -EINVAL;
        overflow |= __builtin_mul_overflow(sum, (uint64_t)base, &sum);
        overflow |= __builtin_add_overflow(sum, (uint64_t)digit, &sum);
    }
    *value = sum;
    return overflow ? -ERANGE : 0;
}

int value_parse_count(const char *text, uint64_t *value)
{
    if (*text == '+')
        text++;
    if (strncmp(text, "0x", 2) == 0)
        return parse_digits(text + 2, 16, value);
    if (strncmp(text, "0o", 2) == 0)
        return parse_digits(text + 2, 8, value);
    return parse_digits(text, 10, value);
}

int value_parse_ratio(const char *text, double *value)
{
    if (!*text || text[strspn(text, "0123456789.eE+-")])
        return -EINVAL;
    char *end;
    *value = strtod(text, &end);
    return end == text || *end || !isfinite(*value) ? -EINVAL : 0;
}

enum value_type value_type(const char *text)
{
    bool boolean;
    uint64_t count;
    double ratio;
    if (value_parse_bool(text, &boolean) == 0)
        return VALUE_BOOL;
    const char *magnitude = text + (*text == '-');
    if (value_parse_count(magnitude, &count) != -EINVAL)
        return VALUE_INT;
    magnitude += *magnitude == '+';
    if (value_parse_ratio(text, &ratio) == 0 ||
        is_one_of(magnitude, (const char *const[]){".inf", ".Inf", ".INF", ".nan", ".NaN", NULL}))
        return VALUE_FLOAT;
    return VALUE_TEXT;
}

static const struct unit {
    const char *name;
    uint64_t ns;
} units[] = {
    /* longer names before those they begin with */
    {"ns", 1},
    {"us", 1000},
    {"µs", 1000},
    {"μs", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", 60 * UINT64_C(1000000000)},
    {"h", 3600 * UINT64_C(1000000000)},
};

static const struct unit *find_unit(const char *text)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strncmp(text, units[i].name, strlen(units[i].name)) == 0)
            return &units[i];
    return NULL;
}

/* One `12.5ms`; moves *text behind it and adds to *ns. */
static int parse_duration_part(const char **text, uint64_t *ns)
{
    const char *digits = *text;
    size_t whole = strspn(digits, "0123456789");
    size_t fraction = digits[whole] == '.' ? strspn(digits + whole + 1, "0123456789") : 0;
    size_t len = whole + (digits[whole] == '.') + fraction;
    const struct unit *unit = find_unit(digits + len);
    if (whole + fraction == 0 || !unit)
        return -EINVAL;
    *text = digits + len + strlen(unit->name);
    uint64_t value = 0;
    for (size_t i = 0; i < whole; i++)
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value))
            return -ERANGE;
    if (__builtin_mul_overflow(value, unit->ns, &value))
        return -ERANGE;
    uint64_t scale = unit->ns; /* below a nanosecond digits are cut, as Go does */
    for (size_t i = 0; i < fraction && scale; i++) {
        scale /= 10;
        value += scale * (uint64_t)(digits[whole + 1 + i] - '0');
    }
    return __builtin_add_overflow(*ns, value, ns) || *ns > INT64_MAX ? -ERANGE : 0;
}

int value_parse_duration(const char *text, uint64_t *ns)
{
    int error = parse_digits(text, 10, ns);
    if (error != -EINVAL)
        return error || *ns > INT64_MAX ? -ERANGE : 0;
    *ns = 0;
    if (*text == '+')
        text++;
    if (!*text)
        return -EINVAL;
    while (*text) {
        error = parse_duration_part(&text, ns);
        if (error)
            return error;
    }
    return 0;
}

void value_format_duration(uint64_t ns, char out[VALUE_DURATION_MAX])
{
    static const struct unit steps[] = {{"h", 3600 * UINT64_C(1000000000)},
                                        {"m", 60 * UINT64_C(1000000000)},
                                        {"s", 1000000000},
                                        {"ms", 1000000},
                                        {"us", 1000},
                                        {"ns", 1}};
    size_t len = 0;
    out[0] = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t n = ns / steps[i].ns;
        ns %= steps[i].ns;
        if (n)
            len += (size_t)snprintf(out + len, VALUE_DURATION_MAX - len, "%llu%s",
                                    (unsigned long long)n, steps[i].name);
    }
    if (len == 0)
        snprintf(out, VALUE_DURATION_MAX, "0s");
}

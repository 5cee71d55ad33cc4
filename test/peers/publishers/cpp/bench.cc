/* SPDX-License-Identifier: Apache-2.0 */
/* What a span and a scope cost: `bench`, `bench publish`. A line each: name, ns. */
#include "set_up.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

template <class Body> static void measure(const char *name, Body body)
{
    enum { TIMES = 200000, ROUNDS = 7 };
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        auto begun = std::chrono::steady_clock::now();
        for (int i = 0; i < TIMES; i++)
            body();
        std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begun;
        best = std::min(best, spent.count() / TIMES);
    }
    printf("%s %.1f\n", name, best);
}

int main(int argc, char **)
{
    auto tracer = set_up(std::unique_ptr<Processor>(new NoProcessor), argc > 1);
    auto span = tracer->StartSpan("span");
    measure("scope", [&] { trace::Scope scope(span); });
    trace::Scope outer(span);
    measure("scope_within", [&] { trace::Scope scope(span); });
    measure("span", [&] {
        auto inner = tracer->StartSpan("inner");
        trace::Scope scope(inner);
    });
}

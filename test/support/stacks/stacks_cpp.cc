// SPDX-License-Identifier: Apache-2.0
// What C++ programs do with stacks: exceptions, with the frames of their libraries between.
#include "test/support/stacks/stacks.h"
#include <cstdlib>
#include <exception>
#include <unistd.h>

namespace
{
struct Error {
    bool burns;
    explicit Error(bool burning) : burns(burning)
    {
    }
    OWN_FRAME ~Error();
};

Error::~Error()
{
    if (burns)
        burn();
    sum = sum + 1;
}

struct Guard {
    OWN_FRAME ~Guard();
};

Guard::~Guard()
{
    burn();
    sum = sum + 1;
}
} // namespace

extern "C" {

OWN_FRAME static void throwing(int depth, bool burning)
{
    if (depth == 0)
        throw Error(burning);
    throwing(depth - 1, burning);
    sum = sum + 1;
}

OWN_FRAME static void in_catch(void)
{
    try {
        throwing(20, false);
    } catch (const Error &) {
        burn();
    }
    sum = sum + 1;
}

OWN_FRAME static void guarded(void)
{
    Guard guard;
    throwing(20, false);
    sum = sum + 1;
}

OWN_FRAME static void in_unwinding(void)
{
    try {
        guarded();
    } catch (const Error &) {
        sum = sum + 1;
    }
}

OWN_FRAME static void in_end_of_catch(void)
{
    try {
        throwing(20, true);
    } catch (const Error &) {
        sum = sum + 1;
    }
    sum = sum + 1;
}

OWN_FRAME static void in_catch_in_catch(void)
{
    try {
        throwing(3, false);
    } catch (const Error &) {
        in_catch();
    }
    sum = sum + 1;
}

[[noreturn]] OWN_FRAME static void on_terminate(void)
{
    burn();
    sum = sum + 1;
    _exit(0);
}

OWN_FRAME static void never_throws(void) noexcept
{
    throwing(2, false);
    sum = sum + 1;
}

OWN_FRAME static void in_search(void)
{
    std::set_terminate(on_terminate);
    never_throws();
    sum = sum + 1;
}
}

int main(int argc, char **argv)
{
    static const struct stacks_mode modes[] = {
        {"in_catch", in_catch},
        {"in_unwinding", in_unwinding},
        {"in_end_of_catch", in_end_of_catch},
        {"in_catch_in_catch", in_catch_in_catch},
        {"in_search", in_search},
        {nullptr, nullptr},
    };
    if (argc < 3)
        return 2;
    burn_ns = std::strtoul(argv[2], nullptr, 10) * 1000000u;
    return stacks_run(modes, argv[1]) ? 0 : 2;
}

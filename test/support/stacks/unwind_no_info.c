/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/stacks/unwind_host.h"

void without_unwind_info(void (*called)(void))
{
    static volatile int calls;
    called();
    calls++;
}

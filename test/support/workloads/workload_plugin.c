/* SPDX-License-Identifier: Apache-2.0 */
/* A library that workload_host loads late: with its own context publishing and its own hot
 * function. */
#include "test/support/workloads/workload_burn.h"
#include "test/support/workloads/workload_span.h"

#include <stddef.h>

int plugin_run(double seconds);
void plugin_burn(uint64_t deadline_ns);

__attribute__((noinline)) void plugin_burn(uint64_t deadline_ns)
{
    burn_duty(3, 90, deadline_ns);
}

/* One span over the time given; its truth goes to stdout. */
int plugin_run(double seconds)
{
    struct workload_process process = {.service = "plugin"};
    struct workload_span span = {.name = "in plugin", .function = "plugin_burn"};
    int error = workload_process_open(&process);
    if (error)
        return error;
    workload_span_begin(&process, &span, NULL);
    plugin_burn(burn_wall_ns() + (uint64_t)(seconds * 1e9));
    workload_span_end(&process, &span);
    return 0;
}

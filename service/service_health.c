/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_health.h"
#include "base/clock.h"
#include "receiver/admission/admission.h"
#include "receiver/intake/intake.h"
#include <errno.h>

#define STUCK_NS (10 * NS_PER_SEC) /* for one batch of the writer */

static const char *health_problem(void *context)
{
    struct service_health *health = context;
    uint64_t since_ns = atomic_load(&health->batch_since_ns), now_ns = clock_monotonic_ns();
    int error = store_health(health->store);
    if (health->stopping)
        return "Server stopping";
    if (!health->receiving)
        return "Server starting";
    if (since_ns && since_ns < now_ns && now_ns - since_ns > STUCK_NS)
        return "Store hangs";
    if (health->intake && admission_is_stuck(intake_admission(health->intake)))
        return "Requests wait for room";
    if (error)
        return error == -ENOSPC ? "Store full" : "Store out of service";
    return NULL;
}

int service_health_open(struct service_health *health, struct loop *loop,
                        const struct config *config, struct listen_sockets *sockets)
{
    const struct config_extension *extension =
        config_find_extension(config, CONFIG_EXTENSION_HEALTH_CHECK);
    health->health = (struct health){health_problem, health};
    return extension ? health_page_open(loop, &extension->health_check, &health->health, sockets,
                                        &health->page)
                     : 0;
}

void service_health_close(struct service_health *health)
{
    health_page_close(health->page);
    health->page = NULL;
}

void service_health_batch(struct service_health *health, bool begins)
{
    CLAIM_THREAD(&health->writer);
    atomic_store(&health->batch_since_ns, begins ? clock_monotonic_ns() : 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP: the sockets of the next generation are open before the service of the present one stops,
 * so that no connection is refused in between, and what cannot be opened is found out while the
 * present one still runs. A further SIGHUP meanwhile replaces the next generation. After the switch
 * the generation before stays open until the one after it: if the service does not start with the
 * changed configuration, the generation before runs again.
 */
#include "service/reload.h"
#include "base/log.h"
#include "config/load/config_load.h"
#include "service/generation.h"
#include "service/supervisor_sandbox.h"
#include <assert.h>
#include <string.h>

enum reload_state {
    RELOAD_STEADY,    /* current runs, and there is nothing to go back to */
    RELOAD_TRIAL,     /* current runs; previous runs again if its service cannot start */
    RELOAD_SWITCHING, /* current stops, then next runs */
    RELOAD_ENDED,
    RELOAD_STATES,
};

enum reload_event {
    RELOAD_ACCEPTED, /* a changed configuration is open */
    RELOAD_STOPPED,  /* the processes have ended in order to reload */
    RELOAD_FATAL,    /* the service cannot start with this configuration */
    RELOAD_EXIT,     /* the processes have ended for any other reason */
    RELOAD_EVENTS,
};

/* clang-format off */
static const enum reload_state reload_after[RELOAD_EVENTS][RELOAD_STATES] = {
    /*                    STEADY            TRIAL             SWITCHING         ENDED */
    [RELOAD_ACCEPTED] = {RELOAD_SWITCHING, RELOAD_SWITCHING, RELOAD_SWITCHING, RELOAD_ENDED},
    [RELOAD_STOPPED] =  {RELOAD_ENDED,     RELOAD_ENDED,     RELOAD_TRIAL,     RELOAD_ENDED},
    [RELOAD_FATAL] =    {RELOAD_ENDED,     RELOAD_STEADY,    RELOAD_ENDED,     RELOAD_ENDED},
    [RELOAD_EXIT] =     {RELOAD_ENDED,     RELOAD_ENDED,     RELOAD_ENDED,     RELOAD_ENDED},
};
/* clang-format on */

struct reload {
    enum reload_state state;
    const struct cli *cli;
    struct generation *current;
    struct generation *next;              /* while SWITCHING */
    struct generation *previous;          /* NULL unless current follows another */
    struct supervisor_sampling *sampling; /* handed from one generation to the next */
    bool fatal;                           /* current's service cannot start */
};

static void reload_step(struct reload *reload, enum reload_event event)
{
    reload->state = reload_after[event][reload->state];
}

/* ---- SIGHUP ---- */

static void reload_reject(struct reload *reload, struct generation *rejected)
{
    generation_close(rejected, reload->current);
    log_error("main", "the changed configuration is not taken; what was there stays in use");
}

static bool reload_accept(struct reload *reload, struct generation *next)
{
    log_info("main", "the configuration has changed: taking it");
    reload->next = next;
    reload_step(reload, RELOAD_ACCEPTED);
    return true;
}

/* Sockets that both have are free for the newer one in between. */
static void reload_replace_next(struct reload *reload, struct generation *newer)
{
    struct generation *next = reload->next;
    generation_release(next, reload->current);
    if (newer && generation_open(newer, reload->current) == 0) {
        generation_close(next, reload->current);
        reload_accept(reload, newer);
        return;
    }
    reload_reject(reload, newer);
    if (generation_open(next, reload->current))
        log_error("main", "nor can the one before be taken any more");
}

/* True: the supervisor is to stop the processes, and then to return. */
static bool reload_on_hangup(void *context)
{
    struct reload *reload = context;
    struct generation *next = generation_load(reload->cli);
    const struct generation *last = reload->next ? reload->next : reload->current;
    assert((reload->state == RELOAD_SWITCHING) == (reload->next != NULL));
    if (next && config_same(last->config, next->config)) {
        generation_close(next, last); /* nothing of it is open */
        return false;
    }
    if (reload->state == RELOAD_SWITCHING) {
        reload_replace_next(reload, next);
        return true;
    }
    if (next && generation_open(next, reload->current) == 0)
        return reload_accept(reload, next);
    reload_reject(reload, next);
    return false;
}

/* ---- from one generation to the next ---- */

static void reload_forward(struct reload *reload)
{
    generation_close(reload->previous, reload->next);
    reload->previous = reload->current;
    reload->current = reload->next;
    reload->next = NULL;
    service_sockets_close(&reload->previous->sockets, &reload->current->sockets);
    generation_announce(reload->current);
}

/* Sockets of both are open until the other's service is there. */
static void reload_back(struct reload *reload)
{
    struct generation *failed = reload->current, *previous = reload->previous;
    log_error("main", "with the changed configuration the service does not start; going back");
    service_sockets_close(&previous->sockets, &failed->sockets);
    if (service_sockets_open(previous->config, &failed->sockets, &previous->sockets)) {
        reload->state = RELOAD_ENDED;
        return;
    }
    reload->current = previous;
    reload->previous = NULL;
    generation_close(failed, previous);
    generation_announce(previous);
}

/* ---- the processes ---- */

static void reload_service_fatal(void *context)
{
    ((struct reload *)context)->fatal = true;
}

static int reload_run_current(struct reload *reload)
{
    reload->fatal = false;
    return generation_run(reload->current,
                          (struct supervisor_settings){.sampling = &reload->sampling,
                                                       .reload = reload_on_hangup,
                                                       .service_fatal = reload_service_fatal,
                                                       .context = reload});
}

int reload_run(const struct cli *cli)
{
    struct reload reload = {.cli = cli};
    int code = CLI_EXIT_FAILURE, error = supervisor_sandbox_enter();
    if (error) {
        log_error("main", "cannot give up system calls: %s", strerror(-error));
        return CLI_EXIT_FAILURE;
    }
    reload.current = generation_load(cli);
    if (!reload.current)
        return CLI_EXIT_FAILURE;
    generation_announce(reload.current);
    if (generation_open(reload.current, NULL))
        reload.state = RELOAD_ENDED;
    while (reload.state != RELOAD_ENDED) {
        code = reload_run_current(&reload);
        reload_step(&reload, code == SUPERVISOR_RELOADED ? RELOAD_STOPPED
                             : reload.fatal              ? RELOAD_FATAL
                                                         : RELOAD_EXIT);
        if (reload.state == RELOAD_TRIAL)
            reload_forward(&reload);
        else if (reload.state == RELOAD_STEADY)
            reload_back(&reload);
    }
    supervisor_sampling_close(reload.sampling);
    generation_close(reload.next, reload.current);
    generation_close(reload.previous, reload.current);
    generation_close(reload.current, NULL);
    return code;
}

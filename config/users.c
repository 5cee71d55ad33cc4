/* SPDX-License-Identifier: Apache-2.0 */
#include "config/users.h"
#include "base/log.h"
#include "base/peer.h"
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

static bool user_parse(const char *text, uint32_t *uid)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    bool is_number = *text >= '0' && *text <= '9' && !*end;
    const struct passwd *account = is_number ? NULL : getpwnam(text);
    if (is_number ? errno || number >= PEER_UID_UNKNOWN : !account)
        return false;
    *uid = account ? account->pw_uid : (uint32_t)number;
    return true;
}

/* What an image says of ids is not believed: they are found here. */
static void users_find_ids(struct config_users *users, const char *component, const char *key)
{
    users->n_ids = 0;
    for (size_t i = 0; i < users->names.count; i++)
        if (user_parse(users->names.items[i], &users->ids[users->n_ids]))
            users->n_ids++;
        else
            log_warn("config", "%s::%s: there is no user \"%s\"", component, key,
                     users->names.items[i]);
}

void users_find(struct config *config)
{
    for (size_t i = 0; i < config->n_processors; i++)
        if (config->processors[i].type == CONFIG_PROCESSOR_JOIN)
            users_find_ids(&config->processors[i].join.forwarders.users, config->processors[i].id,
                           "forwarders::users");
    for (size_t i = 0; i < config->n_exporters; i++)
        if (config->exporters[i].type == CONFIG_EXPORTER_OTLP_GRPC)
            users_find_ids(&config->exporters[i].otlp.socket_users, config->exporters[i].id,
                           "socket_users");
}

bool users_have(const struct config_users *users, uint32_t uid)
{
    for (size_t i = 0; i < users->n_ids; i++)
        if (uid == users->ids[i])
            return true;
    return false;
}

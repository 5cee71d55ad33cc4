/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/crowd.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void crowd_init(struct crowd *crowd)
{
    MAP_INIT(&crowd->groups, struct crowd_group, peer);
}

void crowd_close(struct crowd *crowd)
{
    assert(!crowd->groups.count);
    map_close(&crowd->groups);
}

static struct crowd_group *crowd_group_get(struct crowd *crowd, uint64_t peer)
{
    struct crowd_group *group = map_get(&crowd->groups, &peer);
    if (group)
        return group;
    group = calloc(1, sizeof(*group));
    if (!group)
        return NULL;
    group->peer = peer;
    list_init(&group->idle);
    list_init(&group->busy);
    if (map_put(&crowd->groups, group, NULL)) {
        free(group);
        return NULL;
    }
    return group;
}

int crowd_add(struct crowd *crowd, struct crowd_member *member, uint64_t peer)
{
    assert(!member->crowd);
    struct crowd_group *group = crowd_group_get(crowd, peer);
    if (!group)
        return -ENOMEM;
    group->n++;
    member->crowd = crowd;
    member->group = group;
    list_append(&group->idle, &member->link);
    return 0;
}

void crowd_remove(struct crowd_member *member)
{
    struct crowd *crowd = member->crowd;
    struct crowd_group *group = member->group;
    if (!crowd)
        return;
    list_remove(&member->link);
    member->crowd = NULL;
    member->group = NULL;
    if (--group->n)
        return;
    map_remove(&crowd->groups, &group->peer);
    free(group);
}

void crowd_set_idle(struct crowd_member *member, bool idle)
{
    if (!member->crowd)
        return;
    list_remove(&member->link);
    list_append(idle ? &member->group->idle : &member->group->busy, &member->link);
}

/* The largest group with a connection in this state; of groups as large as that of the newcomer. */
static struct list *largest(const struct crowd *crowd, bool idle, size_t at_least)
{
    struct list *found = NULL;
    struct crowd_group *group;
    for (size_t i = 0; (group = map_next(&crowd->groups, &i));) {
        struct list *list = idle ? &group->idle : &group->busy;
        if (group->n < at_least || list_empty(list))
            continue;
        found = list;
        at_least = group->n + 1;
    }
    return found;
}

struct crowd_member *crowd_choose(const struct crowd *crowd, uint64_t newcomer)
{
    const struct crowd_group *own = map_get(&crowd->groups, &newcomer);
    size_t n_own = own ? own->n : 0;
    struct list *list = largest(crowd, true, n_own);
    if (!list)
        list = largest(crowd, false, 2 * n_own + 2);
    return list ? container_of(list_first(list), struct crowd_member, link) : NULL;
}

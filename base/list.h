/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Intrusive doubly linked list. A list head is a link that points to itself when empty; an unlinked
 * element's link is {NULL, NULL}. Thread: its owner's.
 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

#define LIST_INIT(name) ((struct list){&(name), &(name)})

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline bool list_linked(const struct list *link)
{
    return link->next != NULL;
}

static inline void list_append(struct list *head, struct list *link)
{
    assert(!list_linked(link) && head->prev);
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_prepend(struct list *head, struct list *link)
{
    list_append(head->next, link);
}

static inline void list_remove(struct list *link) /* an unlinked one is left alone */
{
    if (!list_linked(link))
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

static inline struct list *list_first(const struct list *head) /* NULL when empty */
{
    return list_empty(head) ? NULL : head->next;
}

static inline struct list *list_pop(struct list *head) /* NULL when empty */
{
    struct list *link = list_first(head);
    if (link)
        list_remove(link);
    return link;
}

/* The current element may be removed. */
#define list_each(link, tmp, head)                                                                 \
    for ((link) = (head)->next, (tmp) = (link)->next; (link) != (head);                            \
         (link) = (tmp), (tmp) = (link)->next)

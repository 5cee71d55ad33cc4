/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/listen_name.h"
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>

static int name_error(int result)
{
    switch (result) {
    case EAI_SYSTEM:
        return -errno;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_AGAIN:
        return -EAGAIN;
    default:
        return -ENOENT;
    }
}

static int append_address(const struct addrinfo *address, struct buf *addresses)
{
    char text[NI_MAXHOST];
    int result = getnameinfo(address->ai_addr, address->ai_addrlen, text, sizeof(text), NULL, 0,
                             NI_NUMERICHOST);
    return result ? name_error(result) : buf_printf(addresses, "%s\n", text);
}

int listen_name_resolve(const char *name, struct buf *addresses)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list;
    setenv("RES_OPTIONS", "timeout:1", 0); /* so that a second server is asked in time */
    int error, result = getaddrinfo(name, NULL, &hints, &list);
    if (result)
        return name_error(result);
    error = 0;
    for (const struct addrinfo *each = list; each && !error; each = each->ai_next)
        error = append_address(each, addresses);
    freeaddrinfo(list);
    return error;
}

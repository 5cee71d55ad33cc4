/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel fills the room for control data up to its alignment, so there may be more descriptors
 * than the room was made for. */
#include "agent-bpf/passed_fds.h"
#include <string.h>
#include <unistd.h>

size_t passed_fds_take(struct msghdr *header, int *fds, size_t max)
{
    size_t n = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n_fds = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n_fds; i++, n++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (n < max)
                fds[n] = fd;
            else
                close(fd);
        }
    }
    return n;
}

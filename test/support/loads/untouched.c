/* SPDX-License-Identifier: Apache-2.0 */
/* Load without end, below a frame of which most pages are never touched. */
#define UNTOUCHED_BYTES 20000

static unsigned work(volatile unsigned *sum)
{
    for (unsigned i = 0; i < 1000; i++)
        *sum += i;
    return *sum;
}

static __attribute__((noinline)) unsigned large(unsigned i)
{
    volatile unsigned frame[UNTOUCHED_BYTES / sizeof(unsigned)];
    frame[0] = i;
    return work(frame) + frame[0];
}

int main(void)
{
    for (unsigned i = 0;; i++)
        large(i);
}

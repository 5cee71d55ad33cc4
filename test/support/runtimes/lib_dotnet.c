/* SPDX-License-Identifier: Apache-2.0 */
/* What libcoreclr exports. */
int coreclr_initialize(void);

int coreclr_initialize(void)
{
    return 0;
}

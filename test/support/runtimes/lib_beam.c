/* SPDX-License-Identifier: Apache-2.0 */
/* What BEAM exports to native functions and drivers. */
int enif_alloc_env(void);

int enif_alloc_env(void)
{
    return 0;
}

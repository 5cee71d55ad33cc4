/* SPDX-License-Identifier: Apache-2.0 */
/* What libperl and perl export. */
int perl_construct(void);

int perl_construct(void)
{
    return 0;
}

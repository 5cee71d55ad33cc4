/* SPDX-License-Identifier: Apache-2.0 */
/* What libphp and PHP's executables export. */
int php_module_startup(void);

int php_module_startup(void)
{
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What libluajit and what embeds LuaJIT export. */
int luaJIT_setmode(void);

int luaJIT_setmode(void)
{
    return 0;
}

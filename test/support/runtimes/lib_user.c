/* SPDX-License-Identifier: Apache-2.0 */
/* Uses libruby: it names the symbol, but does not define it. */
void ruby_init(void);
void user(void);

void user(void)
{
    ruby_init();
}

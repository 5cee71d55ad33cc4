/* SPDX-License-Identifier: Apache-2.0 */
/* What libruby exports. */
void ruby_init(void);

void ruby_init(void)
{
}

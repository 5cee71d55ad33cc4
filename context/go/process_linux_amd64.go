// SPDX-License-Identifier: Apache-2.0

package spanprofotel

const sysMemfdCreate = 319

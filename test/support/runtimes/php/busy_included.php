<?php
/* SPDX-License-Identifier: Apache-2.0 */
/* What busy.php includes: its own lines burn too. */
for ($i = 0, $sum = 0; $i < 500; $i++) {
    $sum += $i;
}
return spin(500);

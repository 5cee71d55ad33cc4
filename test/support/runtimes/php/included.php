<?php
/* SPDX-License-Identifier: Apache-2.0 */
/* What frames.php includes: its own lines are a frame. */

Made\Here\told('include');

(function () {
    Made\Here\told('closure_of_include');
})();

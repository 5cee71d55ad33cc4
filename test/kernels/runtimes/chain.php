<?php
// SPDX-License-Identifier: Apache-2.0
// Calls of known names for SECONDS of CPU time: outer, middle, inner, which works.
function inner($turns) {
    $total = 0;
    for ($turn = 0; $turn < $turns; $turn++)
        $total += $turn % 7;
    return $total;
}

function middle($turns) {
    return inner($turns) + 1;
}

function outer($turns) {
    return middle($turns) + 1;
}

function cpu_time() {
    $usage = getrusage();
    return $usage["ru_utime.tv_sec"] + $usage["ru_utime.tv_usec"] / 1e6;
}

$end = cpu_time() + (float)$argv[1];
while (cpu_time() < $end)
    outer(100000);

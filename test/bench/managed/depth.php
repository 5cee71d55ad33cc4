<?php
// SPDX-License-Identifier: Apache-2.0
// Works below DEPTH calls, again and again.
function work(): int
{
    $sum = 0;
    for ($i = 0; $i < 200000; $i++)
        $sum += $i & 7;
    return $sum;
}

function descend(int $depth): int
{
    return $depth > 1 ? descend($depth - 1) + 1 : work();
}

$depth = (int)$argv[1];
descend($depth);
echo "works\n";
while (true)
    descend($depth);

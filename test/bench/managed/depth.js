// SPDX-License-Identifier: Apache-2.0
// Works below DEPTH calls, again and again.
function work() {
    let sum = 0;
    for (let i = 0; i < 200000; i++)
        sum += i % 7;
    return sum;
}

function descend(depth) {
    return depth > 1 ? descend(depth - 1) + 1 : work();
}

const depth = Number(process.argv[2]);
descend(depth);
require("fs").writeSync(1, "works\n");
for (;;)
    descend(depth);

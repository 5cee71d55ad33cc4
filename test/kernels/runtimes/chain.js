// SPDX-License-Identifier: Apache-2.0
// Calls of known names for SECONDS of CPU time: outer, middle, inner, which works.
function inner(turns) {
    let total = 0;
    for (let turn = 0; turn < turns; turn++)
        total += turn % 7;
    return total;
}

function middle(turns) {
    return inner(turns) + 1;
}

function outer(turns) {
    return middle(turns) + 1;
}

const end = process.cpuUsage().user + 1000000 * Number(process.argv[2]);
while (process.cpuUsage().user < end)
    outer(1000000);

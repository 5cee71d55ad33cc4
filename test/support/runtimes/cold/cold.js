// SPDX-License-Identifier: Apache-2.0
// Fills a buffer in outer, middle, inner, for MILLISECONDS of CPU time: its leaf is in the C library. Begins with a
// byte of its input, then says "done", and ends with its input.
const buffer = Buffer.alloc(1 << 25);

function inner(value) {
    return buffer.fill(value).length;
}

function middle(value) {
    return inner(value) + 1;
}

function outer(value) {
    return middle(value) + 1;
}

require("fs").readSync(0, buffer, 0, 1);
const end = process.cpuUsage().user + 1000 * Number(process.argv[2]);
for (let value = 0; process.cpuUsage().user < end; value++)
    outer(value & 255);
console.log("done");
process.stdin.resume();

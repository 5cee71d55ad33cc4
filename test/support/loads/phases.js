// SPDX-License-Identifier: Apache-2.0
// Load whose stacks are known from this text: phases.py says more. node phases.js SECONDS
'use strict';
const fs = require('fs');

const DEPTH = 24;
const PHASE_MS = 100;
let sink = 0;

function say(text) {
  fs.writeSync(1, text + '\n');
}

function twist(value) {
  return (value * 31) & 0xffffff;
}

function mix(total, step) {
  return twist(total + step) ^ step;
}

function burn(until) {
  let total = 0;
  while (Date.now() < until) {
    for (let step = 0; step < 3000; step++) {
      total = mix(total, step);
    }
  }
  return total;
}

function descend(depth, until) {
  if (depth) {
    return descend(depth - 1, until) + 1;
  }
  return burn(until);
}

function plain(until) {
  return descend(DEPTH, until);
}

function scramble(until) {
  let total = 1;
  while (Date.now() < until) {
    for (let step = 0; step < 3000; step++) {
      total = (total * 17 + step) & 0xffffff;
    }
  }
  return total;
}

function even(depth, until) {
  if (depth) {
    return odd(depth - 1, until) + 2;
  }
  return scramble(until);
}

function odd(depth, until) {
  return even(depth - 1, until) + 3;
}

function mutual(until) {
  return even(DEPTH, until);
}

function count(until) {
  let total = 0;
  while (Date.now() < until) {
    for (let step = 0; step < 3000; step++) {
      total = twist(total ^ step);
    }
  }
  return total;
}

function first(depth, until) {
  return depth ? second(depth - 1, until) + 1 : count(until);
}

function second(depth, until) {
  return third(depth - 1, until) * 2;
}

function third(depth, until) {
  return fourth(depth - 1, until) - 3;
}

function fourth(depth, until) {
  return first(depth - 1, until) + 4;
}

function ladder(until) {
  return first(DEPTH, until);
}

function weigh(one, other) {
  let total = one;
  for (let step = 0; step < 3000; step++) {
    total = mix(step, total);
  }
  return total < 0 ? 0 : one - other;
}

function sort(until) {
  const items = [3, 1, 2];
  while (Date.now() < until) {
    items.sort(weigh); // calls weigh
  }
  return items[0];
}

function shelve(depth, until) {
  if (depth) {
    return shelve(depth - 1, until) + 1;
  }
  return sort(until);
}

function library(until) {
  return shelve(DEPTH, until);
}

function main(seconds) {
  say('thread ' + process.pid);
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    for (const phase of [plain, mutual, ladder, library]) {
      const begin = Date.now();
      sink += phase(begin + PHASE_MS); // calls plain mutual ladder library
      say(phase.name + ' ' + begin + '000000 ' + Date.now() + '000000');
    }
  }
}

main(Number(process.argv[2]));

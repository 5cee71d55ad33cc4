// SPDX-License-Identifier: Apache-2.0
// What a service worked on and when, as its own API says it, a line of JSON each: $TRUTH/PID-TID.
'use strict';

const fs = require('fs');
const path = require('path');

const { trace } = require('@opentelemetry/api');

const tid = Number(fs.readlinkSync('/proc/thread-self').split('/').pop());
const file = fs.openSync(path.join(process.env.TRUTH, process.pid + '-' + tid), 'a');

// The clock of the wall against hrtime, at the moment when its millisecond changes. A thread that has to wait for a CPU then
// sees the moment late, so the offset is too small: the largest of several is right.
function offset() {
  const before = Date.now();
  let now, at;
  do {
    now = Date.now();
    at = process.hrtime.bigint();
  } while (now === before);
  return BigInt(now) * 1000000n - at;
}

const OFFSET = Array.from({ length: 25 }, offset).reduce((largest, next) => (next > largest ? next : largest));

function now() {
  return process.hrtime.bigint() + OFFSET;
}

function work(ms) {
  const end = process.hrtime.bigint() + BigInt(Math.round(ms * 1e6));
  let sum = 0;
  while (process.hrtime.bigint() < end) {
    for (let i = 0; i < 2000; i++) {
      sum += Math.sqrt(i);
    }
  }
  return sum;
}

// For the current span.
function burn(ms) {
  const span = trace.getActiveSpan();
  const from = now();
  work(ms);
  const record = span ? `"type":"on","trace_id":"${span.spanContext().traceId}","span_id":"${span.spanContext().spanId}"`
    : '"type":"off"';
  fs.writeSync(file, `{${record},"tid":${tid},"from":${from},"to":${now()}}\n`);
}

// In turns with the requests, on their thread.
function burnWithoutSpan(ms = 3, pause = 50) {
  setInterval(() => burn(ms), pause).unref();
}

module.exports = { burn, burnWithoutSpan };

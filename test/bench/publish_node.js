// SPDX-License-Identifier: Apache-2.0
// What spans cost a Node program: nanoseconds per with(), await, macrotask or span, the best of many short rounds, which
// some of fall between what else the machine does. bench_publish_node.py runs it with the publisher and without.
//
//     node publish_node.js WHAT [alone]
'use strict';

const fs = require('fs');
const timers = require('timers/promises');

const api = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const ROUNDS = 200;
const N = 4000;

new NodeTracerProvider().register();
const tracer = api.trace.getTracer('bench');

function nothing() {}

const measured = {
  with() {
    const inner = api.trace.setSpan(api.context.active(), tracer.startSpan('inner'));
    for (let i = 0; i < N; i++) {
      api.context.with(inner, nothing);
    }
  },

  async await() {
    for (let i = 0; i < N; i++) {
      await undefined;
    }
  },

  macrotask: () => new Promise((resolve) => {
    let left = N;
    const step = () => (--left ? setImmediate(step) : resolve());
    setImmediate(step);
  }),

  // A whole one, so that what is done once a span is seen.
  span() {
    for (let i = 0; i < N; i++) {
      tracer.startActiveSpan('whole', (span) => span.end());
    }
  },
};

// What services do before: Node's code for asynchronous resources is fast while it has seen four kinds of them at most.
async function everyKind() {
  for (let i = 0; i < 30; i++) {
    await timers.setImmediate();
    await timers.setTimeout(0);
    await fs.promises.stat(__filename);
    await new Promise((resolve) => { process.nextTick(resolve); });
    await new Promise((resolve) => { fs.stat(__filename, resolve); });
    await new Promise((resolve) => { queueMicrotask(resolve); });
    await new Promise((resolve) => { setTimeout(resolve, 0); });
    await new Promise((resolve) => { setImmediate(resolve); });
  }
}

async function best(run) {
  let least = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    const start = process.hrtime.bigint();
    await run();
    least = Math.min(least, Number(process.hrtime.bigint() - start) / N);
  }
  return least;
}

async function main() {
  const wanted = process.argv[2];
  await tracer.startActiveSpan('outer', async () => {
    if (process.argv[3] !== 'alone') {
      await everyKind();
    }
    console.log(wanted, (await best(measured[wanted])).toFixed(1));
  });
}

main();

// SPDX-License-Identifier: Apache-2.0
// Whether the publisher has written the span, and how many process contexts there are: a line of JSON. LATER names a
// library that is loaded and started then, EARLY one that was loaded before: a line within its start's span, and one of
// a second span.
'use strict';

const fs = require('fs');
const path = require('path');

const api = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const native = require(path.join(process.env.TREE, 'spanprof_context.node'));

function report(span) {
  const mappings = fs.readFileSync('/proc/self/maps', 'utf8').split('\n').filter((line) => line.includes('OTEL_CTX'));
  console.log(JSON.stringify({
    mappings: mappings.length, published: native.current().split('-')[1] === span.spanContext().spanId,
  }));
}

function reportOne(start) {
  api.trace.getTracer('beside').startActiveSpan('span', (span) => {
    report(span);
    if (start) {
      start();
      report(span);
    }
  });
}

new NodeTracerProvider().register();
const early = process.env.EARLY && require(process.env.EARLY);
setTimeout(() => {
  if (early) {
    reportOne(() => early.init());
    reportOne();
  } else {
    reportOne();
  }
  if (process.env.LATER) {
    require(process.env.LATER).init();
    reportOne();
  }
  process.exit();
}, 300);

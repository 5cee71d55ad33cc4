// SPDX-License-Identifier: Apache-2.0
// Whether the publisher has written the span, and how many process contexts there are: a line of JSON. LATER names a
// library that is loaded then: a second line, of a second span.
'use strict';

const fs = require('fs');
const path = require('path');

const api = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const native = require(path.join(process.env.TREE, 'spanprof_context.node'));

function report() {
  api.trace.getTracer('beside').startActiveSpan('span', (span) => {
    const mappings = fs.readFileSync('/proc/self/maps', 'utf8').split('\n').filter((line) => line.includes('OTEL_CTX'));
    console.log(JSON.stringify({
      mappings: mappings.length, published: native.current().split('-')[1] === span.spanContext().spanId,
    }));
  });
}

new NodeTracerProvider().register();
setTimeout(() => {
  report();
  if (process.env.LATER) {
    require(process.env.LATER).init();
    report();
  }
  process.exit();
}, 300);

// SPDX-License-Identifier: Apache-2.0
// A stock service: nothing here is about profiling. Requests take turns on one thread.
'use strict';

const fs = require('fs');
const timers = require('timers/promises');

const { trace } = require('@opentelemetry/api');
const express = require('express');

const { burn, burnWithoutSpan } = require('./truth_log.js');

const app = express();
burnWithoutSpan();

app.get('/render', async (request, response) => {
  for (let i = 0; i < 4; i++) {
    burn(2);
    await timers.setTimeout(1);
  }
  await trace.getTracer('shop').startActiveSpan('layout', async (span) => {
    burn(4);
    await fs.promises.readFile(__filename);
    burn(4);
    span.end();
  });
  burn(4);
  response.send('done\n');
});

app.get('/callbacks', (request, response) => {
  burn(5);
  setImmediate(() => {
    burn(5);
    process.nextTick(() => {
      burn(5);
      fs.stat(__filename, () => {
        burn(5);
        response.send('done\n');
      });
    });
  });
});

app.get('/wait', (request, response) => {
  setTimeout(() => response.send('done\n'), 20);
});

app.listen(Number(process.env.PORT), '127.0.0.1');

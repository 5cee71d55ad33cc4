// SPDX-License-Identifier: Apache-2.0
// A stock service of modules, in two processes; each answer says whether the request's span is what is published.
import cluster from 'cluster';
import { createRequire } from 'module';

import { trace } from '@opentelemetry/api';
import express from 'express';

const native = createRequire(import.meta.url)(process.env.TREE + '/spanprof_context.node');

async function render(request, response) {
  await null;
  const span = trace.getActiveSpan();
  const published = span !== undefined && native.current().split('-')[1] === span.spanContext().spanId;
  response.json({ published, pid: process.pid });
}

if (cluster.isPrimary) {
  cluster.fork();
  cluster.fork();
} else {
  const app = express();
  app.get('/render', render);
  app.get('/wait', (request, response) => response.send('done\n'));
  app.listen(Number(process.env.PORT), '127.0.0.1');
}

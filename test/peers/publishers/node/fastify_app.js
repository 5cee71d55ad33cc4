// SPDX-License-Identifier: Apache-2.0
// A stock service with worker threads: two compute inside spans, one serves on a port of its own.
'use strict';

const { once } = require('events');
const http = require('http');
const workerThreads = require('worker_threads');

const { context, propagation, trace } = require('@opentelemetry/api');
const fastify = require('fastify');

const { burn, burnWithoutSpan } = require('./truth_log.js');

// ---- the worker threads ----

function compute() {
  const tracer = trace.getTracer('shop');
  workerThreads.parentPort.on('message', ({ id, carrier }) => {
    tracer.startActiveSpan('compute', {}, propagation.extract(context.active(), carrier), async (span) => {
      burn(10);
      await null;
      burn(10);
      span.end();
      workerThreads.parentPort.postMessage(id);
    });
  });
}

async function serve(port, routes) {
  const app = fastify();
  for (const [path, route] of Object.entries(routes)) {
    app.get(path, route);
  }
  await app.listen({ port, host: '127.0.0.1' });
  return app.server.address().port;
}

async function render() {
  for (let i = 0; i < 5; i++) {
    burn(3);
    await new Promise((resolve) => setImmediate(resolve));
  }
  burn(5);
  return 'done\n';
}

async function wait() {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return 'done\n';
}

// ---- the main thread ----

class Pool {
  constructor(size) {
    this.waiting = new Map();
    this.next = 0;
    this.workers = Array.from({ length: size }, () => {
      const worker = new workerThreads.Worker(__filename, { workerData: 'compute' });
      worker.on('message', (id) => {
        this.waiting.get(id)();
        this.waiting.delete(id);
      });
      return worker;
    });
  }

  compute() {
    const id = this.next++, carrier = {};
    propagation.inject(context.active(), carrier);
    this.workers[id % this.workers.length].postMessage({ id, carrier });
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }
}

function get(port, path) {
  return new Promise((resolve, reject) => {
    http.get({ port, path, host: '127.0.0.1' }, (response) => response.resume().on('end', resolve)).on('error', reject);
  });
}

async function main() {
  const pool = new Pool(2);
  const server = new workerThreads.Worker(__filename, { workerData: 'serve' });
  const [port] = await once(server, 'message');
  await serve(Number(process.env.PORT), {
    '/render': render,
    '/wait': wait,
    '/computed': async () => {
      burn(2);
      await pool.compute();
      burn(2);
      return 'done\n';
    },
    '/served': async () => {
      await get(port, '/render');
      return 'done\n';
    },
  });
}

burnWithoutSpan();
if (workerThreads.isMainThread) {
  main();
} else if (workerThreads.workerData === 'compute') {
  compute();
} else {
  serve(0, { '/render': render }).then((port) => workerThreads.parentPort.postMessage(port));
}

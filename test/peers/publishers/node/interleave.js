// SPDX-License-Identifier: Apache-2.0
// Whether what the publisher has written is the SDK's current span, at each step of units that take turns: after awaits,
// ticks, timers, files, streams, sockets, in resources and worker threads, through two copies of the API. A line a case:
// name, checks, wrong ones.
//
//     NODE_OPTIONS="--require TREE/preload.js" TREE=TREE STEPS=2000 node interleave.js [CASE ...]
'use strict';

const { AsyncLocalStorage, AsyncResource } = require('async_hooks');
const { EventEmitter, EventEmitterAsyncResource, once } = require('events');
const childProcess = require('child_process');
const fs = require('fs');
const http = require('http');
const net = require('net');
const os = require('os');
const path = require('path');
const stream = require('stream');
const timers = require('timers/promises');
const workerThreads = require('worker_threads');
const zlib = require('zlib');

const api = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const native = require(path.join(process.env.TREE, 'spanprof_context.node'));
const STEPS = Number(process.env.STEPS || 200);
const NOTHING = '0'.repeat(32) + '-' + '0'.repeat(16) + '-00';

new NodeTracerProvider().register();
const tracer = api.trace.getTracer('interleave');
let checks = 0, wrong = 0;

function current() {
  const span = api.trace.getActiveSpan();
  const context = span && span.spanContext();
  return context && !context.isRemote && api.isSpanContextValid(context)
    ? context.traceId + '-' + context.spanId + '-' + context.traceFlags.toString(16).padStart(2, '0') : NOTHING;
}

const where = new Map();

function check(label) {
  checks++;
  if (native.current() !== current()) {
    wrong++;
    where.set(label, (where.get(label) || 0) + 1);
  }
}

function inSpan(name, fn) {
  return tracer.startActiveSpan(name, (span) => {
    const result = fn(span);
    if (result && typeof result.then === 'function') {
      return result.finally(() => span.end());
    }
    span.end();
    return result;
  });
}

// One unit: with a span of its own and inner ones, or without any.
async function unit(withSpan, pause, steps = STEPS) {
  const work = async () => {
    for (let i = 0; i < steps; i++) {
      check('before pause');
      await pause(i);
      check('after pause');
      if (withSpan && i % 10 === 0) {
        await inSpan('inner', async () => {
          check('inner');
          await pause(i);
          check('inner, after');
        });
        check('after inner');
      }
    }
  };
  await (withSpan ? inSpan('unit', work) : work());
  check('end of unit');
}

// Two with spans and one without, in turns.
function three(pause, steps) {
  return Promise.all([true, false, true].map((withSpan) => unit(withSpan, pause, steps)));
}

function checkedCallback(start) {
  return new Promise((resolve) => {
    start((...results) => {
      check('callback');
      resolve(results);
    });
  });
}

const cases = {
  await: () => three(() => undefined, STEPS * 3),

  thenables: () => three(() => ({
    then(resolve) {
      check('then');
      resolve();
    },
  })),

  promises: () => three(async (i) => {
    await Promise.all([Promise.resolve(), new Promise((resolve) => { process.nextTick(resolve); })]);
    await Promise.race([timers.setImmediate(), new Promise(() => {})]);
    await Promise.reject(new Error(String(i))).then(() => {}, () => check('rejected')).finally(() => check('finally'));
  }),

  nextTick: () => three(() => checkedCallback((done) => process.nextTick(done, 1, 2))),

  queueMicrotask: () => three(() => checkedCallback((done) => queueMicrotask(() => done()))),

  setImmediate: () => three(() => checkedCallback((done) => setImmediate(done, 1))),

  timers: () => three(() => checkedCallback((done) => setTimeout(done, 0)), STEPS / 4),

  intervals: () => three(() => checkedCallback((done) => {
    const interval = setInterval(() => {
      clearInterval(interval);
      done();
    }, 0);
  }), STEPS / 4),

  timersPromises: () => three(() => timers.setTimeout(0), STEPS / 4),

  mixed: () => three((i) => [
    () => undefined,
    () => checkedCallback((done) => process.nextTick(done)),
    () => checkedCallback((done) => setImmediate(done)),
    () => fs.promises.stat(__filename),
    () => checkedCallback((done) => queueMicrotask(() => done())),
  ][i % 5]()),

  fsPromises: () => three(async () => {
    const file = await fs.promises.open(__filename);
    check('open');
    await file.read(Buffer.alloc(10), 0, 10, 0);
    check('read');
    await file.close();
  }, STEPS / 4),

  fsCallbacks: () => three(() => checkedCallback((done) => fs.stat(__filename, () => {
    check('stat');
    fs.readFile(__filename, done);
  })), STEPS / 4),

  streams: () => three(async () => {
    let seen = 0;
    await stream.promises.pipeline(fs.createReadStream(__filename, { highWaterMark: 1000 }), zlib.createGzip(),
      new stream.Transform({
        transform(chunk, encoding, done) {
          check('transform');
          done(null, chunk);
        },
      }),
      async function* (source) {
        for await (const chunk of source) {
          check('for await');
          seen += chunk.length;
        }
      });
    if (!seen) {
      throw new Error('nothing was read');
    }
  }, STEPS / 40),

  generators: () => three(async () => {
    async function* numbers() {
      for (let i = 0; i < 3; i++) {
        check('generator');
        yield i;
      }
    }
    for await (const _ of numbers()) {
      check('for await');
    }
  }),

  async runInAsyncScope() {
    const outside = new AsyncResource('outside');
    const inside = inSpan('resource', () => new AsyncResource('inside'));
    await three(async () => {
      inside.runInAsyncScope(() => {
        check('inside');
        outside.runInAsyncScope(() => {
          check('outside in inside');
          inSpan('in scope', () => check('span in scope'));
          check('outside again');
        });
        check('inside again');
        try {
          outside.runInAsyncScope(() => { throw new Error('thrown'); });
        } catch {
          check('after throw');
        }
      });
      check('after scope');
      await null;
    });
  },

  async bound() {
    const bound = inSpan('bound', () => AsyncResource.bind(() => check('AsyncResource.bind')));
    const ofApi = inSpan('bound by api', () => api.context.bind(api.context.active(), () => check('context.bind')));
    const snapshot = AsyncLocalStorage.snapshot ? inSpan('snapshot', () => AsyncLocalStorage.snapshot())
      : (fn) => fn();
    const emitter = inSpan('emitter', () => new EventEmitterAsyncResource({ name: 'emitter' }));
    const plain = new EventEmitter();
    emitter.on('event', () => check('EventEmitterAsyncResource'));
    plain.on('event', () => check('EventEmitter'));
    await three(async () => {
      bound();
      check('after bound');
      ofApi();
      check('after context.bind');
      snapshot(() => check('snapshot'));
      check('after snapshot');
      emitter.emit('event');
      plain.emit('event');
      check('after emit');
      await once(Object.assign(new EventEmitter(), {}).on('newListener', function () {
        setImmediate(() => this.emit('event'));
      }), 'event');
    });
  },

  async sockets() {
    const server = net.createServer((socket) => inSpan('connection', async () => {
      for await (const chunk of socket) {
        check('server');
        socket.write(chunk);
      }
    })).listen(0, '127.0.0.1');
    await once(server, 'listening');
    await Promise.all([true, false, true].map((withSpan) => {
      const socket = net.connect(server.address().port, '127.0.0.1');
      return unit(withSpan, () => checkedCallback((done) => {
        socket.once('data', done);
        socket.write('x');
      }), STEPS / 4).then(() => socket.end());
    }));
    server.close();
  },

  async http() {
    const server = http.createServer((request, response) => inSpan('request', async () => {
      check('request');
      for await (const _ of request) {
        check('body');
      }
      await timers.setImmediate();
      check('response');
      response.end('done');
    })).listen(0, '127.0.0.1');
    await once(server, 'listening');
    await three(() => new Promise((resolve, reject) => {
      const request = http.request({ port: server.address().port, method: 'POST' }, (response) => {
        check('answer');
        response.resume().on('end', () => {
          check('end');
          resolve();
        });
      });
      request.on('error', reject);
      request.end('question');
    }), STEPS / 20);
    server.close();
  },

  threadPool: () => three(() => checkedCallback((done) => require('crypto').pbkdf2('a', 'b', 1, 8, 'sha1', done)),
    STEPS / 4),

  async children() {
    await three(() => checkedCallback((done) => childProcess.execFile('/bin/true', done)), 5);
    const child = childProcess.fork(__filename, ['await', 'setImmediate'], { silent: true });
    let output = '';
    child.stdout.on('data', (data) => { output += data; });
    const [code] = await once(child, 'exit');
    checks += 1;
    wrong += code !== 0 || !/^await \d+ 0$/m.test(output);
  },

  async messages() {
    await Promise.all([true, false, true].map(async (withSpan) => {
      const { port1, port2 } = new workerThreads.MessageChannel();
      port2.on('message', (message) => port2.postMessage(message));
      await unit(withSpan, () => checkedCallback((done) => {
        port1.once('message', done);
        port1.postMessage('x');
      }), STEPS / 10);
      port1.close();
    }));
  },

  async workers() {
    const ran = ['await', 'setImmediate', 'mixed', 'fsPromises', 'runInAsyncScope'];
    const counts = [true, false, true].map((withSpan) => (withSpan ? inSpan : (name, fn) => fn())('start', async () => {
      const worker = new workerThreads.Worker(__filename, { workerData: ran });
      const [[counted]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
      check('worker has ended');
      return counted;
    }));
    for (const counted of await Promise.all([...counts, three(() => timers.setImmediate())])) {
      if (counted.checks) {
        checks += counted.checks;
        wrong += counted.wrong;
      }
    }
  },

  async twoCopies() {
    const other = require(path.join(copyOfApi(), 'api'));
    if (other === api) {
      throw new Error('not another copy');
    }
    const otherTracer = other.trace.getTracer('other');
    await three(async (i) => {
      await otherTracer.startActiveSpan('other ' + i, async (span) => {
        check('other copy');
        await null;
        check('other copy, after');
        span.end();
      });
      other.context.with(other.ROOT_CONTEXT, () => check('root'));
      check('after root');
    });
  },

  async contexts() {
    const remote = { traceId: '1'.repeat(32), spanId: '2'.repeat(16), traceFlags: 1, isRemote: true };
    const unsampled = { traceId: '3'.repeat(32), spanId: 'fedcba9876543210', traceFlags: 0 };
    const invalid = { traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 1 };
    await three(async () => {
      for (const spanContext of [remote, unsampled, invalid]) {
        await api.context.with(api.trace.setSpanContext(api.context.active(), spanContext), async () => {
          check('of a span context');
          await null;
          check('of a span context, after');
        });
      }
      api.context.with(api.context.active().setValue(Symbol('key'), 1), () => check('another value'));
      try {
        api.context.with(api.ROOT_CONTEXT, () => { throw new Error('thrown'); });
      } catch {
        check('after throw');
      }
      api.context.with(api.ROOT_CONTEXT, function (a, b) {
        checks++;
        wrong += !(this === cases && a === 1 && b === 2);
      }, cases, 1, 2);
    });
  },

  async attach() {
    if (!api.context.attach && !api.context._getContextManager().attach) {
      return;
    }
    const manager = api.context._getContextManager();
    await three(async () => {
      await new Promise((resolve) => setImmediate(() => {
        const token = manager.attach(api.trace.setSpan(api.ROOT_CONTEXT, tracer.startSpan('attached')));
        check('attached');
        token.dispose();
        check('disposed');
        resolve();
      }));
    });
  },

  async uncaught() {
    let expected = 0, thrown = 0;
    const listener = () => {
      thrown++;
      check('uncaughtException');
    };
    process.on('uncaughtException', listener);
    await three((i) => new Promise((resolve) => {
      expected++;
      setImmediate(resolve);
      [process.nextTick, setImmediate, (fn) => setTimeout(fn, 0)][i % 3](() => {
        inSpan('throws', () => { throw new Error('x'); });
      });
    }), STEPS / 10);
    while (thrown < expected) {
      await timers.setTimeout(1);
    }
    process.off('uncaughtException', listener);
  },

  // The last one: the manager is another one from then on.
  async registeredAgain() {
    api.context.disable();
    api.trace.disable();
    check('disabled');
    new NodeTracerProvider().register();
    await three(() => undefined);
  },
};

// The API's package under another path.
function copyOfApi() {
  const main = require.resolve('@opentelemetry/api');
  const from = main.slice(0, main.lastIndexOf('/build/'));
  const to = fs.mkdtempSync(path.join(os.tmpdir(), 'spanprof-api-'));
  fs.cpSync(from, path.join(to, 'api'), { recursive: true });
  process.on('exit', () => fs.rmSync(to, { recursive: true, force: true }));
  return to;
}

async function main() {
  const names = workerThreads.workerData || process.argv.slice(2);
  let allWrong = 0, allChecks = 0;
  for (const name of names.length ? names : Object.keys(cases)) {
    checks = wrong = 0;
    where.clear();
    await cases[name]();
    allWrong += wrong;
    allChecks += checks;
    if (workerThreads.isMainThread) {
      console.log([name, checks, wrong, ...[...where].map(([label, n]) => label.replace(/ /g, '_') + ':' + n)].join(' '));
    }
  }
  if (!workerThreads.isMainThread) {
    workerThreads.parentPort.postMessage({ checks: allChecks, wrong: allWrong });
  }
  process.exitCode = allWrong ? 1 : 0;
}

main();

// SPDX-License-Identifier: Apache-2.0
// node spans.js REQUESTS PUBLISHER: tasks that take turns work in spans, on the main thread and on a worker, and tell
// the truth about it (as test/support/publishers/publisher.c does, but by the monotonic clock); begins when a line
// comes. PUBLISHER: dd-trace, the tracer; or a package of @datadog/pprof, whose contexts are then made here and
// described to readers by libdatadog.
'use strict'
const fs = require('fs')
const crypto = require('crypto')
const { Worker, isMainThread, workerData } = require('worker_threads')

const [requests, publisher] = isMainThread ? [Number(process.argv[2]), process.argv[3]] : workerData
const TASKS = 8
const SLICE_MS = 3
const tid = Number(fs.readlinkSync('/proc/thread-self').split('/').pop())

// A line at once, so that those of two threads do not mix.
function tell (record) {
  for (;;) {
    try {
      return fs.writeSync(1, JSON.stringify(record) + '\n')
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}

// CLOCK_MONOTONIC: performance.timeOrigin may be milliseconds off on a busy machine.
function nowNs () {
  return Number(process.hrtime.bigint())
}

// Half of it is work for the collector, which moves what lies on the way to a context.
let kept = []
function burn (ms) {
  const end = performance.now() + ms
  let sum = 0
  while (performance.now() < end) {
    kept.push({ sum, text: 'x' + sum })
    if (kept.length > 20000) kept = []
    for (let i = 0; i < 100; i++) sum += i * i % 7
  }
  return sum
}

function slice (span, root) {
  const from = nowNs()
  burn(SLICE_MS)
  const ids = span ? { trace_id: span.trace, span_id: span.id, root_id: root.id } : {}
  tell({ type: span ? 'on' : 'off', tid, ...ids, from, to: nowNs() })
}

const turns = [
  () => Promise.resolve(),
  () => new Promise(resolve => setImmediate(resolve)),
  () => new Promise(resolve => setTimeout(resolve, 1)),
  () => fs.promises.readFile('/proc/self/comm'),
  () => new Promise(resolve => process.nextTick(resolve))
]

// run(name, parent, fn): fn(span) within a new span.
function byTracer () {
  const tracer = require('dd-trace').init()
  return (name, parent, fn) => tracer.trace(name, { resource: '/' + name }, span =>
    fn({ trace: span.context().toTraceId(true), id: span.context().toSpanId(true) }))
}

function byContexts () {
  const { ThreadContext, getProcessContextAttributes } = require(publisher).otelThreadCtx
  new ThreadContext(new Uint8Array(16), new Uint8Array(8)).run(() => {})
  if (isMainThread) describe(getProcessContextAttributes([]))
  return async (name, parent, fn) => {
    const span = { trace: parent ? parent.trace : crypto.randomBytes(16).toString('hex'), id: crypto.randomBytes(8).toString('hex') }
    const root = parent ? parent.root : span
    const context = new ThreadContext(bytes(span.trace), bytes(span.id), ...attributesOf(root.id))
    await context.run(() => fn(Object.assign(span, { root })))
    context.invalidate()
  }
}

function bytes (hex) {
  return Uint8Array.from(Buffer.from(hex, 'hex'))
}

// Writers that take trace flags take them first.
function attributesOf (root) {
  const flags = require(publisher).otelThreadCtx.ThreadContext.prototype.setTraceFlags
  return flags ? [1, [root]] : [[root]]
}

let described // it is withdrawn with the handle
function describe (attributes) {
  const discovery = require('@datadog/libdatadog-extras').maybeLoad('process-discovery')
  const extraAttributes = Object.entries(attributes)
    .filter(([, value]) => Number.isInteger(value)).map(([key, intValue]) => ({ key, intValue }))
  described = discovery.storeMetadata(new discovery.TracerMetadata(
    crypto.randomUUID(), '1', 'host', 'dd-shop', null, null, null, null,
    { attributeKeys: attributes['threadlocal.attribute_key_map'], schemaVersion: attributes['threadlocal.schema_version'], extraAttributes }))
}

const run = publisher === 'dd-trace' ? byTracer() : byContexts()

async function task (number) {
  for (let i = 0; i < requests; i++) {
    await run('request', null, async root => {
      slice(root, root)
      await turns[(number + i) % turns.length]()
      await run('query', root, async query => {
        slice(query, root)
        await turns[i % turns.length]()
        slice(query, root)
      })
      slice(root, root)
    })
    if (number % 2) slice()
  }
}

async function idle (others) {
  let ended = false
  others.then(() => { ended = true })
  while (!ended) {
    slice()
    await turns[2]()
  }
}

async function work () {
  const tasks = Promise.all(Array.from({ length: TASKS }, (_, number) => task(number)))
  await Promise.all([tasks, idle(tasks)])
}

// Until the last spans are sent.
function linger () {
  return new Promise(resolve => setTimeout(resolve, 3000))
}

if (isMainThread) {
  tell({ type: 'ready', pid: process.pid })
  fs.readSync(0, Buffer.alloc(1))
  const worker = new Worker(__filename, { workerData: [requests, publisher] })
  const ended = new Promise(resolve => worker.on('exit', resolve))
  work().then(() => ended).then(linger).then(() => process.exit(0))
} else {
  work().then(linger)
}

// SPDX-License-Identifier: Apache-2.0
// Writes the span that OpenTelemetry's API has as the current one of a Node thread to the thread's context (OTEP 4947).
//
// The API keeps its context manager under a symbol of the global object (api_hook.js sees it arrive). A thread changes
// its span in two ways: with() and attach() of that manager, which are wrapped, and switches to another callback,
// microtask or asynchronous resource, which hooks report (switches.js).
//
// Nothing is loaded before a context manager is registered; no hook is set before the first span of an SDK.
'use strict';

const { onContextManager } = require('./api_hook.js');
const { thread } = require('./thread_record.js');
const { watchSwitches } = require('./switches.js');

const LOADED = Symbol.for('spanprof.context.node');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const NONE = null;

// NEW until a span with a Resource is seen, ON while the process context is ours, OFF: another library has one.
const NEW = 0, ON = 1, OFF = 2;

let state = NEW;
let manager; // the one that was registered last
let shown; // the OpenTelemetry context whose span is published
let native;

function debug(...words) {
  if (process.env.SPANPROF_CONTEXT_DEBUG === '1') {
    console.error('spanprof:', ...words);
  }
}

// ---- what is published for a context of the API ----

// A private field of the context itself: it costs less than a WeakMap, and nobody sees it.
class Returned {
  constructor(object) {
    return object;
  }
}

class Known extends Returned {
  #record;

  constructor(context, record) {
    super(context);
    this.#record = record;
  }

  static recordOf(context) {
    return #record in context ? context.#record : recordMake(context);
  }
}

function recordMake(context) {
  const span = context.getValue(SPAN);
  if (state === NEW && span && span.resource && span.resource.attributes) {
    begin(span.resource);
  }
  const record = span ? thread.record(span.spanContext()) : NONE;
  if (state === ON) {
    new Known(context, record);
  }
  return record;
}

// context: undefined for none. Never throws.
function put(context) {
  if (context === shown) {
    return;
  }
  try {
    const record = context ? Known.recordOf(context) : NONE;
    if (state !== ON) {
      return;
    }
    shown = context;
    thread.publish(record);
  } catch {
    shown = undefined;
    if (state === ON) {
      thread.publish(NONE);
    }
  }
}

function putCurrent() {
  put(manager.active());
}

// ---- the process context ----

function texts(attributes) {
  const list = [];
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && typeof value.then !== 'function') {
      list.push(key, typeof value === 'string' ? value : typeof value === 'object' ? JSON.stringify(value) : String(value));
    }
  }
  return list;
}

// The first span of the SDK: its Resource is the process's. False: there is nothing to publish to.
function beginWith(resource) {
  const memory = native.open();
  const error = native.publish(texts(resource.attributes), false);
  if (error) {
    debug('not publishing: errno', -error);
    return false;
  }
  thread.open(memory, native.attach);
  if (resource.asyncAttributesPending && typeof resource.waitForAsyncAttributes === 'function') {
    resource.waitForAsyncAttributes().then(() => native.publish(texts(resource.attributes), true)).catch(() => {});
  }
  return true;
}

function begin(resource) {
  state = OFF;
  try {
    if (beginWith(resource)) {
      watchSwitches(() => manager.active(), () => shown, put);
      state = ON;
      debug('publishing');
    }
  } catch (error) {
    debug('not publishing:', error);
  }
}

// ---- the context manager ----

function wrapDispose(token, name) {
  const dispose = token[name];
  if (typeof dispose === 'function') {
    token[name] = function () {
      try {
        return dispose.call(token);
      } finally {
        putCurrent();
      }
    };
  }
}

function wrapAttach(registered) {
  const attach = registered.attach;
  registered.attach = function (context) {
    const token = attach.call(this, context);
    putCurrent();
    try {
      wrapDispose(token, 'dispose');
      wrapDispose(token, Symbol.dispose);
    } catch (error) {
      debug(error);
    }
    return token;
  };
}

function wrapWith(registered) {
  const inner = registered.with;
  registered.with = function (context, fn, thisArg, ...args) {
    put(context);
    try {
      return args.length ? inner.call(this, context, fn, thisArg, ...args) : inner.call(this, context, fn, thisArg);
    } finally {
      putCurrent();
    }
  };
}

function wrapDisable(registered) {
  const disable = registered.disable;
  registered.disable = function () {
    put(undefined);
    return disable.call(this);
  };
}

// Throws nothing; a manager that cannot be wrapped stays as it is.
function meetManager(registered) {
  try {
    if (state === OFF || typeof registered.active !== 'function' || typeof registered.with !== 'function') {
      return;
    }
    native = native || require('./spanprof_context.node');
    wrapWith(registered);
    if (typeof registered.attach === 'function') {
      wrapAttach(registered);
    }
    wrapDisable(registered);
    manager = registered;
  } catch (error) {
    debug('not publishing:', error);
  }
}

function start() {
  if (globalThis[LOADED]) {
    return;
  }
  Object.defineProperty(globalThis, LOADED, { value: true });
  onContextManager(meetManager);
}

module.exports = { start };

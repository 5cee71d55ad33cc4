// SPDX-License-Identifier: Apache-2.0
// Writes the span that OpenTelemetry's API has as the current one of a Node thread to the thread's context (OTEP 4947).
//
// The API keeps its context manager under a symbol of the global object (api_hook.js sees it arrive). A thread changes
// its span in two ways: with() and attach() of that manager, which are wrapped, and switches to another callback,
// microtask or asynchronous resource, which hooks report (switches.js).
//
// Where Node has a thread context of its own (carriers.js), nothing is wrapped or hooked but the manager's storage.
//
// Nothing is loaded before a context manager is registered; no hook is set before the first span of an SDK.
'use strict';

const { onContextManager } = require('./api_hook.js');
const { carryContexts, Returned } = require('./carriers.js');
const { refuse } = require('./refusal.js');
const { thread } = require('./thread_record.js');
const { watchSwitches } = require('./switches.js');
const { watchPromises, UNKNOWN } = require('./waiting.js');

const LOADED = Symbol.for('spanprof.context.node');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const DATADOG = Symbol.for('dd-trace'); // of the global object, once Datadog's tracer is loaded
const NONE = null;

const DEPTH_MAX = 1024;
const EEXIST = 17;

// NEW until a span with a Resource is seen, ON while the process context is ours, OFF: another library has one.
const NEW = 0, ON = 1, OFF = 2;

let state = NEW;
let manager; // the one that was registered last
let takeWaiting; // of waiting.js, if its promises can be watched
let shown; // the OpenTelemetry context whose span is published
const outer = []; // what was published before each callback that has not ended
let depth = 0; // of outer
let native;
let publish; // of thread_record.js
let frames = false; // the runtime's own context serves
let metDatadog = false; // it is loaded, and what there is to do is done
const wrapped = new WeakMap(); // managers, with what is known of their promises

function debug(...words) {
  if (process.env.SPANPROF_CONTEXT_DEBUG === '1') {
    console.error('spanprof:', ...words);
  }
}

// ---- what is published for a context of the API ----

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
  meetSpan(span);
  if (state !== ON) {
    return NONE;
  }
  const record = span ? thread.record(span.spanContext()) : NONE;
  try {
    new Known(context, record);
  } catch { // an object that takes no field: made each time
  }
  return record;
}

// The record of a context that enters a frame.
function fill(words, at, context) {
  let record = NONE;
  try {
    const span = typeof context.getValue === 'function' ? context.getValue(SPAN) : undefined;
    meetSpan(span);
    record = span ? thread.record(span.spanContext()) : NONE;
  } catch (error) {
    debug(error);
  }
  thread.write(record, words, at);
}

// context: undefined for none. Never throws.
function put(context) {
  if (context === shown || state === OFF) {
    return;
  }
  try {
    const record = context ? Known.recordOf(context) : NONE;
    if (state === ON) {
      shown = context;
      publish(record);
    }
  } catch {
    if (state === ON) {
      shown = undefined;
      publish(NONE);
    }
  }
}

function current() {
  try {
    return manager.active();
  } catch {
    return undefined;
  }
}

function putCurrent() {
  put(current());
}

// A callback begins, in a context of its own. id: its asynchronous resource, or a promise.
function switched(id) {
  if (depth === DEPTH_MAX) { // callbacks that ended by exceptions, without switchedBack()
    depth = 0;
  }
  outer[depth++] = shown;
  const context = takeWaiting !== undefined ? takeWaiting(id) : UNKNOWN;
  put(context === UNKNOWN ? current() : context);
}

function switchedBack() {
  put(depth ? outer[--depth] : undefined);
}

// ---- the process context ----

// [key, value] of a Resource. While some of its values are pending, reading `attributes` is an error in the SDK's log.
function pairs(resource) {
  if (!resource.asyncAttributesPending) {
    return Object.entries(resource.attributes);
  }
  return typeof resource.getRawAttributes === 'function' ? resource.getRawAttributes() : [];
}

function text(value) {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function texts(resource) {
  const known = pairs(resource).filter(([, value]) => value !== undefined && value !== null &&
    typeof value.then !== 'function');
  return known.flatMap(([key, value]) => [key, text(value)]);
}

// The first span of the SDK: its Resource is the process's. False: there is nothing to publish to.
function beginWith(resource) {
  const memory = native.open();
  const error = native.publish(texts(resource), false);
  if (error) {
    debug('not publishing: errno', -error);
    refuse(error === -EEXIST ? 'taken' : 'failed');
    return false;
  }
  if (frames) {
    native.showFrames();
  } else {
    publish = thread.open(memory, native.attach);
  }
  if (resource.asyncAttributesPending && typeof resource.waitForAsyncAttributes === 'function') {
    resource.waitForAsyncAttributes().then(() => native.publish(texts(resource), true)).catch(() => {});
  }
  return true;
}

function begin(resource) {
  state = OFF;
  try {
    if (beginWith(resource)) {
      if (!frames) {
        watchSwitches(switched, switchedBack, putCurrent);
      }
      state = ON;
      if (globalThis[DATADOG] !== undefined) { // and has published nothing
        metDatadog = true;
        awaitDatadog();
      }
      debug(frames ? 'publishing in frames' : 'publishing');
    }
  } catch (error) {
    debug('not publishing:', error);
    refuse('failed');
  }
}

// Datadog's tracer publishes too: a process has one publisher.
function stepAside() {
  state = OFF;
  if (!frames) {
    publish(NONE);
  }
  native.withdraw();
  debug('not publishing any more: dd-trace publishes');
}

// False: it is not one that is loaded and not started.
function awaitDatadog() {
  const tracer = globalThis._ddtrace;
  if (!tracer || tracer._initialized !== false || typeof tracer.init !== 'function') {
    return false;
  }
  tracer.init = function (...args) {
    delete tracer.init; // leaves that of its class
    if (state === ON) {
      stepAside();
    }
    return tracer.init(...args);
  };
  return true;
}

// It was loaded after the first span.
function meetDatadog() {
  metDatadog = true;
  if (!awaitDatadog()) {
    stepAside();
  }
}

// With each span of a new context.
function meetSpan(span) {
  if (state === NEW && span && span.resource) {
    begin(span.resource);
  } else if (state === ON && !metDatadog && globalThis[DATADOG] !== undefined) {
    meetDatadog();
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

// Whether this manager's contexts are in frames. A program whose first manager's were says so to all profilers.
function carryInFrames(registered, wasThere) {
  const carried = !wasThere && process.env.SPANPROF_CONTEXT !== 'thread' && carryContexts(registered, fill, native.findFrames);
  if (state === ON && carried) {
    native.showFrames();
  } else if (state === ON) {
    state = OFF;
  }
  return carried;
}

function wrapManager(registered, wasThere) {
  if (state === NEW || frames) {
    frames = carryInFrames(registered, wasThere);
  }
  if (frames || state === OFF) {
    return;
  }
  wrapWith(registered);
  if (typeof registered.attach === 'function') {
    wrapAttach(registered);
  }
  if (typeof registered.disable === 'function') {
    wrapDisable(registered);
  }
}

function load() {
  try {
    return require('./spanprof_context.node');
  } catch (error) {
    state = OFF;
    debug('not publishing:', error);
    refuse('no_library');
    return null;
  }
}

// Throws nothing; a manager that cannot be wrapped stays as it is.
function meetManager(registered, wasThere) {
  try {
    if (state === OFF || typeof registered.active !== 'function' || typeof registered.with !== 'function') {
      return;
    }
    native = native || load();
    if (native === null) {
      return;
    }
    if (!wrapped.has(registered)) {
      wrapManager(registered, wasThere);
      wrapped.set(registered, frames ? undefined : watchPromises(registered._asyncLocalStorage));
    }
    manager = registered;
    takeWaiting = wrapped.get(registered);
  } catch (error) {
    debug('not publishing:', error);
    refuse('unknown_version');
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

// SPDX-License-Identifier: Apache-2.0
// Reports that the thread switches to another callback, microtask or asynchronous resource, and back.
//
// Without AsyncContextFrame (Node 18 to 22), AsyncLocalStorage has made async_hooks follow each promise already, and
// async_hooks reports everything. With it (Node 24 and later), V8 switches the contexts of promises itself. async_hooks
// would first give an id to each promise: V8's promise hooks cost less, and async_hooks reports the rest.
'use strict';

const asyncHooks = require('async_hooks');
const v8 = require('v8');

// Whether createHook() can leave promises out: then it throws for a value that is not a boolean.
function canLeaveOutPromises() {
  try {
    asyncHooks.createHook({ trackPromises: 0 });
    return false;
  } catch {
    return true;
  }
}

// With AsyncContextFrame, an AsyncResource keeps the frame that it runs in. The scope and
// disable() keep the storage of this question from costing the program anything from then on.
function hasFrames() {
  const storage = new asyncHooks.AsyncLocalStorage();
  const make = () => storage.run(1, () => new asyncHooks.AsyncResource('spanprof'));
  const resource = new asyncHooks.AsyncResource('spanprof').runInAsyncScope(make);
  storage.disable();
  return Object.getOwnPropertySymbols(resource).some(
    (symbol) => symbol.description === 'context_frame' && typeof resource[symbol] === 'object');
}

// There runInAsyncScope() calls `before` first and changes the frame then.
function watchScopes(entered) {
  const prototype = asyncHooks.AsyncResource.prototype;
  const run = prototype.runInAsyncScope;
  function enter(fn, thisArg, args) {
    entered();
    return Reflect.apply(fn, thisArg, args);
  }
  prototype.runInAsyncScope = function runInAsyncScope(fn, thisArg, ...args) {
    return run.call(this, enter, undefined, fn, thisArg, args);
  };
}

// before() and after() are called around each callback; entered() inside a scope, after its before().
function watchSwitches(before, after, entered) {
  const frames = hasFrames();
  if (frames && canLeaveOutPromises()) {
    asyncHooks.createHook({ before, after, trackPromises: false }).enable();
    v8.promiseHooks.onBefore(before);
    v8.promiseHooks.onAfter(after);
  } else {
    asyncHooks.createHook({ before, after }).enable();
  }
  if (frames) {
    watchScopes(entered);
  }
}

module.exports = { watchSwitches };

// SPDX-License-Identifier: Apache-2.0
// The contexts of promises that wait for their turn, by async id, for Node 18.
//
// Without AsyncContextFrame, an AsyncLocalStorage keeps its value as a property of each asynchronous resource, and looks
// the current resource up when it is asked. That look-up asks each resource for a property that promises do not have,
// which is slow on Node 18 alone. But the storage sees each promise begin (_propagate()), and a switch has the promise's
// id.
//
// A table has a place for the contexts of the last promises that have begun, until their first turn. A promise that is
// not there is looked up as before: it has waited long, or takes a second turn.
//
// V8 inlines all of it into async_hooks' own functions, as far as it is short: so the storage's method is not called for
// promises, but what it does is done.
'use strict';

const { AsyncLocalStorage } = require('async_hooks');

const PLACES = 256; // a power of two; also the number of contexts that the table keeps alive
const NO_ID = 0;
const UNKNOWN = Symbol('unknown');

function idSymbol(promise) {
  return Object.getOwnPropertySymbols(promise).find((symbol) => symbol.description === 'async_id_symbol');
}

// take(id): the context of that promise, of which undefined is one too; UNKNOWN: it is to be looked up. Returns undefined
// where a look-up is cheap, or does not work as described.
function watchPromises(storage) {
  if (parseInt(process.versions.node, 10) >= 20 || !(storage instanceof AsyncLocalStorage) ||
      typeof storage.kResourceStore !== 'symbol' || typeof storage._propagate !== 'function' ||
      storage._propagate !== AsyncLocalStorage.prototype._propagate) {
    return undefined;
  }
  const ids = new Float64Array(PLACES).fill(NO_ID);
  const contexts = new Array(PLACES).fill(undefined);
  const key = storage.kResourceStore;
  const propagate = storage._propagate;

  function withId(idKey) {
    return function (resource, trigger, type) {
      if (type !== 'PROMISE') {
        propagate.call(this, resource, trigger, type);
        return;
      }
      const id = resource[idKey], context = trigger[key], place = id & PLACES - 1;
      resource[key] = context;
      ids[place] = id;
      contexts[place] = context;
    };
  }

  storage._propagate = function first(resource, trigger, type) {
    if (type === 'PROMISE' && storage._propagate === first) {
      storage._propagate = withId(idSymbol(resource));
    }
    propagate.call(this, resource, trigger, type);
  };

  return function take(id) {
    const place = id & PLACES - 1;
    if (ids[place] !== id || !storage.enabled) {
      return UNKNOWN;
    }
    const context = contexts[place];
    ids[place] = NO_ID;
    contexts[place] = undefined;
    return context;
  };
}

module.exports = { watchPromises, UNKNOWN };

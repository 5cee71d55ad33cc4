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
'use strict';

const { AsyncLocalStorage } = require('async_hooks');

const PLACES = 256; // a power of two; also the number of contexts that the table keeps alive
const NO_ID = 0;

class Waiting {
  constructor(storage) {
    this.storage = storage;
    this.ids = new Float64Array(PLACES).fill(NO_ID);
    this.contexts = new Array(PLACES).fill(undefined);
  }

  begins(id, context) {
    const place = id & PLACES - 1;
    this.ids[place] = id;
    this.contexts[place] = context;
  }

  has(id) {
    return this.ids[id & PLACES - 1] === id && this.storage.enabled;
  }

  take(id) {
    const place = id & PLACES - 1;
    const context = this.contexts[place];
    this.ids[place] = NO_ID;
    this.contexts[place] = undefined;
    return context;
  }
}

function idSymbol(promise) {
  return Object.getOwnPropertySymbols(promise).find((symbol) => symbol.description === 'async_id_symbol');
}

// The table of that storage; undefined: a look-up is cheap, or it does not work as described.
function watchPromises(storage) {
  if (parseInt(process.versions.node, 10) >= 20 || !(storage instanceof AsyncLocalStorage) ||
      typeof storage._propagate !== 'function' || typeof storage.kResourceStore !== 'symbol') {
    return undefined;
  }
  const waiting = new Waiting(storage);
  const key = storage.kResourceStore;
  const propagate = storage._propagate;
  let idKey;
  storage._propagate = function (resource, trigger, type) {
    propagate.call(this, resource, trigger, type);
    if (type === 'PROMISE') {
      idKey = idKey || idSymbol(resource);
      waiting.begins(resource[idKey], resource[key]);
    }
  };
  return waiting;
}

module.exports = { watchPromises };

// SPDX-License-Identifier: Apache-2.0
// Node's own thread context: with AsyncContextFrame (Node 24 and later, 22 with its flag) V8 changes the frame when
// tasks switch, and a profiler finds there, under the AsyncLocalStorage of the API's context manager, what it has stored.
//
// So the storage stores, instead of a context, a carrier: memory with the record of the context's span, which knows its
// context. The manager gets the context back from the storage. Nothing is written when tasks switch.
'use strict';

const { AsyncLocalStorage } = require('async_hooks');

const RECORD_BYTES = 32;
const RECORDS = 32; // of a slab, which is freed when none of its carriers is left

// Gives an object that another class made a private field: it costs less than a WeakMap, and programs do not see it.
class Returned {
  constructor(object) {
    return object;
  }
}

// A carrier is a DataView of its record: an object of V8's that holds an address.
class Carrier extends Returned {
  #context;

  constructor(view, context) {
    super(view);
    this.#context = context;
  }

  static contextOf(stored) {
    return typeof stored === 'object' && stored !== null && #context in stored ? stored.#context : stored;
  }
}

let slab; // words of the records
let used = RECORDS; // of them

function make(context, fill) {
  if (used === RECORDS) {
    slab = new Int32Array(new ArrayBuffer(RECORDS * RECORD_BYTES));
    used = 0;
  }
  const at = used++ * RECORD_BYTES;
  fill(slab, at / slab.BYTES_PER_ELEMENT, context);
  return new Carrier(new DataView(slab.buffer, at, RECORD_BYTES), context);
}

// A context's carrier, made once.
class Carried extends Returned {
  #carrier;

  constructor(context, carrier) {
    super(context);
    this.#carrier = carrier;
  }

  static of(context, fill) {
    return #carrier in context ? context.#carrier : Carried.#make(context, fill);
  }

  static #make(context, fill) {
    const carrier = make(context, fill);
    try {
      new Carried(context, carrier);
    } catch { // an object that takes no field: made each time
    }
    return carrier;
  }
}

// What the manager has instead of its storage.
class CarrierStorage {
  constructor(storage, fill) {
    this.storage = storage;
    this.fill = fill;
  }

  carrierOf(context) {
    return typeof context === 'object' && context !== null ? Carried.of(context, this.fill) : context;
  }

  run(context, fn, ...args) {
    const carrier = this.carrierOf(context);
    return args.length ? this.storage.run(carrier, fn, ...args) : this.storage.run(carrier, fn);
  }

  exit(fn, ...args) {
    return this.storage.exit(fn, ...args);
  }

  getStore() {
    return Carrier.contextOf(this.storage.getStore());
  }

  enterWith(context) {
    this.storage.enterWith(this.carrierOf(context));
  }

  withScope(context) {
    return this.storage.withScope(this.carrierOf(context));
  }

  disable() {
    this.storage.disable();
  }
}

// Puts carriers into the manager's storage, if they can be found there. False: it is as it was. The manager must be
// new: contexts that it has stored already have no carrier. fill(words, at, context) writes the record; it may not throw.
function carryContexts(manager, fill, findFrames) {
  const storage = manager._asyncLocalStorage;
  if (!(storage instanceof AsyncLocalStorage)) {
    return false;
  }
  const carriers = new CarrierStorage(storage, fill);
  const probe = {};
  if (!carriers.run(probe, () => findFrames(storage, carriers.carrierOf(probe)))) {
    return false;
  }
  if (typeof storage.withScope !== 'function') { // which the manager asks for
    carriers.withScope = undefined;
  }
  manager._asyncLocalStorage = carriers;
  return true;
}

module.exports = { carryContexts, Returned };

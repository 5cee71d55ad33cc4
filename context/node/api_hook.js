// SPDX-License-Identifier: Apache-2.0
// Sees OpenTelemetry's API, of any version 1 and any number of copies, register its context manager.
//
// All copies share one object under a symbol of the global object, made by the first of them. A setter there sees it
// arrive and becomes a plain property. The object gets a prototype whose setter sees `context` arrive and makes it a
// plain property too; unregistering deletes that one, and the setter sees the next manager. Reads stay as they were.
'use strict';

const API = Symbol.for('opentelemetry.js.api.1');

function plain(object, key, value) {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

function watchContext(api, meet) {
  if (api.context) {
    meet(api.context, true);
  }
  const before = Object.getPrototypeOf(api);
  Object.setPrototypeOf(api, Object.create(before, {
    context: {
      get: () => undefined,
      set(manager) {
        plain(this, 'context', manager);
        meet(manager, false);
      },
    },
  }));
}

// meet(manager, wasThere) must not throw.
function onContextManager(meet) {
  if (globalThis[API]) {
    watchContext(globalThis[API], meet);
    return;
  }
  Object.defineProperty(globalThis, API, {
    configurable: true,
    get: () => undefined,
    set(api) {
      plain(globalThis, API, api);
      if (api && typeof api === 'object' && Object.isExtensible(api)) {
        watchContext(api, meet);
      }
    },
  });
}

module.exports = { onContextManager };

// SPDX-License-Identifier: Apache-2.0
// For NODE_OPTIONS=--require: starts the publisher where it can run. Old syntax: each Node since 8 reads this file.
'use strict';

(function () {
  if (process.env.SPANPROF_CONTEXT === 'off' || process.versions.bun || typeof Deno !== 'undefined' ||
      process.platform !== 'linux') {
    return;
  }
  if (!(parseInt(process.versions.node, 10) >= 18)) {
    require('./refusal.js').refuse('unknown_version');
    return;
  }
  try {
    require('./publisher.js').start();
  } catch (error) {
    if (process.env.SPANPROF_CONTEXT_DEBUG === '1') {
      console.error('spanprof: not publishing:', error);
    }
  }
})();

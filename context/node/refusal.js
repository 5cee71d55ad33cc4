// SPDX-License-Identifier: Apache-2.0
// Shows the node why nothing is published: a file beside this one is loaded, whose name says it (refused.c). Old syntax.
'use strict';

const path = require('path');

function refuse(state) {
  try {
    process.dlopen({ exports: {} }, path.join(__dirname, 'spanprof-refused-' + state));
  } catch (error) { // another machine, or nothing may be executed where it lies
    if (process.env.SPANPROF_CONTEXT_DEBUG === '1') {
      console.error('spanprof: the node cannot see it:', error);
    }
  }
}

module.exports = { refuse };

// SPDX-License-Identifier: Apache-2.0
// The calling thread's context record, written without a call into native code.
//
// Memory: three records of 32 bytes, of which the thread's pointer (otel_thread_ctx_v1) names one. The first says
// "no span" and never changes. A change fills the one of the others that is not named, and then names it: the thread
// can be stopped anywhere and shows a whole record. The records share the upper half of their addresses, so that the
// lower half of the pointer is all that changes, with one store.
'use strict';

const NO_SPAN = 0, FIRST = 8, SECOND = 16; // indexes of 32-bit words
const VALID = 1; // with the trace flags above it, and no attributes

const NIBBLES = new Uint8Array(128).fill(0xf0);
for (let i = 0; i < 16; i++) {
  NIBBLES['0123456789abcdef'.charCodeAt(i)] = i;
  NIBBLES['0123456789ABCDEF'.charCodeAt(i)] = i;
}

// Four bytes in their order, as a number of this (little-endian) machine. NaN: not hexadecimal.
function word(text, at) {
  let value = 0, bad = 0;
  for (let i = at + 6; i >= at; i -= 2) {
    const upper = NIBBLES[text.charCodeAt(i)], lower = NIBBLES[text.charCodeAt(i + 1)];
    value = value << 8 | upper << 4 | lower;
    bad |= upper | lower;
  }
  return bad < 16 ? value : NaN;
}

// What publish() takes; null for a span that is not to be published: of another process, or invalid.
function record(context) {
  const { traceId, spanId } = context;
  if (context.isRemote || typeof traceId !== 'string' || traceId.length !== 32 || typeof spanId !== 'string' ||
      spanId.length !== 16) {
    return null;
  }
  const made = {
    trace0: word(traceId, 0), trace1: word(traceId, 8), trace2: word(traceId, 16), trace3: word(traceId, 24),
    span0: word(spanId, 0), span1: word(spanId, 8), rest: VALID | (context.traceFlags & 0xff) << 8,
  };
  const sum = made.trace0 + made.trace1 + made.trace2 + made.trace3 + made.span0 + made.span1;
  if (Number.isNaN(sum) || !(made.trace0 | made.trace1 | made.trace2 | made.trace3) || !(made.span0 | made.span1)) {
    return null;
  }
  return made;
}

// made: as publish() has it; to: 32-bit words that are zero from `at` on.
function write(made, to, at) {
  if (made !== null) {
    to[at] = made.trace0;
    to[at + 1] = made.trace1;
    to[at + 2] = made.trace2;
    to[at + 3] = made.trace3;
    to[at + 4] = made.span0;
    to[at + 5] = made.span1;
  }
  to[at + 6] = made === null ? VALID : made.rest;
}

// memory: {pointer, records} of the addon; attach makes the thread's pointer name the first record, and throws if there is
// none. Returns publish(made): of record(), or null for no span. What it needs are constants of its own, for V8.
function open(memory, attach) {
  const pointer = new Int32Array(memory.pointer); // [lower half, upper half]
  const words = new Int32Array(memory.records);
  attach();
  const low = pointer[0], high = pointer[1]; // of the address of the first record
  let named = NO_SPAN;
  let first = null, second = null; // what the records have, as made by record(); null: nothing yet

  // Which of the records has it now: the one that is not named.
  function fill(made) {
    if (named === FIRST) {
      second = made;
      write(made, words, SECOND);
      return SECOND;
    }
    first = made;
    write(made, words, FIRST);
    return FIRST;
  }

  // A thread comes back to the same span after each switch, so a record that has it already is named again.
  return function publish(made) {
    let next = NO_SPAN;
    if (made !== null) {
      next = made === first ? FIRST : made === second ? SECOND : fill(made);
    }
    if (pointer[1] !== high) { // at first, and after another library has named a record of its own
      attach();
    }
    pointer[0] = low + 4 * next;
    named = next;
  };
}

module.exports = { thread: { open, record, write } };

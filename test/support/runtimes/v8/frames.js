// SPDX-License-Identifier: Apache-2.0
// Calls itself through functions of all kinds and tiers, then prints its own stack as V8 tells it,
// a line of JSON a thread, and waits at that place until its parent is gone. A worker does the same.
// node frames.js CALLS [--worker] [--no-trace]: how often each was called before, which decides on the tier;
// without a trace V8 has no table of lines.
'use strict';
const worker = require('worker_threads');
const calls = Number(process.argv[2] || (worker.workerData && worker.workerData.calls) || 10);
const shared = new Int32Array(new SharedArrayBuffer(4));
const withTrace = !process.argv.includes('--no-trace');
let stop = false;
let depth = 0;

function describe(site) {
    const file = site.getFileName() || (site.isEval() ? '' : null);
    return {function: site.getFunctionName(), file, line: site.getLineNumber(),
            column: site.getColumnNumber(), native: site.isNative(), top: site.isToplevel(),
            eval: site.isEval(), async: typeof site.isAsync === 'function' && site.isAsync()};
}

function trace() {
    const before = Error.prepareStackTrace, limit = Error.stackTraceLimit, holder = {};
    Error.prepareStackTrace = (_, sites) => sites.map(describe);
    Error.stackTraceLimit = Infinity;
    Error.captureStackTrace(holder, trace);
    const frames = holder.stack;
    Error.prepareStackTrace = before;
    Error.stackTraceLimit = limit;
    return frames;
}

function bottom(x) {
    if (!stop) {
        return x + 1;
    }
    require('fs').writeSync(1, JSON.stringify(withTrace ? trace() : []) + '\n');
    Atomics.wait(shared, 0, 0);
    return x;
}

function small(x) {
    return bottom(x) + 1;
}

const arrow = x => small(x) * 2;

class Shape {
    constructor(x) {
        this.area = arrow(x);
    }
    get size() {
        return new Shape(this.area).area;
    }
    method(x) {
        return this.side(x) + 1;
    }
    side(x) {
        const shape = Object.create(Shape.prototype, {area: {value: x, writable: true}});
        return shape.size;
    }
    static fixed(x) {
        return new this(x).method(x);
    }
}

function forEach(x) {
    let sum = 0;
    [x].forEach(function each(y) {
        sum += Shape.fixed(y);
    });
    return sum;
}

const anonymous = (() => function(x) {
    return forEach(x) + forEachArrow(x);
})();

function forEachArrow(x) {
    return [x, x].map(y => stop ? y : small(y)).reduce((a, b) => a + b, 0);
}

function* generator(x) {
    yield anonymous(x);
}

function closures(x) {
    const one = 1, two = 2, three = x;
    function inner(y) {
        return generator(y + one + two + three).next().value;
    }
    return inner(x);
}

const évalué = eval('(function évalué(x) {\n  return closures(x);\n})\n//# sourceURL=evaluated.js');

const {wide} = require('./wide.js');

const made = new Function('wide', 'x', 'return wide(évaluéOut, x)'.replace('évaluéOut', 'this.f'));
const holder = {f: évalué, made};

function tryCatch(x) {
    try {
        return holder.made(wide, x);
    } finally {
        depth--;
    }
}

const square = x => x * x;

function step(x) {
    return tryCatch(x);
}

// Compilers copy a loop's first turn to its front.
function loop(x) {
    let sum = 0;
    for (let i = 0; i < 2; i++) {
        sum += square(i);
        sum += i ? x
                 : step(x);
    }
    return sum;
}

function loopOfAnother(x) {
    let sum = 0;
    for (let i = 0; i < 2; i++) {
        sum += i ? square(x)
                 : loop(x);
    }
    return sum;
}

function outer(x) {
    depth++;
    return loopOfAnother(x);
}

function run() {
    for (let i = 0; i < calls; i++) {
        outer(i);
    }
    stop = true;
    outer(1);
}

if (worker.isMainThread && process.argv.includes('--worker')) {
    new worker.Worker(__filename, {workerData: {calls}});
} else {
    run();
}

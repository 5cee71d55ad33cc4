// SPDX-License-Identifier: Apache-2.0
// Its text has characters of two bytes: 学 € — and lines that end in U+2028:   here.
'use strict';
exports.wide = function 広い(f, x) { /* € */ return f(x) + (() => 0)(); };

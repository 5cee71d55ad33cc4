// SPDX-License-Identifier: Apache-2.0
// Runs without end, through functions of many kinds: calls of builtins, of regular expressions, of
// closures, of getters; short-lived functions; strings and arrays; exceptions. Each stack has outer().
// node spin.js [SECONDS [--collect]]
'use strict';
const seconds = Number(process.argv[2] || 1000);
const begin = Date.now();
const collect = process.argv.includes('--collect'); // with --expose-gc
let sink = 0;

function leaf(x) { return x * 3 % 7; }
function add(a, b) { return leaf(a) + leaf(b); }
function strings(n) {
    let text = '';
    for (let i = 0; i < n; i++) { text += String.fromCharCode(97 + i % 26); }
    return text.replace(/[aeiou]/g, '*').split('*').join('-').length;
}
function arrays(n) {
    const list = [];
    for (let i = 0; i < n; i++) { list.push({key: leaf(i), value: i}); }
    list.sort((a, b) => a.key - b.key);
    return list.map(x => x.value).filter(x => x % 2).reduce((a, b) => add(a, b), 0);
}
function maps(n) {
    const map = new Map();
    for (let i = 0; i < n; i++) { map.set('k' + i % 100, i); }
    let sum = 0;
    for (const [key, value] of map) { sum += key.length + value; }
    return sum;
}
function objects(n) {
    let text = '';
    for (let i = 0; i < n; i++) { text = JSON.stringify({i, list: [i, i + 1], nested: {a: text.length}}); }
    return JSON.parse(text).i;
}
function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
function throws(n) {
    let caught = 0;
    for (let i = 0; i < n; i++) { try { if (i % 3) { throw i; } } catch (e) { caught += e; } }
    return caught;
}
class Point {
    constructor(x, y) { this.x = x; this.y = y; }
    get length() { return Math.sqrt(this.x * this.x + this.y * this.y); }
    plus(other) { return new Point(this.x + other.x, this.y + other.y); }
}
function points(n) {
    let point = new Point(0, 0);
    for (let i = 0; i < n; i++) { point = point.plus(new Point(Math.sin(i), Math.cos(i))); }
    return point.length;
}
function* numbers(n) { for (let i = 0; i < n; i++) { yield leaf(i); } }
function generators(n) { let sum = 0; for (const x of numbers(n)) { sum += x; } return sum; }
function varargs(...list) { return list.length ? list[0] + Math.max.apply(null, list) : 0; }
function spread(n) { let sum = 0; for (let i = 0; i < n; i++) { sum += varargs(...[i, i + 1, i + 2]); } return sum; }
function typed(n) { const list = new Float64Array(n); for (let i = 0; i < n; i++) { list[i] = Math.exp(-i / n); } return list.sort()[0]; }
let serial = 0;
function fresh(n) {
    const make = new Function('leaf', 'n', `let s = ${serial++}; for (let i = 0; i < n; i++) { s += leaf(i); } return s;`);
    return make(leaf, n);
}
const kinds = [() => strings(200), () => arrays(200), () => maps(300), () => objects(50), () => fibonacci(15),
               () => throws(100), () => points(300), () => generators(300), () => spread(200), () => typed(300),
               () => fresh(100), () => BigInt(sink | 0) * 12345678901234567890n % 97n];
function outer() {
    while (Date.now() - begin < seconds * 1000) {
        if (collect) { global.gc(); }
        for (let i = 0; i < 200; i++) { sink += Number(kinds[i % kinds.length]()); }
    }
}
outer();

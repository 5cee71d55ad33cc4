// SPDX-License-Identifier: Apache-2.0
// Load without end: sorting with a callback, JSON, regular expressions, hashes, garbage.
const { createHash } = require('crypto');

function round() {
  const items = [];
  for (let i = 0; i < 2e4; i++) items.push({ value: Math.random(), name: 'key' + i });
  items.sort((a, b) => a.value - b.value);
  const text = JSON.stringify(items);
  const names = JSON.parse(text).map((item) => item.name.replace(/(\d)(?=(\d{3})+$)/g, '$1,'));
  return createHash('sha256').update(names.join()).digest('hex');
}

setInterval(round, 0);

// SPDX-License-Identifier: Apache-2.0
// The demo's Express service: nothing here is about tracing or profiling.
'use strict';
const express = require('express');
const app = express();

function checksum(line) {
    let sum = 1;
    for (let round = 0; round < 400; round++)
        for (let i = 0; i < line.length; i++)
            sum = (sum * 31 + line.charCodeAt(i)) % 1000003;
    return sum;
}

// The more lines an invoice has, the slower.
app.get('/invoice', (request, response) => {
    const lines = Number(request.query.lines || 5);
    const sums = Array.from({length: lines}, (_, i) => checksum('teapot, item ' + i + ', blue'));
    response.json({lines, sums});
});

app.get('/address', (request, response) => {
    setTimeout(() => response.json({city: 'Uppsala'}), 20); // a directory answers
});

app.listen(Number(process.env.PORT), '127.0.0.1');

// SPDX-License-Identifier: Apache-2.0
// Sends the spans of sdk_spans.py; prints each one's ids. OTEL_EXPORTER_OTLP_PROTOCOL chooses the exporter.
'use strict';
const { setTimeout } = require('node:timers/promises');
const { context, createTraceState, diag, DiagConsoleLogger, DiagLogLevel, SpanKind, SpanStatusCode, trace } =
    require('@opentelemetry/api');
const { defaultResource, detectResources, envDetector } = require('@opentelemetry/resources');
const { BatchSpanProcessor, TracerProvider } = require('@opentelemetry/sdk-trace');

const SPANS = 1000;
const SPANS_OF_TRACE = 10;
const TEXT = 'größe 漢字 🚀 "\\\t\n\u0001';
const KINDS = [SpanKind.INTERNAL, SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER];
const EXPORTERS = { 'grpc': 'grpc', 'http/protobuf': 'proto', 'http/json': 'http' };

diag.setLogger(new DiagConsoleLogger(), DiagLogLevel.WARN);
const base = BigInt(process.argv[2]);
const pause = Number(process.argv[3]);

function time(nanoseconds) {
    return [Number(nanoseconds / 1000000000n), Number(nanoseconds % 1000000000n)];
}

function linkOf(i) {
    const id = (i + 1).toString(16);
    return { context: { traceId: id.padStart(32, '0'), spanId: id.padStart(16, '0'), traceFlags: 1,
                        traceState: createTraceState('vendor=x') },
             attributes: { link: i } };
}

function attributesOf(i) {
    const attributes = { index: i, negative: -i - 1, large: Number.MAX_SAFE_INTEGER, ratio: i + 0.5, even: i % 2 === 0,
                         text: TEXT, empty: '', words: ['a', 'ß', ''], numbers: [1, -2, i] };
    if (i === 100)
        attributes.long = 'é漢'.repeat(20000);
    return attributes;
}

function makeSpan(tracer, parent, i) {
    const start = base + BigInt(i) * 1000000n;
    const span = tracer.startSpan(`span ${i} größe 漢字 🚀`, {
        kind: KINDS[i % 5], startTime: time(start), attributes: attributesOf(i),
        links: i % 4 ? [] : [linkOf(i)] }, parent);
    for (let j = 0; j < i % 3; j++)
        span.addEvent(`event ${j} ✓`, { n: j, why: TEXT }, time(start + BigInt(j) + 1n));
    if (i === 500)
        span.setStatus({ code: SpanStatusCode.ERROR, message: 'it failed: größe' });
    if (i === 501)
        span.setStatus({ code: SpanStatusCode.OK });
    span.end(time(start + 456789n + BigInt(i)));
    const own = span.spanContext();
    console.log(`${i} ${own.traceId} ${own.spanId}`);
    return span;
}

async function main() {
    const { OTLPTraceExporter } =
        require('@opentelemetry/exporter-trace-otlp-' + EXPORTERS[process.env.OTEL_EXPORTER_OTLP_PROTOCOL]);
    const provider = new TracerProvider({
        resource: defaultResource().merge(detectResources({ detectors: [envDetector] })),
        spanProcessors: [new BatchSpanProcessor({
            exporter: new OTLPTraceExporter(), // what follows it reads from the environment in some versions only
            maxExportBatchSize: Number(process.env.OTEL_BSP_MAX_EXPORT_BATCH_SIZE ?? 512),
            scheduledDelayMillis: Number(process.env.OTEL_BSP_SCHEDULE_DELAY ?? 5000) })] });
    const tracer = provider.getTracer('spanprof.peer', '1.2.3',
                                      { schemaUrl: 'https://opentelemetry.io/schemas/1.30.0' });
    let parent = context.active();
    for (let i = 0; i < SPANS; i++) {
        const root = i % SPANS_OF_TRACE === 0;
        const span = makeSpan(tracer, root ? context.active() : parent, i);
        if (root)
            parent = trace.setSpan(context.active(), span);
        if (pause && root)
            await setTimeout(pause);
    }
    await provider.forceFlush();
    await provider.shutdown();
}

main().catch(error => {
    console.error(error);
    process.exitCode = 1;
});

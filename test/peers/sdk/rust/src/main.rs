// SPDX-License-Identifier: Apache-2.0
//! Sends the spans of sdk_spans.py; prints each one's ids. OTEL_EXPORTER_OTLP_PROTOCOL chooses the exporter.
use opentelemetry::trace::{
    Link, Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use opentelemetry_otlp::{SpanExporter, WithTonicConfig};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use std::error::Error;
use std::time::{Duration, SystemTime};

const SPANS: i64 = 1000;
const SPANS_OF_TRACE: i64 = 10;
const TEXT: &str = "größe 漢字 🚀 \"\\\t\n\x01";
const KINDS: [SpanKind; 5] =
    [SpanKind::Internal, SpanKind::Server, SpanKind::Client, SpanKind::Producer, SpanKind::Consumer];

fn time(nanoseconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds as u64)
}

fn link_of(i: i64) -> Link {
    let state = TraceState::from_key_value([("vendor", "x")]).expect("a state");
    let context = SpanContext::new(
        TraceId::from((i + 1) as u128), SpanId::from((i + 1) as u64), TraceFlags::SAMPLED, false, state);
    Link::new(context, vec![KeyValue::new("link", i)], 0)
}

fn attributes_of(i: i64) -> Vec<KeyValue> {
    let words: Vec<StringValue> = vec!["a".into(), "ß".into(), "".into()];
    let mut attributes = vec![
        KeyValue::new("index", i),
        KeyValue::new("negative", -i - 1),
        KeyValue::new("large", (1i64 << 53) - 1),
        KeyValue::new("ratio", i as f64 + 0.5),
        KeyValue::new("even", i % 2 == 0),
        KeyValue::new("text", TEXT),
        KeyValue::new("empty", ""),
        KeyValue::new("words", Value::Array(Array::String(words))),
        KeyValue::new("numbers", Value::Array(Array::I64(vec![1, -2, i]))),
    ];
    if i == 100 {
        attributes.push(KeyValue::new("long", "é漢".repeat(20000)));
    }
    attributes
}

fn make_span(tracer: &SdkTracer, parent: &Context, base: i64, i: i64) -> Context {
    let start = base + i * 1_000_000;
    let mut span = tracer
        .span_builder(format!("span {i} größe 漢字 🚀"))
        .with_kind(KINDS[i as usize % 5].clone())
        .with_start_time(time(start))
        .with_attributes(attributes_of(i))
        .with_links(if i % 4 == 0 { vec![link_of(i)] } else { vec![] })
        .start_with_context(tracer, parent);
    for j in 0..i % 3 {
        let attributes = vec![KeyValue::new("n", j), KeyValue::new("why", TEXT)];
        span.add_event_with_timestamp(format!("event {j} ✓"), time(start + j + 1), attributes);
    }
    if i == 500 {
        span.set_status(Status::error("it failed: größe"));
    }
    if i == 501 {
        span.set_status(Status::Ok);
    }
    span.end_with_timestamp(time(start + 456_789 + i));
    let own = span.span_context().clone();
    println!("{} {} {}", i, own.trace_id(), own.span_id());
    Context::new().with_remote_span_context(own)
}

fn exporter() -> Result<SpanExporter, Box<dyn Error>> {
    Ok(match std::env::var("OTEL_EXPORTER_OTLP_CERTIFICATE") {
        Ok(path) => {
            let read = |name| -> Result<_, Box<dyn Error>> { Ok(std::fs::read(std::env::var(name)?)?) };
            let own = Identity::from_pem(
                read("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")?, read("OTEL_EXPORTER_OTLP_CLIENT_KEY")?);
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(std::fs::read(path)?)).identity(own);
            SpanExporter::builder().with_tonic().with_tls_config(tls).build()?
        }
        Err(_) => SpanExporter::builder().build()?,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let base: i64 = std::env::args().nth(1).ok_or("no time given")?.parse()?;
    let pause: u64 = std::env::args().nth(2).ok_or("no pause given")?.parse()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let is_grpc = std::env::var("OTEL_EXPORTER_OTLP_PROTOCOL")? == "grpc";
    let guard = is_grpc.then(|| runtime.enter());
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter()?).build();
    let scope = InstrumentationScope::builder("spanprof.peer")
        .with_version("1.2.3")
        .with_schema_url("https://opentelemetry.io/schemas/1.30.0")
        .build();
    let tracer = provider.tracer_with_scope(scope);
    let mut parent = Context::new();
    for i in 0..SPANS {
        if i % SPANS_OF_TRACE == 0 {
            parent = make_span(&tracer, &Context::new(), base, i);
            std::thread::sleep(Duration::from_millis(pause));
        } else {
            make_span(&tracer, &parent, base, i);
        }
    }
    provider.force_flush()?;
    provider.shutdown()?;
    drop(guard);
    Ok(())
}

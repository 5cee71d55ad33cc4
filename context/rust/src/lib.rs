// SPDX-License-Identifier: Apache-2.0
//! Tells profilers which OpenTelemetry span each thread works for (OTEP 4947), by `libspanprof-context`.
//!
//! ```no_run
//! # use opentelemetry::{Key, Value};
//! # fn with<'a>(resource: Vec<(&'a Key, &'a Value)>) {
//! spanprof_otel::install(resource); // once, in main, before the first span; &resource of the SDK
//! # }
//! ```
//!
//! What is published is the span of OpenTelemetry's current context at each step: futures enter and leave theirs at each
//! poll, with `FutureExt::with_context` as with `tracing` and `tracing-opentelemetry`, which activates contexts by
//! default. For one that does not (`with_context_activation(false)`) there is the layer of the feature `tracing`.
//!
//! The library is loaded at run time; without it nothing is published, and the program is as it was. So it is with
//! `SPANPROF_CONTEXT=off`. What fails is silent unless `SPANPROF_CONTEXT_DEBUG=1`.

#[cfg(feature = "tracing")]
mod layer;
mod library;
mod publisher;
mod refusal;

use opentelemetry::context::{ContextObserver, GlobalContextObserver};
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Context, Key, Value};
use std::sync::Arc;

#[cfg(feature = "tracing")]
pub use layer::{layer, PublishingLayer};
use publisher::Publisher;

/// Publishes from now on, as the process that `resource` describes: the SDK's own, `&Resource`. Tells whether it does.
pub fn install<'a>(resource: impl IntoIterator<Item = (&'a Key, &'a Value)>) -> bool {
    let Some(publisher) = Publisher::begin(resource) else {
        return false;
    };
    GlobalContextObserver::set(Arc::new(Observer(publisher)));
    true
}

/// Called with the context that is current from then on, within the API's own borrow of it: it must not be asked for.
struct Observer(&'static Publisher);

impl ContextObserver for Observer {
    fn on_context_enter(&self, _from: &Context, to: &Context) {
        self.0.publish(to.span().span_context());
    }

    fn on_context_exit(&self, _from: &Context, to: &Context) {
        self.0.publish(to.span().span_context());
    }
}

/// Trace id, span id and flags of this thread as a profiler would read them; zeros for none. For tests.
#[doc(hidden)]
pub fn published() -> ([u8; 16], [u8; 8], u8) {
    publisher::published()
}

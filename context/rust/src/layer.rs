// SPDX-License-Identifier: Apache-2.0
//! For subscribers whose tracing-opentelemetry does not make its spans OpenTelemetry's current ones.

use crate::publisher::Publisher;
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry::{Key, Value};
use std::sync::OnceLock;
use tracing::dispatcher::WeakDispatch;
use tracing::span::Id;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// A layer that publishes the thread's current span of `tracing`, beside an OpenTelemetryLayer with
/// `with_context_activation(false)`. With activation, [`crate::install`] is what is needed, and this would be a second
/// writer: whichever of the two comes first is the one that publishes.
pub fn layer<'a>(resource: impl IntoIterator<Item = (&'a Key, &'a Value)>) -> PublishingLayer {
    PublishingLayer { publisher: Publisher::begin(resource), dispatch: OnceLock::new() }
}

/// See [`layer`].
pub struct PublishingLayer {
    publisher: Option<&'static Publisher>,
    dispatch: OnceLock<WeakDispatch>,
}

/// Kept with a span, so that it is asked for once.
struct Published(SpanContext);

impl PublishingLayer {
    /// The innermost span that OpenTelemetry knows: others are filtered from its layer.
    fn publish<'a, S: LookupSpan<'a>>(&self, publisher: &Publisher, current: Option<SpanRef<'a, S>>) {
        for span in current.iter().flat_map(|span| span.scope()) {
            if let Some(Published(span_context)) = span.extensions().get() {
                publisher.publish(span_context);
                return;
            }
        }
        publisher.publish(&SpanContext::NONE);
    }

    fn meet<'a, S: LookupSpan<'a>>(&self, span: &SpanRef<'a, S>) {
        let met = span.extensions().get::<Published>().is_some();
        let dispatch = if met { None } else { self.dispatch.get().and_then(WeakDispatch::upgrade) };
        let Some(context) =
            dispatch.and_then(|dispatch| tracing_opentelemetry::get_otel_context(&span.id(), &dispatch))
        else {
            return;
        };
        span.extensions_mut().replace(Published(context.span().span_context().clone()));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for PublishingLayer {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        let _ = self.dispatch.set(subscriber.downgrade());
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let (Some(publisher), Some(span)) = (self.publisher, context.span(id)) {
            self.meet(&span);
            self.publish(publisher, Some(span));
        }
    }

    fn on_exit(&self, _id: &Id, context: Context<'_, S>) {
        if let Some(publisher) = self.publisher {
            self.publish(publisher, context.lookup_current());
        }
    }
}

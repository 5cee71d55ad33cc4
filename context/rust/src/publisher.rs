// SPDX-License-Identifier: Apache-2.0
//! What a process publishes, once, and each thread, at each change of its span. Nothing here allocates on a change.

use crate::library::{pthread_atfork, Attribute, Library, ThreadContext};
use crate::refusal;
use opentelemetry::trace::SpanContext;
use opentelemetry::{Key, Value};
use std::env;
use std::ffi::{CStr, CString};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::OnceLock;

/// What libspanprof-context takes (spanprof_context.h).
const ATTRIBUTES_MAX: usize = 128;
const KEY_MAX: usize = 255;
const VALUE_MAX: usize = 4096;
const RESOURCE_BYTES_MAX: usize = 16384;

const ON: u8 = 0;
const FORKED: u8 = 1; // a child that has not published itself yet
const OFF: u8 = 2;

pub(crate) struct Publisher {
    library: Library,
    state: AtomicU8,
}

static PUBLISHER: OnceLock<Option<Publisher>> = OnceLock::new();

impl Publisher {
    /// None: not this time, because of what debug() says, or it has begun before.
    pub(crate) fn begin<'a>(resource: impl IntoIterator<Item = (&'a Key, &'a Value)>) -> Option<&'static Publisher> {
        let mut first = false;
        let publisher = PUBLISHER.get_or_init(|| {
            first = true;
            open(resource)
        });
        if !first {
            debug("it was installed before");
            return None;
        }
        publisher.as_ref()
    }

    /// The span that this thread works for now.
    #[inline]
    pub(crate) fn publish(&self, span: &SpanContext) {
        let state = self.state.load(Ordering::Relaxed);
        if state == OFF {
            return;
        }
        // SAFETY: the ids are as long as the function reads.
        unsafe {
            if !span.is_valid() || span.is_remote() {
                (self.library.clear)();
                return;
            }
            if state == FORKED && !self.publish_child() {
                return;
            }
            let (trace_id, span_id) = (span.trace_id().to_bytes(), span.span_id().to_bytes());
            (self.library.set)(trace_id.as_ptr(), span_id.as_ptr(), span.trace_flags().to_u8());
        }
    }

    /// A child has no process context until its first span; its Resource is its parent's.
    #[cold]
    fn publish_child(&self) -> bool {
        let next = match self.state.compare_exchange(FORKED, ON, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: no attributes are read.
            Ok(_) if unsafe { (self.library.publish)(ptr::null(), 0) } != 0 => OFF,
            Ok(_) => ON,
            Err(state) => state,
        };
        self.state.store(next, Ordering::Release);
        next == ON
    }
}

fn open<'a>(resource: impl IntoIterator<Item = (&'a Key, &'a Value)>) -> Option<Publisher> {
    if env::var_os("SPANPROF_CONTEXT").is_some_and(|value| value == "off") {
        debug("SPANPROF_CONTEXT=off");
        return None;
    }
    let Some(library) = Library::load() else {
        return refuse(refusal::NO_LIBRARY, "no libspanprof-context.so.0");
    };
    let texts = texts(resource);
    let attributes: Vec<Attribute> =
        texts.iter().map(|(key, value)| Attribute { key: key.as_ptr(), value: value.as_ptr() }).collect();
    // SAFETY: the texts live until the end of this function, and are copied.
    let error = unsafe { (library.publish)(attributes.as_ptr(), attributes.len()) };
    if error != 0 {
        let error = io::Error::from_raw_os_error(-error);
        let taken = error.kind() == io::ErrorKind::AlreadyExists;
        return refuse(
            if taken { refusal::TAKEN } else { refusal::FAILED },
            &format!("the process context cannot be published: {error}"),
        );
    }
    // SAFETY: the handler does what a child may do.
    unsafe { pthread_atfork(None, None, Some(forked)) };
    debug("the process context is published");
    Some(Publisher { library, state: AtomicU8::new(ON) })
}

fn refuse(state: &CStr, reason: &str) -> Option<Publisher> {
    debug(reason);
    if let Err(error) = refusal::show(state) {
        debug(&format!("the node cannot see it: {error}"));
    }
    None
}

/// Attributes that can be published, as text.
fn texts<'a>(resource: impl IntoIterator<Item = (&'a Key, &'a Value)>) -> Vec<(CString, CString)> {
    let mut left = RESOURCE_BYTES_MAX;
    let mut texts = Vec::new();
    for (key, value) in resource {
        let (key, value) = (key.as_str(), value.as_str());
        let size = 4 + key.len() + value.len();
        if key.is_empty() || key.len() > KEY_MAX || value.len() > VALUE_MAX || size > left {
            continue;
        }
        let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value.as_ref())) else {
            continue; // a NUL inside
        };
        if texts.len() < ATTRIBUTES_MAX {
            left -= size;
            texts.push((key, value));
        }
    }
    texts
}

unsafe extern "C" fn forked() {
    if let Some(Some(publisher)) = PUBLISHER.get() {
        // SAFETY: the thread's own memory alone is changed.
        unsafe { (publisher.library.clear)() };
        let _ = publisher.state.compare_exchange(ON, FORKED, Ordering::AcqRel, Ordering::Acquire);
    }
}

pub(crate) fn published() -> ([u8; 16], [u8; 8], u8) {
    let mut context = ThreadContext::none();
    if let Some(Some(publisher)) = PUBLISHER.get() {
        // SAFETY: it writes one struct.
        unsafe { (publisher.library.get)(&mut context) };
    }
    (context.trace_id, context.span_id, context.trace_flags)
}

pub(crate) fn debug(text: &str) {
    if env::var_os("SPANPROF_CONTEXT_DEBUG").is_some_and(|value| value == "1") {
        eprintln!("spanprof_otel: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out() {
        let long = "x".repeat(VALUE_MAX + 1);
        let pairs = [
            (Key::new("service.name"), Value::from("shop")),
            (Key::new("count"), Value::from(3)),
            (Key::new(""), Value::from("no key")),
            (Key::new("long"), Value::from(long)),
            (Key::new("nul"), Value::from("a\0b")),
        ];
        let texts = texts(pairs.iter().map(|(key, value)| (key, value)));
        let found: Vec<_> = texts.iter().map(|(k, v)| (k.to_str().unwrap(), v.to_str().unwrap())).collect();
        assert_eq!(found, [("service.name", "shop"), ("count", "3")]);
    }

    #[test]
    fn limits() {
        let many: Vec<_> = (0..300).map(|i| (Key::new(format!("key.{i}")), Value::from("v".repeat(100)))).collect();
        assert_eq!(texts(many.iter().map(|(key, value)| (key, value))).len(), ATTRIBUTES_MAX);
        let large: Vec<_> = (0..300).map(|i| (Key::new(format!("key.{i}")), Value::from("v".repeat(4000)))).collect();
        assert_eq!(texts(large.iter().map(|(key, value)| (key, value))).len(), 4);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! libspanprof-context, loaded when it is there. A build script of a dependency cannot make the program export the
//! library's thread-local variables, where profilers look for them, so it is not linked in.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem;

const NAME: &CStr = c"libspanprof-context.so.0";
const RTLD_NOW: c_int = 2;

#[repr(C)]
pub(crate) struct Attribute {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

/// struct spanprof_context of spanprof_context.h.
#[repr(C)]
pub(crate) struct ThreadContext {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
    reserved: u8,
    pub(crate) trace_flags: u8,
    attributes_size: u16,
    attributes: [u8; 208],
}

impl ThreadContext {
    pub(crate) fn none() -> Self {
        ThreadContext {
            trace_id: [0; 16],
            span_id: [0; 8],
            reserved: 0,
            trace_flags: 0,
            attributes_size: 0,
            attributes: [0; 208],
        }
    }
}

pub(crate) struct Library {
    pub(crate) publish: unsafe extern "C" fn(*const Attribute, usize) -> c_int,
    pub(crate) set: unsafe extern "C" fn(*const u8, *const u8, u8) -> c_int,
    pub(crate) clear: unsafe extern "C" fn() -> c_int,
    pub(crate) get: unsafe extern "C" fn(*mut ThreadContext),
}

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(crate) fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

impl Library {
    /// None: it is not on this machine, or not one that this crate knows. It is never unloaded: threads keep pointers
    /// into it.
    pub(crate) fn load() -> Option<Library> {
        // SAFETY: the name ends with a NUL; its constructors are those of a C library without any.
        let handle = unsafe { dlopen(NAME.as_ptr(), RTLD_NOW) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the types are those of spanprof_context.h for the version in NAME.
        unsafe {
            Some(Library {
                publish: mem::transmute::<*mut c_void, unsafe extern "C" fn(*const Attribute, usize) -> c_int>(symbol(
                    handle,
                    c"spanprof_context_publish",
                )?),
                set: mem::transmute::<*mut c_void, unsafe extern "C" fn(*const u8, *const u8, u8) -> c_int>(symbol(
                    handle,
                    c"spanprof_context_set",
                )?),
                clear: mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(symbol(
                    handle,
                    c"spanprof_context_clear",
                )?),
                get: mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut ThreadContext)>(symbol(
                    handle,
                    c"spanprof_context_get",
                )?),
            })
        }
    }
}

fn symbol(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle is of dlopen(), the name ends with a NUL.
    let found = unsafe { dlsym(handle, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

// SPDX-License-Identifier: Apache-2.0
//! Shows the node why nothing is published: a memfd is mapped whose name says it (context/publisher_state.h).

use std::ffi::{c_char, c_int, c_long, c_uint, c_void, CStr};
use std::os::fd::{AsRawFd, FromRawFd};
use std::{fs, io, ptr};

pub(crate) const NO_LIBRARY: &CStr = c"spanprof-refused-no_library";
pub(crate) const TAKEN: &CStr = c"spanprof-refused-taken";
pub(crate) const FAILED: &CStr = c"spanprof-refused-failed";

/// By number: C libraries before 2018 have no function for it.
const SYS_MEMFD_CREATE: c_long = if cfg!(target_arch = "aarch64") { 279 } else { 319 };
const MFD_CLOEXEC: c_uint = 1;
const MFD_NOEXEC_SEAL: c_uint = 8; // since Linux 6.3, which may demand it
const PROT_READ: c_int = 1;
const MAP_PRIVATE: c_int = 2;
const PAGE: usize = 4096; // as a length: a larger page is mapped whole

extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn mmap(at: *mut c_void, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
}

/// It stays for as long as the process lives.
pub(crate) fn show(name: &CStr) -> io::Result<()> {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Ok(());
    }
    let file = memfd(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL).or_else(|_| memfd(name, MFD_CLOEXEC))?;
    file.set_len(PAGE as u64)?;
    // SAFETY: a new mapping, which is only looked at from outside.
    let mapped = unsafe { mmap(ptr::null_mut(), PAGE, PROT_READ, MAP_PRIVATE, file.as_raw_fd(), 0) };
    if mapped as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn memfd(name: &CStr, flags: c_uint) -> io::Result<fs::File> {
    let name: *const c_char = name.as_ptr();
    // SAFETY: the name ends with a NUL; the descriptor is a new one.
    unsafe {
        let file = syscall(SYS_MEMFD_CREATE, name, flags);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(fs::File::from_raw_fd(file as c_int))
    }
}

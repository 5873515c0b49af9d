//! What every function of the interface does: no panic passes, and pointers are looked at before they are used.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

const EINVAL: c_int = -1;
const EPANIC: c_int = -2;

/// Carries a call out, without letting a panic pass.
pub(crate) fn call<T>(failed: T, act: impl FnOnce() -> Option<T>, invalid: T) -> T {
    catch_unwind(AssertUnwindSafe(act)).map_or(failed, |done| done.unwrap_or(invalid))
}

/// Carries a call out that returns a number, or what is wrong as one below zero.
pub(crate) fn status<T: From<c_int>>(act: impl FnOnce() -> Option<T>) -> T {
    call(EPANIC.into(), act, EINVAL.into())
}

/// # Safety
/// Null, or it may be written.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// # Safety
/// Null, or readable for `length` bytes.
pub(crate) unsafe fn bytes<'a>(begin: *const u8, length: usize) -> Option<&'a [u8]> {
    match (begin.is_null(), length) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(begin, length) }),
    }
}

/// # Safety
/// Null, or a string that ends with a zero.
pub(crate) unsafe fn text<'a>(begin: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller's promise.
    (!begin.is_null()).then(|| unsafe { CStr::from_ptr(begin) })?.to_str().ok()
}

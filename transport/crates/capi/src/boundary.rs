//! What every function of the interface does: no panic passes, pointers are looked at before they are used, and what was wrong can be
//! read afterwards.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

pub(crate) const EINVAL: c_int = -1;
pub(crate) const EPANIC: c_int = -2;

thread_local! {
    /// What was wrong with the last call of this thread that has failed.
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: c_int,
    /// In words, for whoever has made the call.
    pub(crate) what: String,
}

impl Fault {
    /// An argument that cannot be.
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Fault { status: EINVAL, what: what.into() }
    }
}

/// Carries a call out, without letting a panic pass; and keeps what is wrong for [`weir_error`].
pub(crate) fn attempt<T>(act: impl FnOnce() -> Result<T, Fault>) -> Result<T, c_int> {
    let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let what = format!("a fault in the library: {}", words(&*panic));
        Err(Fault { status: EPANIC, what })
    });
    done.map_err(|Fault { status, what }| {
        // A thread that is about to end may have no place for it any more.
        let _ = ERROR.try_with(|error| error.replace(printable(&what)));
        status
    })
}

fn words(panic: &dyn Any) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

/// Text as C has it. A peer may have written it: what would steer a terminal is replaced.
pub(crate) fn printable(text: &str) -> CString {
    let safe: String =
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    CString::new(safe).unwrap_or_default()
}

/// Carries a call out, without letting a panic pass.
pub(crate) fn call<T>(failed: T, act: impl FnOnce() -> Option<T>, invalid: T) -> T {
    let named =
        || act().ok_or_else(|| Fault::invalid("an argument cannot be: weir_transport.h says what may"));
    match attempt(named) {
        Ok(done) => done,
        Err(EPANIC) => failed,
        Err(_) => invalid,
    }
}

/// Carries a call out that returns a number, or what is wrong as one below zero.
pub(crate) fn status<T: From<c_int>>(act: impl FnOnce() -> Option<T>) -> T {
    call(EPANIC.into(), act, EINVAL.into())
}

/// What was wrong with the last call of this thread that has failed.
#[unsafe(no_mangle)]
pub extern "C" fn weir_error() -> *const c_char {
    ERROR.try_with(|error| error.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Something new for C to keep, or null.
pub(crate) fn made<T>(make: impl FnOnce() -> Result<T, Fault>) -> *mut T {
    attempt(make).map_or(ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// Ends what [`made`] has made.
///
/// # Safety
/// Null, or from [`made`], and not freed yet.
pub(crate) unsafe fn free<T>(it: *mut T) {
    if !it.is_null() {
        // SAFETY: the caller's promise.
        let it = unsafe { Box::from_raw(it) };
        // A panic while it is dropped is the last of it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(it)));
    }
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
        // Nothing is as long: the length is that of a mistake.
        (false, _) if isize::try_from(length).is_err() => None,
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

// The same for functions that say which argument is wrong

/// # Safety
/// As of [`bytes`].
pub(crate) unsafe fn named_bytes<'a>(name: &str, begin: *const u8, length: usize) -> Result<&'a [u8], Fault> {
    // SAFETY: the caller's promise.
    unsafe { bytes(begin, length) }.ok_or_else(|| {
        Fault::invalid(match begin.is_null() {
            true => format!("{name} is NULL, but is to have {length} bytes"),
            false => format!("{name} cannot have {length} bytes"),
        })
    })
}

/// # Safety
/// As of [`text`].
pub(crate) unsafe fn named_text<'a>(name: &str, begin: *const c_char) -> Result<&'a str, Fault> {
    // SAFETY: the caller's promise.
    unsafe { text(begin) }.ok_or_else(|| {
        Fault::invalid(format!("{name} is {}", if begin.is_null() { "NULL" } else { "not UTF-8" }))
    })
}

/// # Safety
/// Null, or readable.
pub(crate) unsafe fn named<'a, T>(name: &str, place: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise.
    unsafe { place.as_ref() }.ok_or_else(|| Fault::invalid(format!("{name} is NULL")))
}

/// Where something is to be written, which must be somewhere.
pub(crate) fn place<T>(name: &str, place: *mut T) -> Result<*mut T, Fault> {
    if place.is_null() { Err(Fault::invalid(format!("{name} is NULL"))) } else { Ok(place) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> String {
        // SAFETY: it ends with a zero, and nothing fails meanwhile.
        unsafe { CStr::from_ptr(weir_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_number_and_words() {
        assert_eq!(attempt::<()>(|| panic!("{} is odd", 3)), Err(EPANIC));
        assert_eq!(error(), "a fault in the library: 3 is odd");
        assert_eq!(status(|| Some(7)), 7);
        assert_eq!(status::<c_int>(|| None), EINVAL);
        assert!(error().contains("weir_transport.h"));
    }

    #[test]
    fn what_a_peer_has_written_steers_no_terminal() {
        assert_eq!(printable("a\u{1b}[2J\0\nb").to_str(), Ok("a\u{fffd}[2J\u{fffd}\u{fffd}b"));
    }

    #[test]
    fn lengths_that_nothing_has_are_refused() {
        let byte = 0;
        // SAFETY: nothing is read.
        assert!(unsafe { bytes(&raw const byte, usize::MAX) }.is_none());
        // SAFETY: nothing is read.
        assert!(unsafe { bytes(ptr::null(), 1) }.is_none());
    }
}

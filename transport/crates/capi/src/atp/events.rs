//! What happens to connections.

use std::ffi::{CString, c_char, c_int};

use proto::atp::{Closed, Event};

use super::{Endpoint, act};
use crate::boundary::{place, printable};

/// Something that has happened to a connection (`struct weir_atp_event`).
#[repr(C)]
pub struct AtpEvent {
    kind: c_int,
    why: c_int,
    accepted: bool,
    connection: u64,
    stream: u64,
    code: u64,
    message: *const c_char,
    reason: *const u8,
    n_reason: usize,
}

/// Why a connection is over: a number for it, the other side's code, and its words.
fn why(closed: &Closed) -> (c_int, u64, &str) {
    match closed {
        Closed::Locally => (1, 0, ""),
        Closed::ByPeer { code, reason } => (2, *code, reason),
        Closed::Refused { code, reason } => (3, *code, reason),
        Closed::Tls(_) => (4, 0, ""),
        Closed::Unanswered(_) => (5, 0, ""),
        Closed::Silent(_) => (6, 0, ""),
        Closed::Violation(_) => (7, 0, ""),
    }
}

/// The next thing that has happened to a connection.
///
/// # Safety
/// As the header says; `event` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_poll_event(endpoint: *mut Endpoint, event: *mut AtpEvent) -> c_int {
    let poll = |endpoint: &mut Endpoint| {
        let out = place("event", event)?;
        loop {
            let Some((id, event)) = endpoint.inner.poll_event() else { return Ok(0) };
            (endpoint.message, endpoint.reason) = (CString::default(), Vec::new());
            let accepted = !endpoint.mine.contains(&id);
            let (mut why_over, mut of_stream, mut with_code) = (0, 0, 0);
            let kind = match event {
                Event::Connected => 1,
                Event::Opened(stream) => {
                    of_stream = stream.0;
                    2
                }
                Event::MayOpen => 3,
                Event::Readable(stream) => {
                    of_stream = stream.0;
                    4
                }
                Event::Writable(stream) => {
                    of_stream = stream.0;
                    5
                }
                Event::Stopped(stream, code) => {
                    (of_stream, with_code) = (stream.0, code);
                    6
                }
                Event::Closed(closed) => {
                    endpoint.mine.remove(&id);
                    let (number, code, reason) = why(&closed);
                    (why_over, with_code) = (number, code);
                    endpoint.message = printable(&closed.to_string());
                    endpoint.reason = reason.as_bytes().to_vec();
                    7
                }
                // The endpoint keeps it itself.
                Event::Token(_) => continue,
            };
            let event = AtpEvent {
                kind,
                why: why_over,
                accepted,
                connection: id.0,
                stream: of_stream,
                code: with_code,
                message: endpoint.message.as_ptr(),
                reason: endpoint.reason.as_ptr(),
                n_reason: endpoint.reason.len(),
            };
            // SAFETY: the caller's promise.
            unsafe { out.write(event) };
            return Ok(1);
        }
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, poll) }
}

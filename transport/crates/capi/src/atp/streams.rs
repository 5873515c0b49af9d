//! Streams: opened, read, written, and ended.

use std::ffi::c_int;

use proto::atp::{Connection, Read, StreamId, WriteError};

use super::{EAGAIN, ECLOSED, ENOROOM, ERESET, ESTOPPED, Endpoint, act, code, gone};
use crate::boundary::{Fault, named_bytes, place, put};

fn over(stream: u64) -> Fault {
    Fault { status: ECLOSED, what: format!("stream {stream} is over for this, or never was") }
}

/// A stream that is, or was.
fn known(connection: &Connection, stream: u64) -> Result<StreamId, Fault> {
    Some(StreamId(stream)).filter(|id| connection.has_had(*id)).ok_or_else(|| over(stream))
}

fn not_written(connection: u64, stream: u64, error: WriteError) -> Fault {
    match error {
        WriteError::Stopped(_) => Fault { status: ESTOPPED, what: error.to_string() },
        WriteError::NotOpen => over(stream),
        WriteError::Closed => gone(connection),
    }
}

/// Opens a stream.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_open(endpoint: *mut Endpoint, connection: u64) -> i64 {
    let open = |endpoint: &mut Endpoint| {
        endpoint.with(connection, |open| {
            if !open.is_open() {
                return Err(gone(connection));
            }
            let stream = open.open().ok_or_else(|| Fault {
                status: ENOROOM,
                what: format!(
                    "connection {connection} may have no more streams now: WEIR_ATP_MAY_OPEN tells when"
                ),
            })?;
            i64::try_from(stream.0).map_err(|_| Fault::invalid("no number is left for a stream"))
        })
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, open) }
}

/// Does something with a stream that is, or was.
///
/// # Safety
/// As the header says.
unsafe fn with(
    endpoint: *mut Endpoint,
    connection: u64,
    stream: u64,
    does: impl FnOnce(&mut Connection, StreamId) -> Result<(), Fault>,
) -> c_int {
    let act_on = |endpoint: &mut Endpoint| {
        endpoint.with(connection, |connection| {
            let stream = known(connection, stream)?;
            does(connection, stream)?;
            Ok(0)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, act_on) }
}

/// Tells the peer of a stream before there is anything to send on it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_announce(endpoint: *mut Endpoint, connection: u64, stream: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(endpoint, connection, stream, |connection, stream| {
            connection.announce(stream);
            Ok(())
        })
    }
}

/// Writes to a stream.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_write(
    endpoint: *mut Endpoint,
    now_ns: u64,
    connection: u64,
    stream: u64,
    bytes: *const u8,
    n_bytes: usize,
) -> i64 {
    let write = |endpoint: &mut Endpoint| {
        // SAFETY: the caller's promise.
        let bytes = unsafe { named_bytes("bytes", bytes, n_bytes) }?;
        let now = endpoint.at(now_ns)?;
        let count = endpoint.with(connection, |open| {
            open.write(now, StreamId(stream), bytes).map_err(|error| not_written(connection, stream, error))
        })?;
        // A slice is no longer than that.
        Ok(count as i64)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, write) }
}

/// A stream ends with what was written.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_finish(endpoint: *mut Endpoint, connection: u64, stream: u64) -> c_int {
    let finish = |endpoint: &mut Endpoint| {
        endpoint.with(connection, |open| {
            if !open.is_open() {
                return Err(gone(connection));
            }
            open.finish(StreamId(stream)).map_err(|error| not_written(connection, stream, error))?;
            Ok(0)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, finish) }
}

/// Reads from a stream.
///
/// # Safety
/// As the header says; `code` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_read(
    endpoint: *mut Endpoint,
    now_ns: u64,
    connection: u64,
    stream: u64,
    bytes: *mut u8,
    n_bytes: usize,
    code: *mut u64,
) -> i64 {
    let read = |endpoint: &mut Endpoint| {
        let bytes = place("bytes", bytes)?;
        // Without room for a byte, nothing could tell the end of a stream from what is left of it.
        if n_bytes == 0 || isize::try_from(n_bytes).is_err() {
            return Err(Fault::invalid(format!("bytes cannot have room for {n_bytes}: for 1 at least")));
        }
        let now = endpoint.at(now_ns)?;
        // SAFETY: the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(bytes, n_bytes) };
        match endpoint.with(connection, |open| Ok(open.read(now, StreamId(stream), out)))? {
            // A slice is no longer than that.
            Read::Bytes(count) => Ok(count as i64),
            Read::End => Ok(0),
            Read::Nothing => Ok(EAGAIN.into()),
            Read::Reset(why) => {
                // SAFETY: the caller's promise.
                unsafe { put(code, why) };
                let what = format!("the other side has given stream {stream} up ({why})");
                Err(Fault { status: ERESET, what })
            }
            Read::NotOpen => Err(over(stream)),
        }
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, read) }
}

/// Gives up writing a stream.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_reset(
    endpoint: *mut Endpoint,
    connection: u64,
    stream: u64,
    reason: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(endpoint, connection, stream, |connection, stream| {
            connection.reset(stream, code(reason)?);
            Ok(())
        })
    }
}

/// Wants no more of a stream.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_stop(
    endpoint: *mut Endpoint,
    connection: u64,
    stream: u64,
    reason: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(endpoint, connection, stream, |connection, stream| {
            connection.stop(stream, code(reason)?);
            Ok(())
        })
    }
}

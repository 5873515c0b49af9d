//! Datagrams and the time.

use std::ffi::c_int;
use std::ptr;

use proto::Time;
use proto::ecn::Codepoint;

use super::{Endpoint, act};
use crate::address::Address;
use crate::boundary::{Fault, named, named_bytes, place};
use crate::node::NEVER;

/// The longest that UDP can carry.
const MOST_BYTES: usize = 65_535;

/// Datagrams to be sent (`struct weir_atp_transmit`).
#[repr(C)]
pub struct Transmit {
    to: Address,
    from: Address,
    ecn: c_int,
    bytes: *const u8,
    n_bytes: usize,
    segment_bytes: usize,
}

/// A datagram has come.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_handle_datagram(
    endpoint: *mut Endpoint,
    now_ns: u64,
    from: *const Address,
    to: *const Address,
    ecn: c_int,
    bytes: *const u8,
    n_bytes: usize,
) -> c_int {
    let handle = |endpoint: &mut Endpoint| {
        // SAFETY: the caller's promise.
        let from = unsafe { named("from", from) }?.socket()?;
        // SAFETY: the caller's promise.
        let to = unsafe { to.as_ref() }.map(Address::ip).transpose()?;
        let bits = u8::try_from(ecn).ok().filter(|bits| *bits <= 3);
        let bits = bits.ok_or_else(|| Fault::invalid(format!("ecn is {ecn}: it is two bits, 0 to 3")))?;
        if n_bytes > MOST_BYTES {
            return Err(Fault::invalid(format!("no datagram has {n_bytes} bytes")));
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { named_bytes("bytes", bytes, n_bytes) }?;
        let now = endpoint.at(now_ns)?;
        // It is opened in place, which is not for the caller to see. The last output is not valid any more.
        endpoint.datagrams.clear();
        endpoint.datagrams.extend_from_slice(bytes);
        let Endpoint { inner, datagrams, .. } = endpoint;
        inner.handle_datagram(now, from, to, Codepoint::from_bits(bits), datagrams);
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, handle) }
}

/// The time of [`weir_atp_poll_timeout`] has come.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_handle_timeout(endpoint: *mut Endpoint, now_ns: u64) -> c_int {
    let handle = |endpoint: &mut Endpoint| {
        let now = endpoint.at(now_ns)?;
        endpoint.inner.handle_timeout(now);
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, handle) }
}

/// A time, or the number below zero of what is wrong: then nothing is to be waited for.
struct At(u64);

impl From<c_int> for At {
    fn from(_: c_int) -> Self {
        At(NEVER)
    }
}

/// When to call [`weir_atp_handle_timeout`].
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_poll_timeout(endpoint: *mut Endpoint) -> u64 {
    // SAFETY: the caller's promise.
    let At(at) = unsafe {
        act(endpoint, |endpoint| Ok(At(endpoint.inner.poll_timeout().map_or(NEVER, Time::as_nanos))))
    };
    at
}

/// The next datagrams to be sent.
///
/// # Safety
/// As the header says; `transmit` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_poll_transmit(
    endpoint: *mut Endpoint,
    now_ns: u64,
    most_datagrams: usize,
    most_bytes: usize,
    transmit: *mut Transmit,
) -> c_int {
    let poll = |endpoint: &mut Endpoint| {
        let out = place("transmit", transmit)?;
        if most_datagrams == 0 {
            return Err(Fault::invalid("most_datagrams is 0: 1 at least"));
        }
        let now = endpoint.at(now_ns)?;
        endpoint.datagrams.clear();
        let Endpoint { inner, datagrams, .. } = endpoint;
        let Some(next) = inner.poll_transmit(now, most_datagrams, most_bytes, datagrams) else {
            return Ok(0);
        };
        let transmit = Transmit {
            to: next.to.into(),
            from: next.from.map(Address::from).unwrap_or_default(),
            ecn: next.ecn as c_int,
            bytes: if datagrams.is_empty() { ptr::null() } else { datagrams.as_ptr() },
            n_bytes: datagrams.len(),
            segment_bytes: next.segment_bytes,
        };
        // SAFETY: the caller's promise.
        unsafe { out.write(transmit) };
        Ok(1)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, poll) }
}

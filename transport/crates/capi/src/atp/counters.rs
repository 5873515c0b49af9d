//! What endpoints and connections have counted, and how they stand.

use std::ffi::c_int;
use std::time::Duration;

use proto::atp::{ConnectionId, Counters};

use super::{Endpoint, act, gone};
use crate::boundary::place;

/// What connections have counted (`struct weir_atp_counters`).
#[repr(C)]
pub struct AtpCounters {
    sent: u64,
    sent_bytes: u64,
    parity: u64,
    parity_bytes: u64,
    requested: u64,
    timed_out: u64,
    timeouts: u64,
    repaired: u64,
    requests: u64,
    repaired_at_peer: u64,
    ce: u64,
    unexpected: u64,
    forged: u64,
    replayed: u64,
}

impl From<Counters> for AtpCounters {
    fn from(counters: Counters) -> Self {
        AtpCounters {
            sent: counters.sent,
            sent_bytes: counters.sent_bytes,
            parity: counters.parity,
            parity_bytes: counters.parity_bytes,
            requested: counters.requested,
            timed_out: counters.timed_out,
            timeouts: counters.timeouts,
            repaired: counters.repaired,
            requests: counters.requests,
            repaired_at_peer: counters.repaired_at_peer,
            ce: counters.ce,
            unexpected: counters.unexpected,
            forged: counters.forged,
            replayed: counters.replayed,
        }
    }
}

/// What an endpoint has counted (`struct weir_atp_endpoint_counters`).
#[repr(C)]
pub struct AtpEndpointCounters {
    accepted: u64,
    connected: u64,
    refused: u64,
    retried: u64,
    strays: u64,
    connections: u64,
    peak_bytes: u64,
    all: AtpCounters,
}

/// How a connection stands (`struct weir_atp_state`).
#[repr(C)]
pub struct AtpState {
    connected: bool,
    open: bool,
    group: u32,
    rtt_ns: u64,
    window_bytes: u64,
    in_flight_bytes: u64,
    unacknowledged_bytes: u64,
    held_bytes: u64,
}

/// What an endpoint has counted, and all of its connections.
///
/// # Safety
/// As the header says; `counters` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_endpoint_counters(
    endpoint: *mut Endpoint,
    counters: *mut AtpEndpointCounters,
) -> c_int {
    let tell = |endpoint: &mut Endpoint| {
        let out = place("counters", counters)?;
        let counters = endpoint.inner.counters();
        let counters = AtpEndpointCounters {
            accepted: counters.accepted,
            connected: counters.connected,
            refused: counters.refused,
            retried: counters.retried,
            strays: counters.strays,
            connections: endpoint.inner.len() as u64,
            peak_bytes: endpoint.inner.peak_bytes() as u64,
            all: endpoint.inner.connection_counters().into(),
        };
        // SAFETY: the caller's promise.
        unsafe { out.write(counters) };
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, tell) }
}

/// What a connection has counted.
///
/// # Safety
/// As the header says; `counters` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_counters(
    endpoint: *mut Endpoint,
    connection: u64,
    counters: *mut AtpCounters,
) -> c_int {
    let tell = |endpoint: &mut Endpoint| {
        let out = place("counters", counters)?;
        let counted = endpoint.inner.connection(ConnectionId(connection)).ok_or_else(|| gone(connection))?;
        // SAFETY: the caller's promise.
        unsafe { out.write(counted.counters().into()) };
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, tell) }
}

/// How a connection stands.
///
/// # Safety
/// As the header says; `state` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_state(
    endpoint: *mut Endpoint,
    connection: u64,
    state: *mut AtpState,
) -> c_int {
    let tell = |endpoint: &mut Endpoint| {
        let out = place("state", state)?;
        let of = endpoint.inner.connection(ConnectionId(connection)).ok_or_else(|| gone(connection))?;
        let ns = |rtt: Duration| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        let state = AtpState {
            connected: of.is_connected(),
            open: of.is_open(),
            group: of.group(),
            rtt_ns: of.rtt().map_or(0, ns),
            window_bytes: of.window_bytes(),
            in_flight_bytes: of.in_flight(),
            unacknowledged_bytes: of.unacknowledged_bytes() as u64,
            held_bytes: of.held_bytes() as u64,
        };
        // SAFETY: the caller's promise.
        unsafe { out.write(state) };
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, tell) }
}

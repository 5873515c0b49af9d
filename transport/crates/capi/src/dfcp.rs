//! DFCP: senders and receivers.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use proto::Time;
use proto::dfcp::{RateConfig, ReceiverConfig, SenderConfig};
use proto::object::Layout;
use sim::NodeId;
use sim::dfcp::{Outcome, ReceiverNode, SenderNode, SenderSetup};

use crate::boundary::{bytes, put, status, text};
use crate::node::{COMPLETE, FAILED, Kind, Node, SECRET, made, node};

/// How a sender of DFCP behaves (`struct weir_dfcp_config`).
#[repr(C)]
pub struct DfcpConfig {
    symbol_bytes: u16,
    block_symbols: u16,
    secure: bool,
    fallback: bool,
    seed: u64,
}

/// Fills in what `fountain` does.
///
/// # Safety
/// `config` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_defaults(config: *mut DfcpConfig) {
    let SenderConfig { symbol_bytes, block_symbols, seed, rate, .. } = SenderConfig::default();
    let defaults = DfcpConfig { symbol_bytes, block_symbols, secure: true, fallback: rate.fallback, seed };
    // SAFETY: the caller's promise.
    unsafe { put(config, defaults) };
}

/// A sender.
///
/// # Safety
/// `config` is null or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_new(
    config: *const DfcpConfig,
    receiver: u32,
    connection: u32,
) -> *mut Node {
    made(|| {
        // SAFETY: the caller's promise.
        let config = unsafe { config.as_ref() }?;
        Layout::new(config.symbol_bytes, config.block_symbols, 0)?;
        let default = SenderConfig::default();
        let settings = SenderConfig {
            symbol_bytes: config.symbol_bytes,
            block_symbols: config.block_symbols,
            // What a simulator tells holds until it tells something else.
            rate: RateConfig { fallback: config.fallback, expiry: None, ..default.rate },
            seed: config.seed,
            ..default
        };
        let secret = config.secure.then_some(SECRET);
        let setup = SenderSetup { config: settings, secret, connection, rates: Vec::new() };
        let sender = SenderNode::new(setup, NodeId(receiver as usize));
        Some(Kind::Sender(Box::new(sender)))
    })
}

/// Sends an object.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_send(
    sender: *mut Node,
    path: *const c_char,
    begin: *const u8,
    n_bytes: usize,
) -> i64 {
    status(|| {
        // SAFETY: the caller's promise.
        let (sender, path, bytes) = unsafe { (node(sender)?, text(path)?, bytes(begin, n_bytes)?) };
        let Kind::Sender(sender) = &mut sender.kind else { return None };
        if path.len() > wire::control::MAX_PATH_BYTES {
            return None;
        }
        i64::try_from(sender.send(path, Arc::<[u8]>::from(bytes))).ok()
    })
}

/// Tells a sender how fast it may send.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_tell_rate(sender: *mut Node, at_ns: u64, bps: f64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Sender(sender) = &mut unsafe { node(sender) }?.kind else { return None };
        if !(bps.is_finite() && bps >= 0.0) {
            return None;
        }
        sender.tell_rate(Time::from_nanos(at_ns), bps);
        Some(0)
    })
}

/// How an object stands.
///
/// # Safety
/// As the header says; `since_ns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_state(sender: *mut Node, object: u64, since_ns: *mut u64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Sender(sender) = &unsafe { node(sender) }?.kind else { return None };
        let object = usize::try_from(object).ok().filter(|object| *object < sender.objects())?;
        match sender.outcome(object) {
            Outcome::Pending => Some(0),
            Outcome::Stored(at) => {
                // SAFETY: the caller's promise.
                unsafe { put(since_ns, at.as_nanos()) };
                Some(COMPLETE)
            }
            Outcome::Refused(_) | Outcome::Lost => Some(FAILED),
        }
    })
}

/// Symbols of a sender.
///
/// # Safety
/// As the header says; the pointers are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_symbols(
    sender: *mut Node,
    symbols: *mut u64,
    repairs: *mut u64,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Sender(sender) = &unsafe { node(sender) }?.kind else { return None };
        let counters = sender.counters();
        for (place, count) in [(symbols, counters.symbols), (repairs, counters.repairs)] {
            // SAFETY: the caller's promise.
            unsafe { put(place, count) };
        }
        Some(0)
    })
}

/// A receiver.
#[unsafe(no_mangle)]
pub extern "C" fn weir_dfcp_receiver_new(secure: bool) -> *mut Node {
    made(|| {
        let receiver = ReceiverNode::new(ReceiverConfig::default(), secure.then_some(SECRET));
        Some(Kind::Receiver(Box::new(receiver)))
    })
}

/// What has come of an object.
///
/// # Safety
/// As the header says; the pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_receiver_object(
    receiver: *mut Node,
    path: *const c_char,
    begin: *mut *const u8,
    n_bytes: *mut usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (receiver, path) = unsafe { (node(receiver)?, text(path)?) };
        let Kind::Receiver(receiver) = &receiver.kind else { return None };
        if begin.is_null() || n_bytes.is_null() {
            return None;
        }
        let bytes = receiver.received(path).map(|received| &received.bytes[..])?;
        // SAFETY: the caller's promise.
        unsafe {
            begin.write(bytes.as_ptr());
            n_bytes.write(bytes.len());
        }
        Some(0)
    })
}

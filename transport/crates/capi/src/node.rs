//! Endpoints of all kinds: what goes in, what comes out, and when.

use std::ffi::c_int;

use proto::Time;
use proto::ecn::Codepoint;
use sim::dfcp::{ReceiverNode, SenderNode};
use sim::lttp::{ClientNode, ServerNode};
use sim::{Datagram, NodeId, Output};

use crate::boundary::{self, Fault, bytes, call, status};

pub(crate) const NEVER: u64 = u64::MAX;

/// How a transfer stands that is not under way any more.
pub(crate) const COMPLETE: c_int = 1;
pub(crate) const FAILED: c_int = 2;

/// In a simulation there is no TLS that a secret could come from, and nobody to keep it from.
pub(crate) const SECRET: [u8; proto::protect::SECRET_BYTES] = [0x57; proto::protect::SECRET_BYTES];

/// An endpoint.
pub struct Node {
    pub(crate) kind: Kind,
    /// What the last output points to.
    output: Vec<u8>,
}

pub(crate) enum Kind {
    Client(Box<ClientNode>, usize),
    Server(Box<ServerNode>),
    Sender(Box<SenderNode>),
    Receiver(Box<ReceiverNode>),
}

impl Node {
    fn machine(&mut self) -> &mut dyn sim::Node {
        match &mut self.kind {
            Kind::Client(client, _) => &mut **client,
            Kind::Server(server) => &mut **server,
            Kind::Sender(sender) => &mut **sender,
            Kind::Receiver(receiver) => &mut **receiver,
        }
    }
}

/// A new node, or null.
pub(crate) fn made(make: impl FnOnce() -> Option<Kind>) -> *mut Node {
    let node = || {
        let kind = make().ok_or_else(|| {
            Fault::invalid("a configuration that cannot be: weir_transport.h says what may")
        })?;
        Ok(Node { kind, output: Vec::new() })
    };
    boundary::made(node)
}

/// # Safety
/// As the header says: null, or a node that was not freed and that nobody else uses.
pub(crate) unsafe fn node<'a>(node: *mut Node) -> Option<&'a mut Node> {
    // SAFETY: the caller's promise.
    unsafe { node.as_mut() }
}

/// What a node wants done (`struct weir_output`).
#[repr(C)]
pub struct COutput {
    kind: c_int,
    ecn: c_int,
    to: u32,
    bytes: *const u8,
    n_bytes: usize,
}

/// A datagram has arrived.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_datagram(
    to: *mut Node,
    now_ns: u64,
    from: u32,
    ecn: c_int,
    begin: *const u8,
    n_bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (to, bytes) = unsafe { (node(to)?, bytes(begin, n_bytes)?) };
        let from = NodeId(from as usize);
        let ecn = Codepoint::from_bits(u8::try_from(ecn).ok().filter(|bits| *bits <= 3)?);
        let datagram = Datagram { from, ecn, ..Datagram::new(from, bytes.to_vec()) };
        to.machine().handle(Time::from_nanos(now_ns), datagram);
        Some(0)
    })
}

/// Control bytes have arrived, in order.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_control(
    to: *mut Node,
    now_ns: u64,
    from: u32,
    begin: *const u8,
    n_bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (to, bytes) = unsafe { (node(to)?, bytes(begin, n_bytes)?) };
        to.machine().handle_control(Time::from_nanos(now_ns), NodeId(from as usize), bytes.to_vec());
        Some(0)
    })
}

/// The other side has closed the reliable channel.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_closed(to: *mut Node, now_ns: u64, from: u32) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { node(to) }?;
        to.machine().handle_control_closed(Time::from_nanos(now_ns), NodeId(from as usize));
        Some(0)
    })
}

/// The time of [`weir_node_poll_timeout`] has come.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_timeout(to: *mut Node, now_ns: u64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe { node(to) }?.machine().handle_timeout(Time::from_nanos(now_ns));
        Some(0)
    })
}

/// When to call [`weir_node_handle_timeout`].
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_poll_timeout(of: *mut Node) -> u64 {
    call(
        NEVER,
        || {
            // SAFETY: the caller's promise.
            Some(unsafe { node(of) }?.machine().poll_timeout().map_or(NEVER, Time::as_nanos))
        },
        NEVER,
    )
}

/// The next thing that a node wants done.
///
/// # Safety
/// As the header says; `output` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_poll_transmit(of: *mut Node, now_ns: u64, output: *mut COutput) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let of = unsafe { node(of) }.filter(|_| !output.is_null())?;
        let Some(next) = of.machine().poll_transmit(Time::from_nanos(now_ns)) else { return Some(0) };
        let mut ecn = Codepoint::NotEct;
        let (kind, to) = match next {
            Output::Datagram(datagram) => {
                of.output = datagram.payload;
                ecn = datagram.ecn;
                (1, datagram.to)
            }
            Output::Control { to, message } => {
                of.output = message;
                (2, to)
            }
            Output::CloseControl { to } => {
                of.output = Vec::new();
                (3, to)
            }
        };
        let to = u32::try_from(to.0).ok()?;
        let (bytes, n_bytes) = (of.output.as_ptr(), of.output.len());
        // SAFETY: the caller's promise.
        unsafe { output.write(COutput { kind, ecn: ecn as c_int, to, bytes, n_bytes }) };
        Some(1)
    })
}

/// Ends a node.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_free(of: *mut Node) {
    // SAFETY: it came from `made`, by the caller's promise.
    unsafe { boundary::free(of) };
}

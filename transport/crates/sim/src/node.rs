//! What takes part in a network: endpoints as state machines.

use std::any::Any;

use proto::ecn::Codepoint;

use crate::Time;

/// A node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// Ethernet, IPv4 and UDP headers around a payload: what an UDP datagram has on a link besides.
pub const UDP_OVERHEAD_BYTES: u32 = 14 + 20 + 8;

/// What a node sends to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The sender; the network fills it in.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// What it carries.
    pub payload: Vec<u8>,
    /// What it takes on a link and in a queue.
    pub wire_bytes: u32,
    /// Of its IP header (RFC 3168): a queue may mark it instead of dropping it if it is sent ECN-capable. Only who heeds marks
    /// sends so.
    pub ecn: Codepoint,
}

impl Datagram {
    /// An UDP datagram.
    pub fn new(to: NodeId, payload: Vec<u8>) -> Self {
        let wire_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX).saturating_add(UDP_OVERHEAD_BYTES);
        Datagram { from: to, to, payload, wire_bytes, ecn: Codepoint::NotEct }
    }

    /// The same with another size on the wire: for models that do not build their headers or data.
    pub fn sized(self, wire_bytes: u32) -> Self {
        Datagram { wire_bytes, ..self }
    }
}

/// What a node wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Datagram(Datagram),
    /// Say this over the control pipe: reliably and in order, not over the links.
    Control {
        /// To whom.
        to: NodeId,
        /// What.
        message: Vec<u8>,
    },
    /// Close the control pipe, after what was said over it.
    CloseControl {
        /// To whom.
        to: NodeId,
    },
}

/// An endpoint without socket and clock. The network calls one of the `handle` methods and then
/// [`Node::poll_transmit`] until it has nothing more, and [`Node::handle_timeout`] once
/// [`Node::poll_timeout`] has passed.
pub trait Node: Any {
    /// A datagram has arrived.
    fn handle(&mut self, now: Time, datagram: Datagram);

    /// A message has arrived over the control pipe from `from`.
    fn handle_control(&mut self, _now: Time, _from: NodeId, _message: Vec<u8>) {}

    /// The control pipe from `from` has been closed or cut.
    fn handle_control_closed(&mut self, _now: Time, _from: NodeId) {}

    /// The time that [`Node::poll_timeout`] asked for has come.
    fn handle_timeout(&mut self, now: Time);

    /// When to be called again, at the latest. After that call it must be another time.
    fn poll_timeout(&self) -> Option<Time>;

    /// The next thing to do now.
    fn poll_transmit(&mut self, now: Time) -> Option<Output>;
}

//! A datagram between two nodes.

use crate::{Datagram, NodeId};

/// A datagram under way, and the links it has still to pass after this one.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub(crate) datagram: Datagram,
    pub(crate) route_position: usize,
}

impl Hop {
    /// From whom to whom.
    pub(crate) fn flow(&self) -> (NodeId, NodeId) {
        (self.datagram.from, self.datagram.to)
    }
}

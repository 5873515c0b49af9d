//! Deficit round robin, as in Fig. 4 of Shreedhar and Varghese.

use std::collections::{BTreeMap, VecDeque};

use super::wire_bytes;
use crate::NodeId;
use crate::hop::Hop;

type FlowKey = (NodeId, NodeId);

/// A queue for each flow that has something queued.
#[derive(Debug)]
pub(super) struct FairQueue {
    quantum_bytes: u64,
    flows: BTreeMap<FlowKey, Flow>,
    /// The flows of `flows`, in the order of their turns.
    turns: VecDeque<FlowKey>,
}

#[derive(Debug, Default)]
struct Flow {
    queue: VecDeque<Hop>,
    bytes: u64,
    /// What it may send yet, DC_i. A flow without datagrams keeps nothing of it.
    deficit: u64,
    /// Its quantum of this round has been added.
    served: bool,
}

impl FairQueue {
    pub(super) fn new(quantum_bytes: u32) -> Self {
        assert!(quantum_bytes > 0, "a quantum of 0 bytes lets nobody send");
        FairQueue { quantum_bytes: quantum_bytes.into(), flows: BTreeMap::new(), turns: VecDeque::new() }
    }

    /// Bytes that the flow of a datagram has queued.
    pub(super) fn bytes_of(&self, hop: &Hop) -> u64 {
        self.flows.get(&hop.flow()).map_or(0, |flow| flow.bytes)
    }

    pub(super) fn push(&mut self, hop: Hop) {
        let key = hop.flow();
        let flow = self.flows.entry(key).or_insert_with(|| {
            self.turns.push_back(key);
            Flow::default()
        });
        flow.bytes += wire_bytes(&hop);
        flow.queue.push_back(hop);
    }

    pub(super) fn pop(&mut self) -> Option<Hop> {
        loop {
            let key = *self.turns.front()?;
            let flow = self.flows.get_mut(&key).expect("a flow that has its turn is there");
            if !std::mem::replace(&mut flow.served, true) {
                flow.deficit += self.quantum_bytes;
            }
            let first_bytes = flow.queue.front().map_or(0, wire_bytes);
            if first_bytes > flow.deficit {
                flow.served = false;
                self.turns.rotate_left(1);
                continue;
            }
            let hop = flow.queue.pop_front();
            flow.deficit -= first_bytes;
            flow.bytes -= first_bytes;
            if flow.queue.is_empty() {
                self.flows.remove(&key);
                self.turns.pop_front();
            }
            return hop;
        }
    }

    /// Takes the last datagram of the longest queue away.
    pub(super) fn steal(&mut self) -> Option<Hop> {
        let (&key, flow) = self.flows.iter_mut().max_by_key(|(_, flow)| flow.bytes)?;
        let hop = flow.queue.pop_back()?;
        flow.bytes -= wire_bytes(&hop);
        if flow.queue.is_empty() {
            self.flows.remove(&key);
            self.turns.retain(|turn| *turn != key);
        }
        Some(hop)
    }
}

//! Queue disciplines of a link: which datagram goes next, and which are dropped or marked.
//!
//! A discipline must account for all that it is given: what it does not send it holds, or returns as dropped. It never
//! holds more bytes than the link's buffer has.

mod drr;
mod red;

use std::collections::VecDeque;

use proto::ecn::Codepoint;

use self::drr::FairQueue;
use self::red::Average;
pub use red::Red;

use crate::hop::Hop;
use crate::{Rng, Time};

/// How a link queues.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Discipline {
    /// One queue. What does not fit as a whole is dropped.
    #[default]
    DropTail,
    /// Deficit round robin (Shreedhar and Varghese, IEEE/ACM Transactions on Networking 4 (3), 1996): a queue for each
    /// flow, that is for each pair of nodes. In a full buffer, the last datagram of the longest queue makes room.
    Drr {
        /// What a flow may send more in each round. With at least the longest datagram, every round serves every flow.
        quantum_bytes: u32,
    },
    /// Random early detection: see [`Red`].
    Red(Red),
}

/// The bounds of a push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes that the queue may hold.
    pub(crate) buffer_bytes: u64,
    /// ECN-capable datagrams are marked when more than this is queued before them.
    pub(crate) mark_above_bytes: Option<u64>,
    /// The seconds that the link takes for a byte; zero if it has no rate.
    pub(crate) byte_s: f64,
}

/// What became of a push.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    /// Dropped: what came, or others to make room for it.
    pub(crate) dropped: Vec<Hop>,
    /// What came was dropped before the buffer was full.
    pub(crate) early: bool,
    /// What came was marked.
    pub(crate) marked: bool,
}

/// A link's queue.
#[derive(Debug)]
pub(crate) struct Queue {
    discipline: Discipline,
    state: State,
    bytes: u64,
    rng: Rng,
}

#[derive(Debug)]
enum State {
    DropTail(VecDeque<Hop>),
    Drr(FairQueue),
    Red { queue: VecDeque<Hop>, average: Average },
}

impl State {
    fn new(discipline: Discipline) -> Self {
        match discipline {
            Discipline::DropTail => State::DropTail(VecDeque::new()),
            Discipline::Drr { quantum_bytes } => State::Drr(FairQueue::new(quantum_bytes)),
            Discipline::Red(red) => State::Red { queue: VecDeque::new(), average: Average::new(red) },
        }
    }
}

impl Queue {
    /// An empty queue.
    ///
    /// # Panics
    /// If a parameter of the discipline is out of bounds.
    pub(crate) fn new(discipline: Discipline, rng: Rng) -> Self {
        Queue { discipline, state: State::new(discipline), bytes: 0, rng }
    }

    /// Bytes queued.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Goes on as another discipline with what is queued, in the order in which it would have been sent.
    pub(crate) fn become_one_of(&mut self, now: Time, discipline: Discipline) {
        if discipline == self.discipline {
            return;
        }
        let (mut next, bytes) = (State::new(discipline), self.bytes);
        while let Some(hop) = self.pop(now) {
            match &mut next {
                State::DropTail(queue) | State::Red { queue, .. } => queue.push_back(hop),
                State::Drr(queues) => queues.push(hop),
            }
        }
        (self.discipline, self.state, self.bytes) = (discipline, next, bytes);
    }

    /// Takes a datagram, drops it, or drops others for it.
    pub(crate) fn push(&mut self, now: Time, mut hop: Hop, limits: Limits) -> Pushed {
        let mut pushed = Pushed::default();
        let before = match &mut self.state {
            State::DropTail(_) => self.bytes,
            State::Drr(queues) => queues.bytes_of(&hop),
            State::Red { average, .. } => {
                average.arrival(now, self.bytes, limits.byte_s);
                if average.notifies(&mut self.rng) {
                    if !(average.may_mark() && hop.datagram.ecn.is_capable()) {
                        pushed.early = true;
                        pushed.dropped.push(hop);
                        return pushed;
                    }
                    pushed.marked = true;
                }
                self.bytes
            }
        };
        pushed.marked |=
            hop.datagram.ecn.is_capable() && limits.mark_above_bytes.is_some_and(|most| before > most);
        if pushed.marked {
            hop.datagram.ecn = Codepoint::Ce;
        }
        self.bytes += wire_bytes(&hop);
        match &mut self.state {
            State::Drr(queues) => {
                let flow = hop.flow();
                queues.push(hop);
                while self.bytes > limits.buffer_bytes {
                    let Some(stolen) = queues.steal() else { break };
                    self.bytes -= wire_bytes(&stolen);
                    pushed.marked &= stolen.flow() != flow;
                    pushed.dropped.push(stolen);
                }
            }
            State::DropTail(queue) | State::Red { queue, .. } => {
                queue.push_back(hop);
                if self.bytes > limits.buffer_bytes
                    && let Some(last) = queue.pop_back()
                {
                    self.bytes -= wire_bytes(&last);
                    pushed.marked = false;
                    pushed.dropped.push(last);
                }
            }
        }
        pushed
    }

    /// What is sent next.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Hop> {
        let hop = match &mut self.state {
            State::DropTail(queue) | State::Red { queue, .. } => queue.pop_front(),
            State::Drr(queues) => queues.pop(),
        }?;
        self.bytes -= wire_bytes(&hop);
        if let (State::Red { average, .. }, 0) = (&mut self.state, self.bytes) {
            average.emptied(now);
        }
        Some(hop)
    }
}

fn wire_bytes(hop: &Hop) -> u64 {
    u64::from(hop.datagram.wire_bytes)
}

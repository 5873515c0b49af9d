//! The control pipe between two nodes: what a TCP connection is to its user, messages that come whole, once,
//! in order and late.

use std::ops::Range;
use std::time::Duration;

use crate::Time;

/// One direction of a control pipe.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    delay: Duration,
    stalls: Vec<Range<Time>>,
    last: Time,
    pub(crate) open: bool,
}

impl Pipe {
    pub(crate) fn new(delay: Duration) -> Self {
        Pipe { delay, stalls: Vec::new(), last: Time::ZERO, open: true }
    }

    /// Nothing comes out during `period`.
    pub(crate) fn stall(&mut self, period: Range<Time>) {
        self.stalls.push(period);
        self.stalls.sort_by_key(|stall| stall.start);
    }

    /// When a message comes out that goes in now.
    pub(crate) fn deliver_at(&mut self, now: Time) -> Time {
        let mut at = (now + self.delay).max(self.last);
        for stall in &self.stalls {
            if stall.contains(&at) {
                at = stall.end;
            }
        }
        self.last = at;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_in_order_and_wait_for_the_end_of_a_stall() {
        let at = Time::from_nanos;
        let mut pipe = Pipe::new(Duration::from_nanos(10));
        pipe.stall(at(200)..at(300));
        pipe.stall(at(100)..at(210));
        assert_eq!(pipe.deliver_at(at(0)), at(10));
        assert_eq!(pipe.deliver_at(at(89)), at(99));
        assert_eq!(pipe.deliver_at(at(90)), at(300));
        assert_eq!(pipe.deliver_at(at(280)), at(300));
        assert_eq!(pipe.deliver_at(at(291)), at(301));
    }
}

//! What a flow took, and the report of all.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Failure, PATIENCE};

/// Makes flows over one protocol.
pub(crate) trait Client {
    /// Open a connection, send `bytes`, and wait for the server's word that it has them; close the connection after
    /// that. Calls `Marks::connected` once data may be sent, and `Marks::complete` at the end.
    ///
    /// # Errors
    /// Whatever went wrong, and a flow that is not complete after [`PATIENCE`].
    fn flow(&mut self, bytes: u64, marks: &mut Marks) -> Result<(), Failure>;

    /// Let time pass between flows. A protocol that is no part of the system has to do its closing meanwhile.
    fn rest(&mut self, gap: Duration) {
        std::thread::sleep(gap);
    }
}

/// When what happened in a flow.
pub(crate) struct Marks {
    begun: Instant,
    connected: Option<Instant>,
    complete: Option<Instant>,
    /// Where the protocol counts them.
    pub(crate) retransmissions: Option<u32>,
}

impl Marks {
    /// The connection is there.
    pub(crate) fn connected(&mut self) {
        self.connected.get_or_insert_with(Instant::now);
    }

    /// The server has everything.
    pub(crate) fn complete(&mut self) {
        self.complete.get_or_insert_with(Instant::now);
    }

    /// How long the flow may still take; never zero, which would be for ever to a socket.
    pub(crate) fn left(&self) -> Duration {
        PATIENCE.saturating_sub(self.begun.elapsed()).max(Duration::from_millis(1))
    }
}

/// One connection's times.
pub(crate) struct Flow {
    whole: Duration,
    transfer: Duration,
    retransmissions: Option<u32>,
    failure: Option<String>,
}

impl Flow {
    pub(crate) fn timed(client: &mut dyn Client, bytes: u64) -> Self {
        let begun = Instant::now();
        let mut marks = Marks { begun, connected: None, complete: None, retransmissions: None };
        let failure = client.flow(bytes, &mut marks).err().map(|error| error.to_string());
        let (whole, transfer) = match (&failure, marks.connected, marks.complete) {
            (None, Some(connected), Some(complete)) => (complete - begun, complete - connected),
            _ => (PATIENCE, PATIENCE),
        };
        Flow { whole, transfer, retransmissions: marks.retransmissions, failure }
    }
}

#[derive(Default)]
pub(crate) struct Report {
    whole_us: Vec<u64>,
    transfer_us: Vec<u64>,
    retransmissions: Vec<u32>,
    failures: Vec<Value>,
}

impl Report {
    pub(crate) fn add(&mut self, number: u32, flow: Flow) {
        self.whole_us.push(flow.whole.as_micros() as u64);
        self.transfer_us.push(flow.transfer.as_micros() as u64);
        self.retransmissions.extend(flow.retransmissions);
        if let Some(why) = flow.failure {
            self.failures.push(json!({"flow": number, "why": why}));
        }
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({
            "event": "done",
            "whole_us": self.whole_us,
            "transfer_us": self.transfer_us,
            "retransmissions": self.retransmissions,
            "failures": self.failures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails;

    impl Client for Fails {
        fn flow(&mut self, _: u64, marks: &mut Marks) -> Result<(), Failure> {
            marks.connected();
            Err("nobody there".into())
        }
    }

    struct Works;

    impl Client for Works {
        fn flow(&mut self, _: u64, marks: &mut Marks) -> Result<(), Failure> {
            marks.connected();
            marks.complete();
            marks.retransmissions = Some(3);
            Ok(())
        }
    }

    #[test]
    fn a_flow_that_fails_counts_as_long_as_patience_and_is_named() {
        let mut report = Report::default();
        report.add(0, Flow::timed(&mut Works, 8));
        report.add(1, Flow::timed(&mut Fails, 8));
        let told = report.as_json();
        let patience_us = PATIENCE.as_micros() as u64;
        assert!(told["whole_us"][0].as_u64() < Some(patience_us));
        assert_eq!(
            (&told["whole_us"][1], &told["transfer_us"][1]),
            (&json!(patience_us), &json!(patience_us))
        );
        assert_eq!(told["retransmissions"], json!([3]));
        assert_eq!(told["failures"], json!([{"flow": 1, "why": "nobody there"}]));
    }
}

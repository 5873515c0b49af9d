//! TCP-friendly rate control (TFRC, RFC 5348): the rate of a flow from what its receiver reports.
//!
//! The receiver ([`Receiver`]) turns sequence numbers and arrival times into a receive rate and a loss event
//! rate; the sender ([`Sender`]) turns its reports into an allowed rate. Neither sends, waits or reads a
//! clock. All rates are bytes/s, and all sizes count the same bytes: whatever the caller takes for a segment
//! (RFC 5348 section 3.1: without the headers of the layers below) he must use in both.
//!
//! Time is kept in nanoseconds and nothing has a floor in milliseconds: in a rack the round trip is 50 us and
//! a sender's fair share may be less than one packet of it. What is said by a peer is bounded before it is
//! used: neither end may ever loop over a gap in sequence numbers, store more than a few dozen values, or let
//! a number that is not one through.

mod equation;
mod loss;
mod receiver;
mod sender;

pub use equation::{loss_event_rate, rto_per_rtt, throughput};
pub use receiver::{Receiver, Report};
pub(crate) use sender::rtt_sample;
pub use sender::{Feedback, Options, Sender, Start};

use std::time::Duration;

/// What Linux's TCP has for a retransmission timeout, as a flow beside it sees it: of 200 ms or more, less what tail loss
/// probes (RFC 8985, section 7) save of them. With it, five flows and five of Reno get the same of 100 Mb/s with 64 KB,
/// where a window is five segments; with RFC 5348's four round trips, flows of Reno get two thirds of ours.
pub const LINUX_RTO: Duration = Duration::from_millis(60);

/// The longest interval between two packets that a rate is ever cut to (t_mbi, RFC 5348 section 4.3),
/// seconds.
const LONGEST_GAP_S: f64 = 64.0;

/// Round-trip times that a peer claims are held within these bounds, seconds: shorter is no network, longer
/// no use.
const RTT_BOUNDS_S: (f64, f64) = (1e-6, 60.0);

/// A round-trip time as seconds within [`RTT_BOUNDS_S`].
fn bounded_rtt_s(rtt: Duration) -> f64 {
    rtt.as_secs_f64().clamp(RTT_BOUNDS_S.0, RTT_BOUNDS_S.1)
}

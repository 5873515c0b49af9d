//! TCP-ACC: redundancy beneath an unchanged TCP, as much of it as pays (Sun et al., "Improving TCP Performance in Data Center Networks
//! with Adaptive Complementary Coding").
//!
//! A [`Sender`] sees the packets that a TCP sends, numbers them, and adds coded ones: c1 of them at the end of a window, c2 when it is told of new
//! losses. A [`Receiver`] recovers what is lost, hands packets on in an order that spares TCP duplicate acknowledgements as long as there
//! is hope, and reports what it misses. Neither knows anything of TCP: they are of one flow in one direction. A [`Layer`] is what a host has: it
//! finds its peers, tells flows apart, and carries packets of TCP, coded ones and reports between them, in UDP.

mod layer;
mod losses;
mod outbox;
pub mod packet;
mod receiver;
pub mod redundancy;
mod sender;
mod session;
mod strategy;

pub use layer::{
    Arrival, Config, Counters, DEFAULT_PORT, Deliver, Event, FlowStatistics, Layer, PeerStatistics, Why,
};
pub use losses::{LossRate, PathLosses};
pub use outbox::{Burst, Outbox, Way};
pub use receiver::{HandOn, Receiver, ReceiverCounters};
pub use sender::{Coded, Sender, SenderCounters, Told};
pub use session::KEY_BYTES;
pub use strategy::Strategy;

/// What a receiver tells its sender, with each packet that goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// All packets below this number are here, or not waited for.
    pub next: u64,
    /// The highest number of which something has come, and one more.
    pub through: u64,
    /// d: packets that were lost in all, be they recovered or not.
    pub lost: u64,
}

//! A network in virtual time, for tests of transports: nodes exchange datagrams over links with a rate, a
//! delay, a queue and faults.
//!
//! A run depends on its seed and its script alone: no clock, no thread, no hash order. It must never make up
//! traffic or swallow any uncounted: every datagram sent is delivered, or dropped by a link that counts it,
//! or still under way.
//!
//! [`Network`] holds [`Node`]s (endpoints without sockets and clocks), [`Link`]s with their queues ([`Discipline`]) and
//! the routes over them; [`Star`] builds the many-to-one case. [`tcp`] and [`tfrc`] are endpoints to compete with and to study;
//! [`acc`] is TCP-ACC around them; [`lttp`] are clients and servers of LTTP with their objects in memory, [`dfcp`] senders and receivers of DFCP, [`atp`] ends of
//! ATP's connections.

pub mod acc;
pub mod atp;
pub mod dfcp;
mod faults;
mod hop;
mod link;
pub mod lttp;
mod network;
mod node;
mod pipe;
mod queue;
mod rng;
mod star;
mod stats;
pub mod tcp;
pub mod tfrc;
mod wrapped;

pub use faults::{Faults, Loss, LossScript, Spike};
pub use link::{Link, LinkConfig, LinkCounters};
pub use network::{LinkId, Network};
pub use node::{Datagram, Node, NodeId, Output, UDP_OVERHEAD_BYTES};
pub use proto::Time;
pub use queue::{Discipline, Red};
pub use rng::Rng;
pub use star::{Star, StarConfig};
pub use stats::{FlowCounters, jain_index};
pub use wrapped::{Passed, Shim, Wrapped};

//! The coded transports as state machines without sockets, clocks or threads.
//!
//! Time is an argument ([`Time`]), randomness a seed but for TLS's own, bytes go in and come out.

pub mod acc;
pub mod assembly;
pub mod atp;
pub mod channel;
pub mod coding;
pub mod dfcp;
pub mod ecn;
pub mod limits;
pub mod lttp;
pub mod object;
pub mod path_mtu;
pub mod pinned;
pub mod protect;
pub mod tfrc;

mod agenda;
mod block_set;
mod budget;
mod loss;
mod pacer;
mod packets;
mod pieces;
mod ranges;
mod rate_cap;
mod spares;
mod time;

pub use agenda::Agenda;
pub use block_set::BlockSet;
pub use budget::{Budget, Held};
pub use pacer::{Burst, MakeUp};
pub use rate_cap::RateCap;
pub use time::Time;

//! The coded transports as state machines without sockets, clocks or threads.
//!
//! Time is an argument ([`Time`]), randomness a seed, bytes go in and come out.

pub mod lttp;
pub mod protect;
pub mod tfrc;

mod time;

pub use time::Time;

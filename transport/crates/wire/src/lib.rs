//! Wire formats of the coded transports: views over bytes and plain values, and nothing else.
//!
//! [`packet`] is the data channel (UDP): symbols one way, feedback the other. [`control`] is the reliable
//! channel beside it (TCP, under TLS unless an experiment says otherwise): requests, decoding parameters,
//! terminating signals. [`atp`] is what ATP's datagrams carry, with numbers as [`varint`] writes them; [`acc`]
//! is what goes between hosts with TCP-ACC's layer. All carry a version; none allocates more than the bytes it is given can justify.

pub mod acc;
pub mod atp;
pub mod control;
pub mod packet;
pub mod varint;

/// The version of all of them. Peers of another one are refused in the first message.
pub const VERSION: u8 = 1;

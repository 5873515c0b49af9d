//! Erasure codes: over GF(2), kernels, row generators, encoders and the solver under all of them; over GF(256), a code for windows of packets.
//!
//! A block of `k` source symbols of equal size becomes an endless sequence of coded symbols, each the XOR of a
//! set of source symbols (its *row*). [`Rows`] says which set belongs to which index, [`Encoder`] makes coded
//! symbols, [`Decoder`] gives the block back from any set of them whose rows have rank `k`. The LT code is that
//! of Luby with the robust soliton distribution ([`RobustSoliton`]), as LTTP uses it. The Raptor code, for DFCP, adds
//! symbols of a pre-code to those that rows are sets of, which makes rows shorter and large blocks cheaper.
//!
//! The crate does no I/O, reads no clock, takes no randomness but seeds, and never panics on what a peer sends.

mod arena;
mod decoder;
mod encoder;
mod error;
mod family;
pub mod gf256;
pub mod overhead;
pub mod paper;
mod precode;
mod random;
pub mod rlnc;
pub mod rows;
mod seed;
pub mod soliton;
pub mod solver;
pub mod spare;
pub mod xor;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::Error;
pub use family::{Family, Soliton};
pub use random::Random;
pub use rows::{Code, Draw, Rows, max_symbols};
pub use seed::{choose_seed, remembers_seed};
pub use soliton::RobustSoliton;
pub use solver::Progress;

/// Most source symbols of a block.
pub const MAX_SOURCE_SYMBOLS: u16 = 8192;

/// Most bytes of a symbol.
pub const MAX_SYMBOL_BYTES: usize = 65_535;

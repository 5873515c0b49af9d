//! The ends of a connection as somebody has them who means no good: each with the other end's keys, for tests and for
//! fuzzing.
#![allow(dead_code, missing_docs, unused_imports)] // Each program uses a part of it.

mod client;
mod server;

pub use client::{SERVER, ToClient, Victim, modest};
pub use server::{Bench, ToServer};

use std::net::SocketAddr;

use weir_proto::protect::{Protection, Side};
use wire::control::{Code, Fetch, Pacing};
use wire::packet::Kind;

pub const SECRET: [u8; 32] = [5; 32];
pub const TOKEN: [u8; 16] = [9; 16];
pub const CONNECTION: u32 = 77;

pub fn client_address() -> SocketAddr {
    "10.0.0.1:5000".parse().unwrap()
}

pub fn protection(secure: bool, side: Side) -> Protection {
    if secure { Protection::new(&SECRET, side) } else { Protection::insecure() }
}

pub fn fetch(request: u16) -> Fetch {
    Fetch {
        request,
        path: "a".into(),
        symbol_bytes: 100,
        block_symbols: 8,
        code: Code::Dealt,
        pacing: Pacing::Client { first: 4 },
        runs: Vec::new(),
        version: None,
    }
}

/// To seal a number the test has to derive all keys before its own.
pub fn within_reach(number: u64, secure: bool) -> u64 {
    if secure { number % (1 << 24) } else { number }
}

pub fn kind(n: u8) -> Kind {
    const KINDS: [Kind; 6] =
        [Kind::Symbol, Kind::Feedback, Kind::Hello, Kind::Welcome, Kind::Piece, Kind::Probe];
    KINDS[usize::from(n - 1) % KINDS.len()]
}

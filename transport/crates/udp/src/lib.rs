//! Drives the state machines of the coded transports over UDP sockets and control channels.
//!
//! [`Serving`] answers many clients from a directory; [`Fetching`] pulls objects from many servers at once.
//! Each has one thread for all its sockets; decoding and cold disks have threads of their own. What is decided
//! is decided in `proto`: here are only files, sockets, keys and clocks.

mod channel;
mod clock;
mod decoding;
mod fetching;
mod files;
mod serving;
mod socket;
pub mod tls;

pub use clock::Clock;
pub use fetching::{Error as FetchError, Fetching, Job, JobId, Sink, Source, Update};
pub use files::Root;
pub use rustls::ClientConfig as TlsClientConfig;
pub use serving::{Error as ServeError, Limits, Options as ServeOptions, Serving, Statistics, Stop};

//! Drives the state machines of the coded transports over UDP sockets and control channels.
//!
//! LTTP: [`Serving`] answers many clients from a [`Store`], [`Fetching`] pulls objects from many servers at once. DFCP:
//! [`Sending`] pushes objects to one receiver, [`Receiving`] takes them from many senders. Objects come from a [`Source`] and go to a
//! [`Sink`]. Each has one thread for all its sockets; decoding and cold disks have threads of their own. What is decided
//! is decided in `proto`: here are only files, sockets, keys and clocks. Nothing here changes the process or the calling thread:
//! [`sleep_precisely`] and [`raise_file_limit`] do, where a program wants it.

pub mod acc;
mod atp;
mod clock;
mod decoding;
mod disk;
mod fetching;
mod files;
mod happy_eyeballs;
mod path;
mod poller;
mod pool;
mod process;
mod receiving;
mod sending;
mod serving;
mod sink;
mod socket;
mod source;
mod store;
mod stream;
pub mod tls;
pub mod tun;
mod waiting;
mod walking;

pub use atp::{Atp, AtpOptions, AtpStatistics, StreamError, atp_client};
pub use clock::Clock;
pub use fetching::{Error as FetchError, Fetching, Job, ServerAddress, Update};
pub use files::{Root, open, require_openat2};
pub use happy_eyeballs::{Over, first_to_answer};
pub use path::{local_address, path_mtu};
pub use process::{raise_file_limit, random_bytes, sleep_precisely};
pub use proto::limits::Limits;
pub use receiving::{ReceiveOptions, ReceiveStatistics, ReceiveUpdate, Receiving, Taken};
pub use rustls;
pub use rustls::{ClientConfig as TlsClientConfig, ServerConfig as TlsServerConfig};
pub use sending::{RateNews, RateTeller, SendError, SendOptions, SendReport, SendUpdate, Sending};
pub use serving::{Error as ServeError, Options as ServeOptions, Serving, Statistics, Stop};
pub use sink::{JobId, Sink};
pub use source::{Attributes, Memory, Refused, Source, Stream, spool};
pub use store::{Listing, Objects, Store};
pub use walking::{Found, Walk};

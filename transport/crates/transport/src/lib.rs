#![doc = include_str!("../README.md")]

pub mod atp;
mod client;
mod engine;
mod error;
mod receiver;
mod sender;
mod server;
mod setup;
mod sink;
mod source;
#[cfg(feature = "tokio")]
mod tokio_io;
mod transfer;

pub use proto::dfcp::{ReceiverConfig, SenderConfig};
pub use proto::lttp::{ClientConfig, ServerConfig};
pub use proto::object::{Layout, Object};
pub use udp::tls::{Fingerprint, Identity, Trust};
pub use udp::{
    Attributes, Found, Limits, Listing, Memory, Objects, Refused, Root as Directory, Sink, Source,
    Statistics, Store, raise_file_limit,
};
pub use wire::control::{Entry, Omitted, Parameters, Refusal, Version};

pub use self::client::{Client, ClientBuilder};
pub use self::error::{Error, Result};
pub use self::receiver::{NextOffer, Offer, Receiver, ReceiverBuilder};
pub use self::sender::{Sender, SenderBuilder};
pub use self::server::{Server, ServerBuilder};
pub use self::setup::identity_at;
pub use self::source::{AnySource, IntoSource, reader, spool};
#[cfg(feature = "tokio")]
pub use self::tokio_io::{async_reader, async_spool, async_writer};
pub use self::transfer::Transfer;

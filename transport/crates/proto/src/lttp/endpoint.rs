//! Whole ends of a connection: the stream of its control channel, under TLS or in clear, beside its datagrams.
//!
//! Bytes of the stream go in by `receive` and `stream_ended`, and come out of the [`Channel`](crate::channel::Channel).
//! Messages, the opening of the channel, the keys of datagrams that follow from it, and its end are the endpoint's business;
//! [`Server`](super::Server) and [`Client`](super::Client) say what is served and fetched.

mod client;
mod server;

pub use client::ClientEndpoint;
pub use server::ServerEndpoint;

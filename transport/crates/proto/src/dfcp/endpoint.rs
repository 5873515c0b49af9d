//! Whole ends of a connection: signals, TLS, control messages, symbols and reports, over datagrams alone.

mod receiver;
mod sender;

pub use receiver::ReceiverEndpoint;
pub use sender::SenderEndpoint;

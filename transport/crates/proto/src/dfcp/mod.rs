//! DFCP: a fountain between one sender and one receiver (Molnár, Móczár and Sonkoly, "Living with congestion: Digital
//! Fountain based Communication Protocol").
//!
//! There is no congestion control: somebody who knows the path says how fast to send ([`RateConfig`]), fair queues in the
//! network keep flows apart, and a Raptor code makes up for what is lost. As in the paper: a connection that is opened and
//! released by signals which are sent until they are heard ([`Signalling`]), blocks in a sliding window, an
//! acknowledgement for each, and a sender that stops when it expects to have sent enough (section 4.5). Beyond it: the
//! receiver tells how many symbols each block lacks, so that nothing is sent in vain that could be known; an address is
//! proven before anything is sent to it; datagrams are protected; and a sender that is told no rate any more falls back to
//! TFRC.
//!
//! [`Sender`] and [`Receiver`] are the data channel with what is said beside it, [`Signalling`] the stream that carries the
//! latter. [`SenderEndpoint`] and [`ReceiverEndpoint`] are both of them with TLS between: a driver brings them datagrams and
//! the time.

mod address;
mod carrier;
mod endpoint;
mod rate;
mod receiver;
mod sender;
mod signalling;

pub use address::{AddressValidator, reset};
pub use endpoint::{ReceiverEndpoint, SenderEndpoint};
pub use rate::{Guide, RateConfig};
pub use receiver::{Receiver, ReceiverConfig, ReceiverCounters, ReceiverEvent};
pub use sender::{Sender, SenderConfig, SenderCounters, SenderEvent, Transmit};
pub use signalling::Signalling;

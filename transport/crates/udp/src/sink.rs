//! Where objects go once they are decoded.

use std::io;

use proto::object::Layout;
use wire::control::Parameters;

/// Where an object goes. Calls come one at a time, in the order in which blocks are complete, from threads that may wait: a
/// slow sink holds up no other.
pub trait Sink: Send {
    /// The object is known, and something of it is there: what follows is a block, or the end.
    ///
    /// # Errors
    /// The job fails with it.
    fn begin(&mut self, parameters: &Parameters, layout: Layout) -> io::Result<()>;

    /// Verified bytes at `offset`.
    ///
    /// # Errors
    /// The job fails with it.
    fn block(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// All blocks that were asked for are there.
    ///
    /// # Errors
    /// The job fails with it.
    fn finish(&mut self) -> io::Result<()>;
}

/// A job within its [`Fetching`](crate::Fetching).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(crate) u64);

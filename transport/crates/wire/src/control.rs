//! Messages of the control channel, and their frames.
//!
//! A frame is a length (32 bits, big-endian, at most [`MAX_FRAME_BYTES`]) and a message in postcard's encoding.
//! The client speaks first. Nothing is sent on the data channel before [`Server::Welcome`] and the data
//! channel's own hello.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::packet::Token;

/// The longest message, in bytes.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;
/// The longest path in a request, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;
/// Runs of blocks in one request; more are asked for when these are done.
pub const MAX_RUNS: usize = 1024;

/// BLAKE3 of a block.
pub type Hash = [u8; 32];

/// Which code a block's symbols are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// An LT code whose symbols choose their neighbours independently, as the LTTP paper has it.
    Independent,
    /// An LT code whose neighbours are dealt from shuffled decks: a stream of symbols uses each equally often.
    Dealt,
    /// Dealt, over the symbols of a pre-code: a Raptor code, as DFCP has it.
    Raptor,
    /// RaptorQ (RFC 6330), for comparison: an end may have been built without it. Seeds mean nothing to it.
    RaptorQ,
    /// An LT code with other parameters than the LTTP paper settles on, which [`Code::Independent`] and [`Code::Dealt`]
    /// have.
    Tuned(Tuned),
}

/// An LT code with parameters of its own. What they may be is for the ends to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// Neighbours are dealt, or else chosen independently.
    pub dealt: bool,
    /// c of the robust soliton distribution, in millionths.
    pub c_millionths: u32,
    /// delta of it, in millionths.
    pub delta_millionths: u32,
}

/// Who limits what is under way, besides TFRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pacing {
    /// The client: symbols are sent up to its credits.
    /// `first` is the credit of each of the first request's blocks before any feedback.
    Client {
        /// Symbols that may be sent at once.
        first: u16,
    },
    /// Nobody: the paper's mode. Symbols flow until the terminating signal.
    Tfrc,
}

/// Which object: a path that changes its content is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version(pub [u8; 16]);

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The first block.
    pub first: u32,
    /// How many; `u32::MAX` means up to the end.
    pub count: u32,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The client's name for it, on both channels.
    pub request: u16,
    /// Relative to what the server serves, with `/` between its parts.
    pub path: String,
    /// Bytes of a symbol.
    pub symbol_bytes: u16,
    /// Symbols of a block (the paper's k); the last block of an object may have fewer.
    pub block_symbols: u16,
    /// Which code.
    pub code: Code,
    /// Who limits what is under way.
    pub pacing: Pacing,
    /// The blocks to send, ascending; none means all.
    pub runs: Vec<Run>,
    /// Refuse if the object is not this one any more.
    pub version: Option<Version>,
}

/// From client to server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Client {
    /// The first message.
    Hello {
        /// [`crate::VERSION`].
        version: u8,
    },
    /// Names what lies under a path: the path itself if it is a file, else everything below it.
    List {
        /// The client's name for the question.
        request: u16,
        /// As in [`Fetch`].
        path: String,
    },
    /// Asks for an object.
    Fetch(Fetch),
    /// The paper's terminating signal, for one block.
    Done {
        /// The request.
        request: u16,
        /// The block that is complete.
        block: u32,
    },
    /// Nothing more of this request, please.
    Cancel {
        /// The request.
        request: u16,
    },
}

/// One file or directory of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path, as [`Fetch`] wants it.
    pub path: String,
    /// A file's length in bytes; 0 for a directory.
    pub size: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its type and its permission bits, as POSIX has them in `st_mode`: see [`is_directory`].
    pub mode: u32,
}

/// Something that lies under the path of a listing, and that cannot be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Its path; bytes that are no UTF-8 are written as `\xNN`.
    pub path: String,
    /// Why it cannot be fetched, for a person.
    pub why: String,
}

/// The type of a directory in a mode (POSIX's `S_IFDIR`).
pub const DIRECTORY: u32 = 0o040_000;

/// Whether a mode is a directory's. One without a type is a regular file's.
pub fn is_directory(mode: u32) -> bool {
    mode & 0o170_000 == DIRECTORY
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no such file.
    NotFound,
    /// The path leaves what is served, or is none.
    BadPath,
    /// The parameters are out of bounds.
    BadParameters,
    /// The file is not the one that was asked for any more.
    Changed,
    /// The server may not, or could not, read it.
    Unreadable,
    /// The server has too much to do.
    Busy,
    /// A block was not complete after all the symbols that a block may have.
    SymbolCap,
    /// The receiver has something of that name, and does not replace it.
    Exists,
    /// The receiver has no room for it.
    NoRoom,
}

/// The decoding parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// The request.
    pub request: u16,
    /// The object's length in bytes.
    pub size: u64,
    /// Its version.
    pub version: Version,
    /// When it was changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its type and its permission bits, as in [`Entry`]. Only DFCP sends directories, as objects of no bytes.
    pub mode: u32,
    /// The seed of the rows of all whole blocks.
    pub seed: u64,
    /// The seed of the rows of the last block, if it is shorter than the others.
    pub last_seed: u64,
}

/// From server to client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Server {
    /// Answers [`Client::Hello`].
    Welcome {
        /// [`crate::VERSION`].
        version: u8,
        /// Names the connection in datagrams.
        connection: u32,
        /// To be shown by the data channel's hello.
        token: Token,
    },
    /// Part of the answer to [`Client::List`].
    Listing {
        /// The question.
        request: u16,
        /// Files and directories, each directory before what is in it.
        entries: Vec<Entry>,
        /// What lies there as well, and cannot be fetched.
        omitted: Vec<Omitted>,
        /// Nothing follows.
        last: bool,
    },
    /// There is no answer to [`Client::List`].
    Unlisted {
        /// The question.
        request: u16,
        /// Why, for a person.
        detail: String,
    },
    /// Answers [`Client::Fetch`].
    Parameters(Parameters),
    /// What a block is, before or while its symbols come.
    BlockHash {
        /// The request.
        request: u16,
        /// The block.
        block: u32,
        /// BLAKE3 of its bytes.
        hash: Hash,
    },
    /// A request ends without success.
    Refused {
        /// The request.
        request: u16,
        /// Why.
        why: Refusal,
        /// The same for a person.
        detail: String,
    },
    /// The connection ends; why.
    Bye {
        /// For a person.
        reason: String,
    },
}

/// An object that a DFCP sender would send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Relative to where the receiver puts what comes, with `/` between its parts.
    pub path: String,
    /// What it is, and the seeds of its rows.
    pub parameters: Parameters,
    /// Bytes of a symbol.
    pub symbol_bytes: u16,
    /// Symbols of a block; the last block of an object may have fewer.
    pub block_symbols: u16,
    /// Which code.
    pub code: Code,
}

/// From a DFCP sender to its receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sender {
    /// The first message.
    Hello {
        /// [`crate::VERSION`].
        version: u8,
    },
    /// Would send an object.
    Offer(Offer),
    /// What a block is, before or while its symbols come.
    BlockHash {
        /// The request.
        request: u16,
        /// The block.
        block: u32,
        /// BLAKE3 of its bytes.
        hash: Hash,
    },
    /// The object will not come, or not whole.
    Withdraw {
        /// The request.
        request: u16,
        /// Why, for a person.
        detail: String,
    },
    /// The connection ends; why.
    Bye {
        /// For a person.
        reason: String,
    },
}

/// From a DFCP receiver to its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Receiver {
    /// Answers [`Sender::Hello`].
    Welcome {
        /// [`crate::VERSION`].
        version: u8,
        /// Bytes of blocks that may be under way.
        window_bytes: u64,
    },
    /// Answers [`Sender::Offer`]: these blocks are missing, ascending; without any, nothing is.
    Accepted {
        /// The request.
        request: u16,
        /// What to send.
        runs: Vec<Run>,
    },
    /// Answers [`Sender::Offer`], or ends what was accepted.
    Refused {
        /// The request.
        request: u16,
        /// Why.
        why: Refusal,
        /// The same for a person.
        detail: String,
    },
    /// The object is whole, and where it belongs.
    Stored {
        /// The request.
        request: u16,
    },
    /// The connection ends; why.
    Bye {
        /// For a person.
        reason: String,
    },
    /// The sender is to be no faster than this from now on, whatever else says how fast.
    Ceiling {
        /// In bit/s of whole Ethernet frames.
        bps: u64,
    },
}

/// Why bytes are no message.
#[derive(Debug, Error)]
pub enum Malformed {
    /// A frame longer than [`MAX_FRAME_BYTES`].
    #[error("a control message of {0} bytes (at most {MAX_FRAME_BYTES})")]
    TooLong(usize),
    /// A frame that holds no message.
    #[error("a control message that cannot be read: {0}")]
    Encoding(#[from] postcard::Error),
    /// A frame with more than one message.
    #[error("{0} bytes after a control message")]
    Trailing(usize),
}

/// Appends `message` as a frame.
///
/// # Errors
/// [`Malformed::TooLong`] when it does not fit.
pub fn emit<M: Serialize>(message: &M, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let body = postcard::to_stdvec(message)?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(Malformed::TooLong(body.len()));
    }
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(())
}

/// Room for messages that is kept for those to come.
const KEPT_BYTES: usize = 16 << 10;

/// Bytes of a control channel as they come, cut into messages.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    begin: usize,
}

impl Frames {
    /// Adds what was read.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.begin > 0 {
            self.bytes.drain(..self.begin);
            self.begin = 0;
            self.bytes.shrink_to(KEPT_BYTES);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of memory that it takes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The next whole message, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`Malformed`]: the channel cannot be understood any further.
    pub fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Malformed> {
        let Some((length, rest)) = self.bytes[self.begin..].split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(Malformed::TooLong(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let (message, unread) = postcard::take_from_bytes(body)?;
        if !unread.is_empty() {
            return Err(Malformed::Trailing(unread.len()));
        }
        self.begin += 4 + length;
        Ok(Some(message))
    }
}

//! What can go wrong.

use std::io;

use proto::object::MAX_BLOCKS;
use thiserror::Error;
use wire::control::Refusal;

/// Why something was not transferred, or an end could not be set up.
///
/// What a peer says about it is made safe for terminals.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that stands for no address.
    #[error("cannot find {name}: {why}")]
    Address {
        /// The name.
        name: String,
        /// Why not.
        why: String,
    },
    /// An end was set up in a way that cannot be meant. The text says what would be right.
    #[error("{0}")]
    Setup(String),
    /// A certificate, a key or a fingerprint that is none.
    #[error(transparent)]
    Tls(#[from] udp::tls::Error),
    /// The operating system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The connection to a peer has ended, or never was.
    #[error("{peer} is gone: {why}")]
    Lost {
        /// Its address.
        peer: String,
        /// What happened.
        why: String,
    },
    /// The peer does not give this object, or does not take it.
    #[error("{name}: {why}")]
    Refused {
        /// The object.
        name: String,
        /// Why, for a program.
        refusal: Refusal,
        /// Why, for a person.
        why: String,
    },
    /// The object could not be read, or not be stored, at this end, or is not what it should be.
    #[error("{name}: {why}")]
    Failed {
        /// The object.
        name: String,
        /// Why, for a person.
        why: String,
    },
    /// This end was closed before the object was through.
    #[error("this end has been closed")]
    Closed,
}

/// The result of what may fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn failed(name: &str, why: impl std::fmt::Display) -> Self {
        Error::Failed { name: clean(name), why: clean(&why.to_string()) }
    }

    pub(crate) fn refused(name: &str, refusal: Refusal, why: &str) -> Self {
        Error::Refused { name: clean(name), refusal, why: clean(why) }
    }

    pub(crate) fn lost(peer: impl std::fmt::Display, why: &str) -> Self {
        Error::Lost { peer: peer.to_string(), why: clean(why) }
    }

    pub(crate) fn cut(name: &str) -> Self {
        Error::failed(name, format!("it has more than {MAX_BLOCKS} blocks"))
    }

    /// The same failure of an end, for another of those who wait for it.
    pub(crate) fn again(&self) -> Self {
        match self {
            Error::System(error) => Error::System(match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
            Error::Closed => Error::Closed,
            error => Error::Setup(error.to_string()),
        }
    }
}

impl From<udp::FetchError> for Error {
    fn from(error: udp::FetchError) -> Self {
        match error {
            udp::FetchError::System(error) => Error::System(error),
            udp::FetchError::Tls(error) => Error::Tls(error.into()),
            error => Error::Setup(error.to_string()),
        }
    }
}

impl From<udp::SendError> for Error {
    fn from(error: udp::SendError) -> Self {
        match error {
            udp::SendError::System(error) => Error::System(error),
            udp::SendError::Tls(error) => Error::Tls(error.into()),
            error => Error::Setup(error.to_string()),
        }
    }
}

impl From<udp::ServeError> for Error {
    fn from(error: udp::ServeError) -> Self {
        match error {
            udp::ServeError::System(error) => Error::System(error),
            error => Error::Setup(error.to_string()),
        }
    }
}

/// Characters that control a terminal, or turn the direction of what is written, are escaped.
pub(crate) fn clean(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let escaped =
        |c: char| if c.is_control() || turns(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

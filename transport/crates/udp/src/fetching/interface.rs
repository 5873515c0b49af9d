//! What is pulled, from where and to where, and what is told of it.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;
use wire::control::{Entry, Omitted, Parameters, Refusal, Run, Version};

use crate::sink::{JobId, Sink};

/// A server to pull from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    /// Its TCP address; data comes from the same port of UDP.
    pub address: SocketAddr,
    /// The name that its certificate has to bear, where an authority vouches for it.
    pub name: String,
}

/// An object to pull.
pub struct Job {
    /// The index of its server.
    pub server: usize,
    /// Its path there.
    pub path: String,
    /// The blocks to pull, all if there are none.
    pub runs: Vec<Run>,
    /// Only if it is this.
    pub version: Option<Version>,
    /// Where it goes.
    pub sink: Box<dyn Sink>,
}

/// What has happened.
#[derive(Debug)]
pub enum Update {
    /// Data can flow from this server.
    Ready {
        /// Its index.
        server: usize,
    },
    /// A server is gone; that its jobs have failed is told next.
    Lost {
        /// Its index.
        server: usize,
        /// Why, for a person.
        why: String,
    },
    /// A job's object is known.
    Began {
        /// The job.
        job: JobId,
        /// The object.
        parameters: Parameters,
    },
    /// A block is with the sink.
    Block {
        /// The job.
        job: JobId,
        /// The block.
        block: u32,
        /// Its length.
        bytes: usize,
    },
    /// All of a job is with its sink.
    Finished {
        /// The job.
        job: JobId,
    },
    /// A job has failed.
    Failed {
        /// The job.
        job: JobId,
        /// Why, if the server said so.
        refusal: Option<Refusal>,
        /// Why, for a person.
        why: String,
    },
    /// Part of an answer to [`Fetching::list`](super::Fetching::list).
    Listing {
        /// The server's index.
        server: usize,
        /// The question.
        request: u16,
        /// Files and directories, each directory before what is in it.
        entries: Vec<Entry>,
        /// What is there as well, and cannot be fetched.
        omitted: Vec<Omitted>,
        /// Nothing follows.
        last: bool,
    },
    /// A question of [`Fetching::list`](super::Fetching::list) has no answer.
    Unlisted {
        /// The server's index.
        server: usize,
        /// The question.
        request: u16,
        /// Why, for a person.
        why: String,
    },
}

/// Why nothing can be pulled at all.
#[derive(Debug, Error)]
pub enum Error {
    /// The system refuses what any client needs.
    #[error("{0}")]
    System(#[from] io::Error),
    /// A name that no certificate can bear.
    #[error("{0:?} cannot be the name of a server")]
    Name(String),
    /// rustls will not have it.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

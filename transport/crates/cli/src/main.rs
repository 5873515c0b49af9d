//! The command `fountain`: serves a directory and fetches files from many servers at once, over LTTP; sends files to a
//! receiver, over DFCP.

mod args;
mod fetch;
mod identity;
#[cfg(any(test, feature = "manual"))]
mod manual;
mod output;
mod place;
mod recv;
mod security;
mod send;
mod serve;
mod symbols;
mod target;
mod telling;
mod trying;

use std::process::ExitCode;

use clap::Parser;

/// Something failed that a person may be able to mend.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Failure {
    what: String,
    status: u8,
}

impl Failure {
    fn new(what: impl std::fmt::Display) -> Self {
        Failure { what: what.to_string(), status: 1 }
    }

    /// The command line is wrong.
    fn usage(what: impl std::fmt::Display) -> Self {
        Failure { what: what.to_string(), status: 2 }
    }
}

fn main() -> ExitCode {
    #[cfg(feature = "manual")]
    if let Some(folder) = std::env::var_os("FOUNTAIN_MANUAL") {
        manual::write(folder.as_ref()).expect("the manual can be written");
        return ExitCode::SUCCESS;
    }
    let done = match args::Args::parse().command {
        args::Command::Serve(args) => serve::run(&args),
        args::Command::Fetch(args) => fetch::run(&args),
        args::Command::Recv(args) => recv::run(&args),
        args::Command::Send(args) => send::run(&args),
        args::Command::Id(args) => identity::run(&args),
    };
    done.unwrap_or_else(|failure| {
        telling::complain(&failure.to_string());
        ExitCode::from(failure.status)
    })
}

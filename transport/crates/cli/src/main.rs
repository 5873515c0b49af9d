//! The command `fountain`: serves a directory and fetches files from many servers at once, over LTTP; sends files to a
//! receiver, over DFCP; serves and fetches files, and carries TCP connections, over ATP; spares TCP
//! its timeouts beneath it.

mod acc;
mod advice;
mod args;
mod atp;
mod atp_get;
mod atp_proxy;
mod atp_serve;
mod config;
mod console;
mod fetch;
mod first_use;
mod identity;
mod known;
#[cfg(any(test, feature = "manual"))]
mod manual;
mod output;
mod place;
mod recv;
mod retry;
mod security;
mod select;
mod send;
mod serve;
mod stream;
mod symbols;
mod target;

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

    /// Whoever runs the command has ended it.
    fn interrupted() -> Self {
        Failure { what: "interrupted".to_owned(), status: retry::INTERRUPTED }
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
    run().unwrap_or_else(|failure| {
        console::complain(&failure.to_string());
        ExitCode::from(failure.status)
    })
}

fn run() -> Result<ExitCode, Failure> {
    let (line, directory) = config::expand(std::env::args_os().collect())?;
    let command = args::Args::parse_from(line).command;
    // All of them wait for the network in this thread.
    udp::sleep_precisely();
    match command {
        args::Command::Serve(args) => serve::run(&args, directory),
        args::Command::Fetch(args) => fetch::run(&args),
        args::Command::Recv(args) => recv::run(&args, directory),
        args::Command::Send(args) => send::run(&args),
        args::Command::AtpServe(args) => atp_serve::run(&args),
        args::Command::AtpGet(args) => atp_get::run(&args),
        args::Command::AtpProxy(args) => atp_proxy::run(&args),
        args::Command::Acc(args) => acc::run(&args),
        args::Command::Id(args) => identity::run(&args),
        args::Command::Known(args) => known::run(&args),
    }
}

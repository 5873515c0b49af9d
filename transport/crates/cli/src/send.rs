//! `fountain send`.

mod rates;
mod report;
mod spool;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::dfcp::{RateConfig, SenderConfig};
use udp::{Found, Over, Root, SendOptions, SendUpdate, Sending, Source, TlsClientConfig, Walk};
use wire::control::{self, DIRECTORY, Entry, Omitted, Refusal, is_directory};

use self::rates::Rates;
use self::report::Report;
use crate::advice::advised;
use crate::args::{Code, Send};
use crate::first_use::{Meeting, Speaks};
use crate::retry::{Retry, interruption, status};
use crate::select::Selection;
use crate::serve::seconds;
use crate::symbols::Symbols;
use crate::{Failure, security};

/// How often the report is given a chance to show progress.
const TICK: Duration = Duration::from_millis(100);
/// How often a file is offered that the receiver could not take, or that changed.
const MOST_TRIES: u32 = 5;

/// A file or directory to send.
pub(crate) struct File {
    content: Content,
    /// Its name at the receiver.
    name: String,
    size: u64,
    is_directory: bool,
    tries: u32,
    state: State,
}

/// Where its bytes are.
#[derive(Clone)]
enum Content {
    /// At a path of a directory.
    Below(Arc<Root>, String),
    /// In a file that has no name.
    Open(Arc<std::fs::File>),
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// So many bytes of it are with the receiver.
    Going(u64),
    Stored,
    Failed(String),
}

impl File {
    fn new(root: &Arc<Root>, Entry { path, size, mode, .. }: Entry, name: String) -> Self {
        let (is_directory, tries, state) = (is_directory(mode), 0, State::Waiting);
        File { content: Content::Below(root.clone(), path), name, size, is_directory, tries, state }
    }

    /// Whether there is nothing more to do for it.
    fn is_over(&self) -> bool {
        matches!(self.state, State::Stored | State::Failed(_))
    }
}

pub(crate) fn run(args: &Send) -> Result<ExitCode, Failure> {
    let interrupted = interruption()?;
    let config = config(args)?;
    if args.rate_from.is_none() && args.rate.is_none() && !args.tfrc && !args.dry_run {
        return Err(Failure::usage("say how fast to send: --rate-from URL, --rate BIT/S or --tfrc"));
    }
    let Some(mut files) = gather(args, &interrupted)? else { return Ok(status(false, &interrupted)) };
    if args.dry_run {
        let complete = report::dry_run(&files, args.json);
        return Ok(status(complete, &interrupted));
    }
    let meeting = Meeting {
        speaks: Speaks::Dfcp,
        retry: args.retry,
        silence: config.silence,
        interrupted: &interrupted,
    };
    let security = security::client(&args.trust, &[&args.to], &meeting)?;
    let mut to = args.to.reach(Over::Signals, config.silence)?;
    let mut retry = Retry::new(args.retry)?;
    let symbols = Symbols::new(args.symbol_bytes, args.block_symbols, !args.trust.insecure);
    let Symbols { bytes: symbol_bytes, of_a_block: block_symbols, .. } = symbols;
    let config = SenderConfig { symbol_bytes, block_symbols, fitted: symbols.are_fitted(), ..config };
    let rates = Rates::of(args, to)?;
    let mut report = Report::new(args, &files);
    while !files.iter().all(File::is_over) && !interrupted.load(Ordering::Relaxed) {
        let before = report.delivered();
        let attempt =
            Attempt { args, tls: &security.tls, config: &config, rates: &rates, interrupted: &interrupted };
        let lost = attempt.run(to, &mut files, &mut report)?;
        let Some(why) = lost else { break };
        security.require_unchanged()?;
        report.complain(&format!("{} ({to}) is gone: {}", args.to.name, advised(&why)));
        if report.delivered() > before {
            retry.begin();
        }
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let Some(pause) = retry.pause() else { break };
        report.retrying(pause);
        std::thread::sleep(pause);
        to = args.to.reach(Over::Signals, config.silence)?;
    }
    let stopped = interrupted.load(Ordering::Relaxed);
    let complete = report.finish(&files, stopped);
    Ok(status(complete, &interrupted))
}

fn config(args: &Send) -> Result<SenderConfig, Failure> {
    if !(0.0..=1000.0).contains(&args.redundancy) {
        return Err(Failure::usage(format!("--redundancy {}: write 0 to 1000 percent", args.redundancy)));
    }
    if args.window == Some(0) {
        return Err(Failure::usage("--window 0: write at least 1 block"));
    }
    let expiry = seconds("--expiry", args.expiry)?;
    let rate = RateConfig {
        floor_bps: args.floor.unwrap_or(0.0),
        ceiling_bps: args.limit.unwrap_or(f64::INFINITY),
        // What the user says holds.
        expiry: args.rate_from.is_some().then_some(expiry),
        fallback: args.rate.is_none(),
        ..SenderConfig::default().rate
    };
    Ok(SenderConfig {
        code: match args.code {
            Code::Raptor => control::Code::Raptor,
            Code::Lt => control::Code::Dealt,
            #[cfg(feature = "raptorq")]
            Code::Raptorq => control::Code::RaptorQ,
        },
        redundancy: args.redundancy / 100.0,
        window_blocks: args.window,
        early_stop: !args.no_early_stop,
        ecn: !args.no_ecn,
        acknowledgements: !args.no_acks,
        encode: !args.no_encode,
        rate,
        silence: seconds("--silence", args.silence)?,
        ..SenderConfig::default()
    })
}

/// What is to be sent; `None` if that was interrupted.
fn gather(args: &Send, interrupted: &AtomicBool) -> Result<Option<Vec<File>>, Failure> {
    let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
    match (&args.name, args.paths.iter().any(is_stdin)) {
        (None, false) => files(&args.paths, &args.select.selection()?).map(Some),
        (_, true) if args.dry_run => {
            Err(Failure::usage("-: nothing is known of standard input before it is read"))
        }
        (Some(name), true) if args.paths.len() == 1 => {
            let spooled = spool::stdin(!args.json && !args.quiet, interrupted)?;
            let Some((content, size)) = spooled else { return Ok(None) };
            let (content, name, state) = (Content::Open(Arc::new(content)), name.clone(), State::Waiting);
            Ok(Some(vec![File { content, name, size, is_directory: false, tries: 0, state }]))
        }
        (_, true) if args.paths.len() > 1 => {
            Err(Failure::usage("-: standard input is sent alone (a file of that name: ./-)"))
        }
        (_, true) => Err(Failure::usage("-: say with --name what standard input is called at the receiver")),
        (Some(_), false) => Err(Failure::usage("--name: it is for standard input (-)")),
    }
}

/// All that the paths name, directories after what is in them. Of a directory the last part of its name is kept.
fn files(paths: &[PathBuf], selection: &Selection) -> Result<Vec<File>, Failure> {
    let (mut files, mut names): (Vec<File>, _) = (Vec::new(), HashSet::new());
    for path in paths {
        let cannot = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
        let whole = path.canonicalize().map_err(|e| cannot(&e))?;
        let named = |name: Option<&std::ffi::OsStr>| {
            let name = name.and_then(std::ffi::OsStr::to_str).map(str::to_owned);
            name.ok_or_else(|| cannot(&"its name cannot be sent"))
        };
        let is_tree = whole.is_dir();
        let within = if is_tree { &*whole } else { whole.parent().unwrap_or(Path::new("/")) };
        let root = Arc::new(Root::open(within).map_err(|e| cannot(&e))?);
        let (inside, prefix) = if is_tree {
            // As for cp and rsync: DIR/. is what is in it.
            let written = path.as_os_str().as_encoded_bytes();
            let kept = written != b"." && !written.ends_with(b"/.") && path.file_name().is_some();
            (".".to_owned(), if kept { Some(named(path.file_name())?) } else { None })
        } else {
            (named(whole.file_name())?, None)
        };
        let below = |path: &str| match &prefix {
            Some(prefix) => format!("{prefix}/{path}"),
            None => path.to_owned(),
        };
        let before = files.len();
        for found in Walk::new(root.clone(), &inside).map_err(|e| cannot(&e))? {
            match found {
                Found::Entry(entry) => {
                    // A link to a file is sent under its own name.
                    let name = if is_tree { below(&entry.path) } else { named(path.file_name())? };
                    files.push(File::new(&root, entry, name));
                }
                Found::Omitted(Omitted { path, why }) => {
                    let name = below(&path);
                    let entry = Entry { path, size: 0, modified_ns: 0, mode: 0 };
                    files.push(File { state: State::Failed(why), ..File::new(&root, entry, name) });
                }
            }
        }
        if is_tree {
            let below = files.split_off(before);
            let kept = selection.of(below.iter().map(|file| (file.name.as_str(), file.is_directory)));
            files.extend(below.into_iter().zip(kept).filter_map(|(file, kept)| kept.then_some(file)));
        }
        if let Some(name) = prefix {
            let entry = Entry { path: inside, size: 0, modified_ns: 0, mode: DIRECTORY };
            files.push(File::new(&root, entry, name));
        }
    }
    // What is put into a directory later changes its time, and cannot be put into one that is read-only.
    let after = |file: &File| file.is_directory.then(|| Reverse(file.name.clone()));
    files.sort_by_cached_key(after);
    for file in &files {
        if !names.insert(file.name.clone()) {
            return Err(Failure::new(format!(
                "two files would have the name {}: send them one after the other",
                file.name
            )));
        }
    }
    Ok(files)
}

/// A file that has no name, as the content of an object.
fn opened(content: &std::fs::File, name: &str) -> Result<Arc<dyn Source>, String> {
    let content = content.try_clone().map_err(|e| e.to_string())?;
    udp::open(content, name).map_err(|(_, why)| why)
}

/// One connection.
struct Attempt<'a> {
    args: &'a Send,
    tls: &'a Option<Arc<TlsClientConfig>>,
    config: &'a SenderConfig,
    rates: &'a Rates,
    interrupted: &'a AtomicBool,
}

impl Attempt<'_> {
    /// Sends until all is there or has failed for good. Returns why the connection was lost, if it was.
    fn run(
        &self,
        to: std::net::SocketAddr,
        files: &mut [File],
        report: &mut Report,
    ) -> Result<Option<String>, Failure> {
        let name = self.args.to.name.clone();
        let options = SendOptions { to, name, tls: self.tls.clone(), config: self.config.clone() };
        let mut sending = Sending::connect(options).map_err(Failure::new)?;
        let mut going: HashMap<u16, usize> = HashMap::new();
        let mut waiting: VecDeque<usize> = (0..files.len()).filter(|n| !files[*n].is_over()).collect();
        for file in files.iter_mut().filter(|file| !file.is_over()) {
            file.state = State::Waiting;
        }
        let mut open = false;
        while !self.interrupted.load(Ordering::Relaxed) {
            sending.mark(self.rates.dscp()).map_err(Failure::new)?;
            if open {
                while let Some(number) = waiting.front().copied() {
                    let file = &mut files[number];
                    if file.is_directory && !going.is_empty() {
                        break;
                    }
                    let opened = match &file.content {
                        Content::Below(root, path) => root.object(path).map_err(|(_, why)| why),
                        Content::Open(content) => opened(content, &file.name),
                    };
                    let offer = |source| sending.offer(source, &file.name).map_err(|e| e.to_string());
                    match opened.and_then(offer) {
                        Ok(Some(request)) => {
                            going.insert(request, number);
                        }
                        Ok(None) => break,
                        Err(why) => file.state = State::Failed(why),
                    }
                    waiting.pop_front();
                }
            }
            if going.is_empty() && waiting.is_empty() {
                break;
            }
            for update in sending.wait(TICK).map_err(Failure::new)? {
                match update {
                    SendUpdate::Open => {
                        open = true;
                        self.rates.attach(sending.rate_teller());
                    }
                    SendUpdate::Accepted { request, bytes } => {
                        if let Some(number) = going.get(&request) {
                            let there = files[*number].size.saturating_sub(bytes);
                            files[*number].state = State::Going(there);
                        }
                    }
                    SendUpdate::Delivered { request, bytes } => {
                        if let Some(number) = going.get(&request)
                            && let State::Going(there) = &mut files[*number].state
                        {
                            *there += bytes as u64;
                            report.block(bytes);
                        }
                    }
                    SendUpdate::Stored { request } => {
                        if let Some(number) = going.remove(&request) {
                            files[number].state = State::Stored;
                            report.stored(&files[number]);
                        }
                    }
                    SendUpdate::Refused { request, why, detail } => {
                        let Some(number) = going.remove(&request) else { continue };
                        let file = &mut files[number];
                        file.tries += 1;
                        if matches!(why, Refusal::Busy | Refusal::Changed) && file.tries < MOST_TRIES {
                            file.state = State::Waiting;
                            waiting.push_back(number);
                        } else {
                            file.state = State::Failed(detail);
                        }
                    }
                    SendUpdate::Guided(guide) => report.guided(guide),
                    SendUpdate::Lost { why } => {
                        report.keep(&sending);
                        return Ok(Some(why));
                    }
                }
            }
            for (bps, at) in self.rates.changes() {
                report.rate(bps, at);
            }
            for trouble in self.rates.troubles() {
                report.complain(&format!("no rate from the controller: {trouble}"));
            }
            report.tick(files, &sending);
        }
        report.keep(&sending);
        let reason = if self.interrupted.load(Ordering::Relaxed) { "interrupted" } else { "all is sent" };
        sending.release(reason).map_err(Failure::new)?;
        Ok(None)
    }
}

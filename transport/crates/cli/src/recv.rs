//! `fountain recv`.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::HumanBytes;
use proto::dfcp::ReceiverConfig;
use proto::object::Layout;
use serde_json::json;
use udp::{JobId, Limits, ReceiveOptions, ReceiveUpdate, Receiving, Taken};
use wire::control::{Offer, Refusal};

use crate::args::{Identity, Recv};
use crate::console::{clean, complain, print, say};
use crate::output::{Output, Place, RESERVED, Writer, is_clean};
use crate::place::Tree;
use crate::retry::on_stop;
use crate::serve::{bounds, seconds};
use crate::{Failure, config as configuration, security};

/// How long nothing may happen before signals are looked at.
const TICK: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &Recv, configured: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let directory = configuration::directory(args.directory.as_ref(), configured)?;
    let Identity { client, client_ca, insecure, .. } = &args.identity;
    if client.is_empty() && client_ca.is_none() && !args.anyone && !insecure {
        return Err(Failure::usage(
            "say who may send: --client FINGERPRINT, as `fountain id` prints it at the sender, --client-ca FILE, or \
             --anyone",
        ));
    }
    let tree = Tree::open(&directory, args.overwrite)
        .map_err(|e| Failure::new(format!("cannot write to {}: {e}", directory.display())))?;
    let (tls, fingerprint) = security::server(&args.identity)?.unzip();
    let config = ReceiverConfig {
        window_bytes: args.window,
        silence: seconds("--silence", args.silence)?,
        ..ReceiverConfig::default()
    };
    let limits = Limits { bps: args.limit, ..args.most.limits(args.memory) };
    let decode = !args.no_decode;
    let options = ReceiveOptions { listen: args.listen, tls, config, decode, limits };
    // Each file that comes is open.
    udp::raise_file_limit();
    let mut receiving = Receiving::bind(options).map_err(Failure::new)?;
    let address = receiving.local_addr().map_err(Failure::new)?;
    let stopped = Arc::new(AtomicBool::new(false));
    let (stop, wake) = (stopped.clone(), receiving.waker());
    on_stop(move || {
        stop.store(true, Ordering::Relaxed);
        wake();
    })?;
    let fingerprint = fingerprint.map(|f| f.to_string());
    if args.json {
        let address = address.to_string();
        let mut bounds = bounds(&receiving.limits());
        bounds["keep_free"] = args.keep_free.into();
        bounds["max_total"] = args.max_total.into();
        say(&json!({"event": "listening", "addr": address, "fingerprint": fingerprint, "bounds": bounds}));
    } else {
        print(format_args!("receiving into {} on {address}", directory.display()));
        if let Some(fingerprint) = fingerprint {
            print(format_args!("senders trust this receiver with --fingerprint {fingerprint}"));
        }
    }
    let mut inbox = Inbox {
        place: (!args.discard).then(|| Arc::new(tree)),
        json: args.json,
        keep_free: args.keep_free,
        max_total: args.max_total,
        taken: HashMap::new(),
        files: HashMap::new(),
        senders: HashSet::new(),
        failed: 0,
        gone: 0,
    };
    while !(stopped.load(Ordering::Relaxed) || args.once && inbox.gone > 0) {
        for update in receiving.wait(TICK).map_err(Failure::new)? {
            inbox.on_update(&mut receiving, update);
        }
    }
    let did = receiving.stop().map_err(Failure::new)?;
    inbox.save();
    if args.json {
        say(&json!({
            "event": "stopped",
            "connections": did.connections,
            "refused": did.refused,
            "stored": did.stored,
            "failed": did.failed,
            "strays": did.strays,
            "symbols": did.data.useful,
            "late": did.data.late,
            "lost": did.data.missing,
            "no_room": did.data.no_room,
            "ect": did.data.ect,
            "ce": did.data.ce,
            "peak_bytes": did.peak_bytes,
            "peak_files": did.peak_files,
            "reports": did.data.reports,
            "unexpected": did.data.unexpected,
            "forged": did.data.forged,
            "replayed": did.data.replayed,
        }));
    } else {
        print(format_args!("stopped: {} files received, {} failed", did.stored, did.failed));
    }
    let whole = inbox.failed == 0 && inbox.files.is_empty();
    Ok(if args.once && !whole { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What comes, and where it goes.
struct Inbox {
    place: Place,
    json: bool,
    /// Bytes that stay free.
    keep_free: u64,
    /// Bytes of all files that may be taken, and those that were, by name; unless there is no such limit.
    max_total: Option<u64>,
    taken: HashMap<String, u64>,
    files: HashMap<JobId, File>,
    /// Those that have offered something.
    senders: HashSet<SocketAddr>,
    failed: u64,
    gone: u64,
}

struct File {
    from: SocketAddr,
    name: String,
    size: u64,
    output: Arc<Mutex<Output>>,
}

impl File {
    /// Bytes that are not there yet.
    fn coming_bytes(&self) -> u64 {
        // Where it is being opened, nothing of it is known to be there.
        let there = self.output.try_lock().map_or(0, |output| output.bytes_done());
        self.size.saturating_sub(there)
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    fn on_update(&mut self, receiving: &mut Receiving, update: ReceiveUpdate) {
        match update {
            ReceiveUpdate::Connected { from } => {
                if self.json {
                    say(&json!({"event": "connected", "from": from.to_string()}));
                }
            }
            ReceiveUpdate::Offered { job, from, offer } => {
                self.senders.insert(from);
                if let Err((why, detail)) = self.open(receiving, job, from, &offer) {
                    self.failed += 1;
                    complain(&format!("{} from {from}: {detail}", offer.path));
                    receiving.refuse(job, why, detail);
                }
            }
            ReceiveUpdate::Block { .. } => {}
            ReceiveUpdate::Stored { job } => {
                let Some(file) = self.files.remove(&job) else { return };
                let output = file.lock();
                let path = output.path().unwrap_or_else(|| PathBuf::from(&file.name));
                let (size, from) = (output.size(), file.from.to_string());
                if self.json {
                    let event = if output.is_directory() { "directory" } else { "file" };
                    say(&json!({"event": event, "path": path, "size": size, "from": from}));
                } else if !output.is_directory() {
                    let path = clean(&path.display().to_string());
                    print(format_args!("{path} ({}) from {from}", HumanBytes(size)));
                }
            }
            ReceiveUpdate::Failed { job, why } => {
                // One that was never opened has been told of.
                let Some(file) = self.files.remove(&job) else { return };
                self.failed += 1;
                self.keep(&file);
                if file.lock().bytes_done() == 0 {
                    self.taken.remove(&file.name);
                }
                complain(&format!("{} from {}: {why}", file.name, file.from));
                if self.json {
                    let from = file.from.to_string();
                    say(&json!({"event": "failed", "path": file.name, "from": from, "why": why}));
                }
            }
            ReceiveUpdate::Disconnected { from, why } => {
                self.gone += u64::from(self.senders.remove(&from));
                if self.json {
                    say(&json!({"event": "disconnected", "from": from.to_string(), "why": why}));
                }
            }
        }
    }

    /// Has what an offered file goes to opened, to see what of it is missing there.
    fn open(
        &mut self,
        receiving: &mut Receiving,
        job: JobId,
        from: SocketAddr,
        offer: &Offer,
    ) -> Result<(), (Refusal, String)> {
        let name = &offer.path;
        if !is_clean(name) {
            return Err((Refusal::BadPath, "a path must be relative, without \".\" and \"..\"".into()));
        }
        if RESERVED.iter().any(|ending| name.ends_with(ending)) {
            return Err((Refusal::BadPath, "names with this ending are reserved for parts of files".into()));
        }
        self.supersede(receiving, from, name)?;
        let Offer { symbol_bytes, block_symbols, parameters, .. } = *offer;
        let layout = Layout::new(symbol_bytes, block_symbols, parameters.size).ok_or_else(|| {
            (Refusal::BadParameters, "the size of symbols, blocks or file is out of bounds".to_owned())
        })?;
        self.require_room(name, layout.size())?;
        let output = Arc::new(Mutex::new(Output::new(&self.place, name, symbol_bytes, block_symbols)));
        let size = layout.size();
        self.files.insert(job, File { from, name: name.clone(), size, output: output.clone() });
        receiving.open(job, move || {
            let missing = {
                let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                output.open(parameters, layout).map_err(unusable)?;
                if output.is_finished() { Vec::new() } else { output.missing(layout.blocks()) }
            };
            Ok(Taken { missing, sink: Box::new(Writer(output)) })
        });
        Ok(())
    }

    /// Whether there is room for a file of so many bytes beside the others, which is taken then.
    fn require_room(&mut self, name: &str, bytes: u64) -> Result<(), (Refusal, String)> {
        let no_room = |what: String| Err((Refusal::NoRoom, what));
        if let Some(max_total) = self.max_total {
            let others = self.taken.iter().filter(|(other, _)| *other != name).map(|(_, bytes)| bytes).sum();
            let left = max_total.saturating_sub(others);
            if bytes > left {
                return no_room(format!("{bytes} bytes: {left} may still be received (--max-total)"));
            }
        }
        if let Some(tree) = &self.place {
            let free = tree.free_bytes().map_err(unusable)?;
            let coming: u64 = self.files.values().map(File::coming_bytes).sum();
            let room = free.saturating_sub(self.keep_free).saturating_sub(coming);
            if bytes > room {
                let keep = self.keep_free;
                return no_room(format!(
                    "{bytes} bytes: there is room for {room} ({keep} stay free: --keep-free)"
                ));
            }
        }
        if self.max_total.is_some() && bytes > 0 {
            self.taken.insert(name.to_owned(), bytes);
        }
        Ok(())
    }

    /// A sender that was killed and offers its file again has not said goodbye: what it offered before gives way.
    fn supersede(
        &mut self,
        receiving: &mut Receiving,
        from: SocketAddr,
        name: &str,
    ) -> Result<(), (Refusal, String)> {
        let before = self.files.iter().find(|(_, file)| file.name == name);
        let Some((job, of)) = before.map(|(job, file)| (*job, file.from)) else { return Ok(()) };
        if of.ip() != from.ip() {
            return Err((Refusal::Busy, format!("{of} is sending a file with this name")));
        }
        receiving.refuse(job, Refusal::Busy, "the sender offers it again".into());
        if let Some(file) = self.files.remove(&job) {
            self.keep(&file);
        }
        Ok(())
    }

    fn keep(&self, file: &File) {
        if let Err(e) = file.lock().close() {
            complain(&format!("{}: received data may be lost: {e}", file.name));
        }
    }

    /// Notes what has come of files that are not whole.
    fn save(&self) {
        for file in self.files.values() {
            self.keep(file);
        }
    }
}

fn unusable(error: std::io::Error) -> (Refusal, String) {
    let why = match error.kind() {
        std::io::ErrorKind::AlreadyExists => Refusal::Exists,
        // What it was offered as before is being let go of.
        std::io::ErrorKind::WouldBlock => Refusal::Busy,
        _ => Refusal::Unreadable,
    };
    (why, error.to_string())
}

//! What a person, or a program, is told of a fetch.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanDuration, ProgressBar};
use proto::lttp::ServerReport;
use serde_json::{Value, json};
use udp::ServerAddress;

use super::attempt::{Attempt, Stopwatch};
use super::plan::{File, Plan};
use crate::advice::advised;
use crate::args::Fetch;
use crate::console::{bar, clean, complain, hash_of, print, say};
use crate::output::Foreseen;
use crate::stream::is_broken_pipe;

/// Between two lines of JSON about progress.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Report {
    json: bool,
    quiet: bool,
    hash: bool,
    discard: bool,
    bar: ProgressBar,
    began: Stopwatch,
    round: Option<(Stopwatch, u64)>,
    rounds: Vec<(f64, u64)>,
    bytes: u64,
    symbols_needed: u64,
    /// Of connections that are over.
    past: BTreeMap<usize, ServerReport>,
    present: BTreeMap<usize, (ServerReport, Option<Duration>)>,
    window_bytes: usize,
    said: Instant,
}

impl Report {
    pub(super) fn new(args: &Fetch) -> Self {
        Report {
            json: args.json,
            quiet: args.quiet,
            hash: args.hash,
            discard: args.discard,
            bar: bar(!args.json && !args.quiet),
            began: Stopwatch::start(),
            round: None,
            rounds: Vec::new(),
            bytes: 0,
            symbols_needed: 0,
            past: BTreeMap::new(),
            present: BTreeMap::new(),
            window_bytes: 0,
            said: Instant::now(),
        }
    }

    /// Whether rounds are timed.
    pub(super) fn measures(&self) -> bool {
        self.discard
    }

    pub(super) fn round_begins(&mut self) {
        // After a reconnection it is the same round.
        self.round.get_or_insert_with(|| (Stopwatch::start(), self.bytes));
    }

    pub(super) fn round_ends(&mut self, plan: &Plan) {
        if plan.is_complete()
            && let Some((stopwatch, before)) = self.round.take()
        {
            self.rounds.push((stopwatch.seconds(), self.bytes - before));
        }
    }

    pub(super) fn block(&mut self, bytes: usize, k: u16) {
        self.bytes += bytes as u64;
        self.symbols_needed += u64::from(k);
    }

    pub(super) fn lost(&mut self, server: &ServerAddress, why: &str) {
        self.complain(&format!("{} ({}) is gone: {}", server.name, server.address, advised(why)));
    }

    pub(super) fn retrying(&mut self, pause: Duration) {
        if !self.quiet {
            self.complain(&format!("retrying in {:.1} s", pause.as_secs_f64()));
        }
    }

    pub(super) fn complain(&self, what: &str) {
        self.bar.suspend(|| complain(what));
    }

    /// Brings what is shown up to date, now and then.
    pub(super) fn tick(&mut self, plan: &Plan, attempt: &Attempt) {
        if self.said.elapsed() < JSON_INTERVAL && (self.json || self.bar.is_hidden()) {
            return;
        }
        self.take(attempt);
        let (there, total) = (there(plan), plan.files.iter().map(|f| f.lock().size()).sum());
        self.bar.set_length(total);
        self.bar.set_position(there);
        let (_, lost, overhead) = self.symbols();
        self.bar.set_message(format!("overhead {:.1} %, lost {lost}", 100.0 * overhead));
        if self.json && self.said.elapsed() >= JSON_INTERVAL {
            let seconds = self.began.seconds();
            say(&json!({
                "event": "progress",
                "seconds": seconds,
                "bytes": there,
                "size": total,
                "files": plan.files.len(),
                "files_complete": plan.files.iter().filter(|f| f.is_complete()).count(),
                "goodput_bps": 8.0 * self.bytes as f64 / seconds,
                "window_bytes": self.window_bytes,
            }));
        }
        self.said = Instant::now();
    }

    fn take(&mut self, attempt: &Attempt) {
        self.window_bytes = attempt.window_bytes();
        self.present = attempt.reports().map(|(s, report, rtt)| (s, (report, rtt))).collect();
    }

    /// These connections are over.
    pub(super) fn keep_servers(&mut self, attempt: &Attempt) {
        self.take(attempt);
        for (server, (report, _)) in std::mem::take(&mut self.present) {
            let past = self.past.entry(server).or_default();
            *past = sum(past, &report);
        }
    }

    /// Symbols received, symbols lost, and what was received beyond what was needed as a share of that.
    fn symbols(&self) -> (u64, u64, f64) {
        let all = || self.past.values().chain(self.present.values().map(|(report, _)| report));
        let received: u64 = all().map(|r| r.useful + r.late).sum();
        let lost = all().map(|r| r.missing).sum();
        let needed = self.symbols_needed.max(1) as f64;
        (received, lost, (received as f64 / needed - 1.0).max(0.0))
    }

    /// The outcome. Whether all is there.
    pub(super) fn finish(&mut self, plan: &mut Plan, interrupted: bool) -> bool {
        if let Some(attempt) = plan.take_attempt() {
            self.take(&attempt);
        }
        self.bar.finish_and_clear();
        for file in &plan.files {
            self.file(file, interrupted);
        }
        let complete = plan.is_complete();
        if self.json {
            say(&self.done(plan, complete, interrupted));
        } else if !self.quiet {
            let seconds = self.began.seconds();
            let (_, lost, overhead) = self.symbols();
            print(format_args!(
                "{} in {} ({:.1} Mbit/s), overhead {:.1} %, {lost} symbols lost",
                HumanBytes(self.bytes),
                HumanDuration(Duration::from_secs_f64(seconds)),
                8e-6 * self.bytes as f64 / seconds,
                100.0 * overhead,
            ));
        }
        complete
    }

    /// Says what would be fetched. Whether that is all that was asked for.
    pub(super) fn dry_run(&self, plan: &Plan, interrupted: bool) -> bool {
        self.bar.finish_and_clear();
        let (mut count, mut bytes) = (0_u64, 0);
        for file in &plan.files {
            let Some(Foreseen { what, size, bytes: coming }) = file.foreseen else {
                self.file(file, interrupted);
                continue;
            };
            (count, bytes) = (count + u64::from(what != "there"), bytes + coming);
            let output = file.lock();
            let path = output.path().unwrap_or_else(|| PathBuf::from(output.name()));
            if self.json {
                say(
                    &json!({"event": "would_fetch", "path": path, "what": what, "size": size, "bytes": coming}),
                );
            } else if !self.quiet {
                let size = HumanBytes(size).to_string();
                print(format_args!("{what:<7} {size:>10}  {}", clean(&path.display().to_string())));
            }
        }
        let complete = plan.unlisted.is_empty() && plan.files.iter().all(|file| file.failed.is_none());
        if self.json {
            say(
                &json!({"event": "done", "dry_run": true, "complete": complete, "files": count, "bytes": bytes}),
            );
        } else if !self.quiet {
            print(format_args!("{count} files, {} would be fetched", HumanBytes(bytes)));
        }
        complete
    }

    fn file(&self, file: &File, interrupted: bool) {
        let why = match (&file.failed, file.is_complete()) {
            (Some(why), _) => why.clone(),
            (None, true) => return self.there(file),
            // What a pipe has got is not got again.
            (None, false) if file.stream.is_some() && interrupted => "interrupted".into(),
            (None, false) if file.stream.is_some() => "its servers are gone".into(),
            (None, false) if interrupted => "interrupted; run the same command again to resume".into(),
            (None, false) => "its servers are gone; run the same command again to resume".into(),
        };
        let failure = file.stream.as_ref().and_then(|stream| stream.failure());
        // A reader that has had enough, as head has, is nothing to complain of.
        if !failure.is_some_and(|e| is_broken_pipe(&e)) {
            self.complain(&format!("{}: {why}", file.path));
        }
        if self.json {
            say(&json!({"event": "failed", "path": file.path, "why": why}));
        }
    }

    fn there(&self, file: &File) {
        let output = file.lock();
        let (path, hash) = match (output.path(), &file.stream) {
            (Some(path), _) => {
                let hash = if self.hash { hash_of(&path) } else { Ok(None) };
                (path, hash)
            }
            (None, Some(stream)) => (PathBuf::from("-"), Ok(stream.hash())),
            (None, None) => return,
        };
        let hash = hash.unwrap_or_else(|e| {
            self.complain(&format!("{}: {e}", path.display()));
            None
        });
        if self.json {
            say(&json!({"event": "file", "path": path, "size": output.size(), "blake3": hash}));
        } else if let Some(hash) = hash.filter(|_| !self.quiet) {
            print(format_args!("{hash}  {}", clean(&path.display().to_string())));
        }
    }

    fn done(&self, plan: &Plan, complete: bool, interrupted: bool) -> Value {
        let (received, lost, overhead) = self.symbols();
        let rounds: f64 = self.rounds.iter().map(|(s, _)| s).sum();
        // Of rounds that were not completed only the whole time is known.
        let seconds = if complete && self.discard { rounds } else { self.began.seconds() };
        let servers: Vec<Value> = (0..plan.servers.len()).map(|server| self.server(plan, server)).collect();
        json!({
            "event": "done",
            "complete": complete,
            "interrupted": interrupted,
            "rounds": self.rounds.iter().map(|(s, b)| json!({"seconds": s, "bytes": b})).collect::<Vec<_>>(),
            "bytes": self.bytes,
            "seconds": seconds,
            "goodput_bps": 8.0 * self.bytes as f64 / seconds.max(1e-9),
            "symbols_received": received,
            "symbols_needed": self.symbols_needed,
            "symbols_lost": lost,
            "overhead": overhead,
            "window_bytes": self.window_bytes,
            "servers": servers,
        })
    }

    fn server(&self, plan: &Plan, server: usize) -> Value {
        let (present, rtt) = self.present.get(&server).copied().unwrap_or_default();
        let report = self.past.get(&server).map_or(present, |past| sum(past, &present));
        json!({
            "name": plan.servers[server].name,
            "addr": plan.servers[server].address.to_string(),
            "rtt_us": rtt.map(|rtt| rtt.as_micros() as u64),
            "symbols": report.useful,
            "late": report.late,
            "pieces": report.pieces,
            "lost": report.missing,
            "ect": report.ect,
            "ce": report.ce,
            "given_up": report.given_up,
            "loss_event_rate": report.loss_event_rate,
            "unexpected": report.unexpected,
            "forged": report.forged,
            "replayed": report.replayed,
        })
    }
}

fn sum(a: &ServerReport, b: &ServerReport) -> ServerReport {
    ServerReport {
        useful: a.useful + b.useful,
        late: a.late + b.late,
        pieces: a.pieces + b.pieces,
        missing: a.missing + b.missing,
        ect: a.ect + b.ect,
        ce: a.ce + b.ce,
        given_up: a.given_up + b.given_up,
        unexpected: a.unexpected + b.unexpected,
        forged: a.forged + b.forged,
        replayed: a.replayed + b.replayed,
        loss_event_rate: b.loss_event_rate,
    }
}

/// Bytes of the files that are there, of what was there before as well.
fn there(plan: &Plan) -> u64 {
    plan.files.iter().map(|file| file.lock().bytes_done()).sum()
}

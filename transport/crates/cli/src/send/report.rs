//! What a person, or a program, is told while files are sent.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{HumanBytes, HumanDuration, ProgressBar};
use proto::dfcp::{Guide, SenderCounters};
use serde_json::json;
use udp::{SendReport, Sending};

use super::{File, State};
use crate::args::Send;
use crate::console::{bar, clean, complain, print, say};

/// Between two lines of JSON about progress.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Report {
    json: bool,
    quiet: bool,
    bar: ProgressBar,
    began: Instant,
    /// When the first and the last block were with the receiver, and the bytes of all but the first.
    span: Option<(Instant, Instant, u64)>,
    bytes: u64,
    /// Of connections that are over.
    past: SenderCounters,
    connections: u64,
    present: SendReport,
    guide: Option<Guide>,
    said: Instant,
}

impl Report {
    pub(super) fn new(args: &Send, files: &[File]) -> Self {
        let bar = bar(!args.json && !args.quiet);
        bar.set_length(files.iter().map(|file| file.size).sum());
        Report {
            json: args.json,
            quiet: args.quiet,
            bar,
            began: Instant::now(),
            span: None,
            bytes: 0,
            past: SenderCounters::default(),
            connections: 0,
            present: SendReport::default(),
            guide: None,
            said: Instant::now(),
        }
    }

    /// Bytes that have been delivered.
    pub(super) fn delivered(&self) -> u64 {
        self.bytes
    }

    pub(super) fn block(&mut self, bytes: usize) {
        let now = Instant::now();
        let bytes_after = |(_, _, before): (_, _, u64)| before + bytes as u64;
        let first = self.span.map_or(now, |(first, ..)| first);
        self.span = Some((first, now, self.span.map_or(0, bytes_after)));
        self.bytes += bytes as u64;
    }

    pub(super) fn stored(&self, file: &File) {
        if self.json {
            say(&json!({"event": "file", "path": file.name, "size": file.size}));
        }
    }

    /// Somebody has said how fast to send.
    pub(super) fn rate(&self, bps: f64, at: SystemTime) {
        if self.json {
            let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            say(&json!({"event": "rate", "bps": bps, "unix_ns": since_1970.as_nanos() as u64}));
        }
    }

    pub(super) fn guided(&mut self, guide: Guide) {
        let before = self.guide.replace(guide);
        if self.json {
            let seconds = self.began.elapsed().as_secs_f64();
            say(&json!({"event": "guided", "by": named(guide), "seconds": seconds}));
        }
        match (before, guide) {
            (Some(Guide::Told), Guide::Tfrc) => {
                self.complain(
                    "the controller's rate has expired: TFRC's rate is used until the controller answers again",
                );
            }
            (Some(Guide::Tfrc), Guide::Told) => self.complain("the controller's rate is used again"),
            _ => {}
        }
    }

    pub(super) fn complain(&self, what: &str) {
        self.bar.suspend(|| complain(what));
    }

    pub(super) fn retrying(&self, pause: Duration) {
        if !self.quiet {
            self.complain(&format!("retrying in {:.1} s", pause.as_secs_f64()));
        }
    }

    /// Brings what is shown up to date, now and then.
    pub(super) fn tick(&mut self, files: &[File], sending: &Sending) {
        if self.said.elapsed() < JSON_INTERVAL && (self.json || self.bar.is_hidden()) {
            return;
        }
        self.present = sending.report();
        let there = there(files);
        self.bar.set_position(there);
        let SendReport { loss, rate_bps, .. } = self.present;
        self.bar.set_message(format!("rate {:.1} Mbit/s, {:.1} % lost", 1e-6 * rate_bps, 100.0 * loss));
        if self.json && self.said.elapsed() >= JSON_INTERVAL {
            let seconds = self.began.elapsed().as_secs_f64();
            say(&json!({
                "event": "progress",
                "seconds": seconds,
                "bytes": there,
                "size": files.iter().map(|file| file.size).sum::<u64>(),
                "files": files.len(),
                "files_complete": files.iter().filter(|f| f.state == State::Stored).count(),
                "goodput_bps": 8.0 * self.bytes as f64 / seconds,
                "rate_bps": rate_bps,
                "guide": self.present.guide.map(named),
                "loss": loss,
            }));
        }
        self.said = Instant::now();
    }

    /// This connection is over.
    pub(super) fn keep(&mut self, sending: &Sending) {
        self.present = sending.report();
        self.connections += 1;
        self.past += self.present.counters;
    }

    /// The outcome. Whether all is there.
    pub(super) fn finish(&mut self, files: &[File], interrupted: bool) -> bool {
        self.bar.finish_and_clear();
        for file in files {
            let why = match &file.state {
                State::Stored => continue,
                State::Failed(why) => why.clone(),
                _ if interrupted => "interrupted; run the same command again to resume".into(),
                _ => "the receiver is gone; run the same command again to resume".into(),
            };
            self.complain(&format!("{}: {why}", file.name));
            if self.json {
                say(&json!({"event": "failed", "path": file.name, "why": why}));
            }
        }
        let complete = files.iter().all(|file| file.state == State::Stored);
        let seconds = self.began.elapsed().as_secs_f64();
        let SenderCounters { symbols, repairs, pieces, ect, ce, ecn, reports, unexpected, forged, replayed } =
            self.past;
        if self.json {
            let span_seconds = self.span.map(|(first, last, _)| last.duration_since(first).as_secs_f64());
            say(&json!({
                "event": "done",
                "complete": complete,
                "interrupted": interrupted,
                "bytes": self.bytes,
                "seconds": seconds,
                "span_seconds": span_seconds,
                "span_bytes": self.span.map(|(_, _, bytes)| bytes),
                "goodput_bps": 8.0 * self.bytes as f64 / seconds.max(1e-9),
                "symbols": symbols,
                "repairs": repairs,
                "pieces": pieces,
                "connections": self.connections,
                "path_bytes": self.present.path_bytes,
                "ect": ect,
                "ce": ce,
                "ecn": ecn.name(),
                "reports": reports,
                "unexpected": unexpected,
                "forged": forged,
                "replayed": replayed,
                "loss": self.present.loss,
                "rtt_us": self.present.rtt.as_micros() as u64,
            }));
        } else if !self.quiet {
            print(format_args!(
                "{} in {} ({:.1} Mbit/s), {symbols} symbols, {:.1} % lost",
                HumanBytes(self.bytes),
                HumanDuration(Duration::from_secs_f64(seconds)),
                8e-6 * self.bytes as f64 / seconds,
                100.0 * self.present.loss,
            ));
        }
        complete
    }
}

/// Says what would be sent. Whether that is all there is.
pub(super) fn dry_run(files: &[File], json: bool) -> bool {
    let (mut count, mut bytes, mut complete) = (0_u64, 0, true);
    for File { name, size, is_directory, state, .. } in files {
        if let State::Failed(why) = state {
            complete = false;
            complain(&format!("{name}: {why}"));
            if json {
                say(&json!({"event": "failed", "path": name, "why": why}));
            }
        } else if json {
            let kind = if *is_directory { "directory" } else { "file" };
            say(&json!({"event": "would_send", "path": name, "kind": kind, "size": size}));
        } else if *is_directory {
            print(format_args!("{:>10}  {}/", "", clean(name)));
        } else {
            print(format_args!("{:>10}  {}", HumanBytes(*size).to_string(), clean(name)));
        }
        if !is_directory && matches!(state, State::Waiting) {
            (count, bytes) = (count + 1, bytes + size);
        }
    }
    if json {
        say(&json!({"event": "done", "dry_run": true, "complete": complete, "files": count, "bytes": bytes}));
    } else {
        print(format_args!("{count} files, {} would be sent", HumanBytes(bytes)));
    }
    complete
}

fn named(guide: Guide) -> &'static str {
    match guide {
        Guide::Nobody => "nobody",
        Guide::Told => "told",
        Guide::Tfrc => "tfrc",
    }
}

/// Bytes of the files that are with the receiver, of what was there before as well.
fn there(files: &[File]) -> u64 {
    let bytes = |file: &File| match file.state {
        State::Stored => file.size,
        State::Going(there) => there,
        State::Waiting | State::Failed(_) => 0,
    };
    files.iter().map(bytes).sum()
}

//! One server as a client knows it: its handshake, its requests, when it is to be told what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use wire::packet::{Feedback, Kind, MAX_CREDITS, Probe, Symbol, Token};

use super::asked::Asked;
use super::turnaround::{LEAST_TURNAROUND, Turnaround};
use crate::ecn::{Codepoint, Counts};
use crate::packets::{Dropped, Packets};
use crate::path_mtu::MIN_BYTES;
use crate::pieces::Pieces;
use crate::protect::Protection;
use crate::{Time, tfrc};

/// Between the first two hellos, and between any two at most.
const HELLO_INTERVAL: Duration = Duration::from_millis(50);
const LONGEST_HELLO_INTERVAL: Duration = Duration::from_millis(500);
/// A server is told something at least so often while it serves: its own patience is not known here.
const LONGEST_QUIET: Duration = Duration::from_secs(1);
/// Symbols that credit is given for while nothing answers it.
const PROBE_SYMBOLS: u16 = 2;
/// Hellos that are as long as a symbol's datagram. Where they are not answered, perhaps the path carries no more than any path does.
const LONG_HELLOS: usize = 2;
/// Probes that wait for their answers at a time: more than a server sends in a round.
const MOST_ANSWERS: usize = 4;
/// Numbers that a symbol may come later than its turn without being taken for lost.
const LATE_NUMBERS: u64 = 32;

/// How far the connection has come.
pub(super) enum Stage {
    /// The control channel is not open.
    Opening,
    /// Its welcome has not come.
    Greeting,
    /// The data channel's welcome has not come: a hello counts as lost at `lost_at`, or none is out.
    Proving { token: Token, lost_at: Option<Time>, interval: Duration },
    /// Data can flow.
    Ready,
    /// It has ended.
    Gone,
}

/// A hello that went out.
struct Hello {
    number: u64,
    sent: Time,
    ahead_bytes: usize,
}

/// How long an answer took, and what may have been in the queue before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) took: Duration,
    pub(super) ahead_bytes: usize,
}

/// One server.
pub(super) struct Peer {
    pub(super) stage: Stage,
    was_open: bool,
    pub(super) packets: Packets,
    /// About the path, with numbers of their own; and how long the probes are that are to be answered.
    probes: Packets,
    answers: VecDeque<u16>,
    /// A probe has come, and nothing else since, while credit was out.
    stalled: bool,
    /// Symbols that come in pieces, in how many the last one came, and how long the last datagram was.
    pub(super) pieces: Pieces,
    datagrams: u8,
    datagram_bytes: usize,
    hellos: Vec<Hello>,
    /// The shortest that was seen.
    pub(super) rtt: Option<Duration>,
    pub(super) requests: BTreeMap<u16, Asked>,
    pub(super) next_request: u16,
    pub(super) receiver: tfrc::Receiver,
    report_due: bool,
    /// Blocks whose credit has changed, or that are complete.
    pub(super) credits_to_tell: BTreeSet<(u16, u32)>,
    /// Numbers of the server by which credit must have brought its symbols, with request and block.
    deadlines: BTreeSet<(u64, u16, u32)>,
    /// When the server was last heard, or could not be expected to speak; and when it was last told something.
    pub(super) heard: Time,
    told: Time,
    /// The last symbol's `sent_us`, and when it came.
    echo: Option<(u32, Time)>,
    turnaround: Turnaround,
    /// Credit was given then while none was out, and nothing has come since; what was under way from all servers.
    asked: Option<(Time, usize)>,
    /// When credit was given up last: what comes soon after may answer that (Karn's rule, RFC 6298, section 3).
    gave_up: Option<Time>,
    /// Symbols that credit was given for and that have neither come nor been given up.
    pub(super) outstanding: u32,
    /// When credit was last given or answered.
    progress: Time,
    report: super::ServerReport,
    /// About files, without an answer.
    questions: u32,
    highest: u64,
    arrived: u64,
    /// Of symbols.
    counts: Counts,
}

impl Peer {
    pub(super) fn new(now: Time, receiver: tfrc::Receiver) -> Self {
        Peer {
            stage: Stage::Opening,
            was_open: false,
            packets: Packets::new(0, Protection::insecure()),
            probes: Packets::new(0, Protection::insecure()),
            answers: VecDeque::new(),
            stalled: false,
            pieces: Pieces::default(),
            datagrams: 1,
            datagram_bytes: 0,
            hellos: Vec::new(),
            rtt: None,
            requests: BTreeMap::new(),
            next_request: 0,
            receiver,
            report_due: false,
            credits_to_tell: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            heard: now,
            told: now,
            echo: None,
            turnaround: Turnaround::default(),
            asked: None,
            gave_up: None,
            outstanding: 0,
            progress: now,
            report: super::ServerReport::default(),
            questions: 0,
            highest: 0,
            arrived: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// The control channel is open.
    pub(super) fn opened(&mut self, now: Time, protection: Protection, receiver: tfrc::Receiver) {
        (self.stage, self.was_open) = (Stage::Greeting, true);
        self.probes = Packets::new(0, protection.beside());
        (self.packets, self.receiver) = (Packets::new(0, protection), receiver);
        self.heard = now;
    }

    /// Whether it ever was.
    pub(super) fn was_open(&self) -> bool {
        self.was_open
    }

    pub(super) fn welcomed(&mut self, now: Time, connection: u32, token: Token) {
        self.packets.set_connection(connection);
        self.probes.set_connection(connection);
        self.stage = Stage::Proving { token, lost_at: None, interval: HELLO_INTERVAL };
        self.heard = now;
    }

    /// Whether a hello is to go.
    pub(super) fn hello_due(&self) -> bool {
        matches!(self.stage, Stage::Proving { lost_at: None, .. })
    }

    /// How many hellos went.
    pub(super) fn hellos(&self) -> usize {
        self.hellos.len()
    }

    /// When the hello that is out counts as lost.
    pub(super) fn hello_lost_at(&self) -> Option<Time> {
        if let Stage::Proving { lost_at, .. } = self.stage { lost_at } else { None }
    }

    /// The hello that is out is lost: another is to go.
    pub(super) fn hello_lost(&mut self) {
        if let Stage::Proving { lost_at, interval, .. } = &mut self.stage {
            (*lost_at, *interval) = (None, (*interval * 2).min(LONGEST_HELLO_INTERVAL));
        }
    }

    /// A hello as long as the server's longest datagram, or a short one after some of those.
    ///
    /// `ahead_bytes` are under way to this client.
    pub(super) fn hello(&mut self, now: Time, longest: usize, ahead_bytes: usize, out: &mut Vec<u8>) {
        let Stage::Proving { token, lost_at, interval } = &mut self.stage else { return };
        *lost_at = Some(now + *interval);
        let hello_bytes =
            if self.hellos.len() < LONG_HELLOS { longest } else { longest.min(MIN_BYTES.into()) };
        let end = (out.len() + hello_bytes).saturating_sub(self.packets.tag_bytes());
        let number = self.packets.seal(Kind::Hello, out, |_, out| {
            out.extend_from_slice(token);
            out.resize(end.max(out.len()), 0);
        });
        self.hellos.push(Hello { number, sent: now, ahead_bytes });
        self.told = now;
    }

    /// A welcome that answers the hello with this number; `None` if there was no such hello.
    pub(super) fn proven(&mut self, now: Time, hello: u64) -> Option<Sample> {
        let &Hello { sent, ahead_bytes, .. } = self.hellos.iter().find(|h| h.number == hello)?;
        let took = now.since(sent).max(Duration::from_micros(1));
        self.turnaround.sample(took);
        self.stage = Stage::Ready;
        self.hellos = Vec::new();
        Some(Sample { took, ahead_bytes })
    }

    /// A datagram that asks how much the path carries. Whether it is authentic.
    pub(super) fn on_probe(&mut self, now: Time, datagram: &mut [u8]) -> bool {
        let bytes = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
        if !self.is_ready() {
            return self.probes.unexpected::<()>().is_some();
        }
        let Some(number) = self.probes.open(&[Kind::Probe], datagram).map(|opened| opened.number) else {
            return false;
        };
        let fresh = self.probes.admit(number);
        if fresh {
            self.heard = now;
            if self.answers.len() < MOST_ANSWERS {
                self.answers.push_back(bytes);
            }
        }
        fresh
    }

    /// Whether what credit was given for does not come: it may have been too long for the path. Said once, until something comes.
    pub(super) fn has_stalled(&mut self, now: Time) -> bool {
        let came = self.echo.map_or(Time::ZERO, |(_, came)| came);
        let stalled = self.outstanding > 0 && now.since(came) >= LEAST_TURNAROUND;
        stalled && !std::mem::replace(&mut self.stalled, true)
    }

    /// A piece has come: datagram `number`, of `bytes`. If the one before was longer, what is missing between them was too long.
    pub(super) fn on_piece(&mut self, now: Time, number: u64, bytes: usize, of: u8) {
        self.report.pieces += 1;
        self.datagrams = of;
        if bytes < self.datagram_bytes && number > self.highest {
            self.highest = number - 1;
            self.receiver.forgive(now, number);
        }
    }

    /// A symbol has come, or a piece of it: datagram `number`, of `bytes`. How long it took, if nothing else was asked for before.
    pub(super) fn on_symbol(
        &mut self,
        now: Time,
        number: u64,
        bytes: usize,
        symbol: &Symbol,
        ecn: Codepoint,
    ) -> Option<Sample> {
        let Symbol { sent_us, rtt_us, .. } = *symbol;
        let rtt = Duration::from_micros(rtt_us.into());
        (self.datagram_bytes, self.stalled) = (bytes, false);
        self.counts.count(ecn);
        self.report_due |= self.receiver.on_packet(now, number, bytes as u32, rtt, ecn.is_ce());
        self.echo = Some((sent_us, now));
        let sample = self.asked.take().and_then(|(since, ahead_bytes)| {
            let took = now.since(since).max(Duration::from_micros(1));
            let ambiguous = self.gave_up.is_some_and(|at| now < at + self.turnaround.patience());
            self.turnaround.sample(took);
            (!ambiguous).then_some(Sample { took, ahead_bytes })
        });
        self.turnaround.answered();
        self.progress = now;
        sample
    }

    /// When credit that is out has to be given up.
    pub(super) fn gives_up_at(&self) -> Option<Time> {
        (self.outstanding > 0).then(|| self.progress + self.turnaround.patience())
    }

    /// Gives it up: whatever is still missing will be asked for anew, and the credit told again, since it may be the
    /// credit that was lost. Returns how many symbols that were.
    pub(super) fn give_up(&mut self, now: Time) -> u32 {
        self.turnaround.back_off();
        (self.asked, self.gave_up) = (None, Some(now));
        for (request, asked) in &mut self.requests {
            let blocks = asked.give_up().into_iter().map(|(block, _)| (*request, block));
            self.credits_to_tell.extend(blocks);
        }
        let given_up = std::mem::take(&mut self.outstanding);
        self.report.given_up += u64::from(given_up);
        given_up
    }

    /// Gives up symbols that others have overtaken so far that they are lost. Returns how many they were.
    pub(super) fn give_up_overdue(&mut self) -> u32 {
        let mut given_up = 0;
        while let Some(&(due, request, block)) =
            self.deadlines.first().filter(|(due, ..)| *due < self.highest)
        {
            self.deadlines.pop_first();
            let asked = self.requests.get_mut(&request);
            given_up += asked.map_or(0, |asked| u32::from(asked.overdue(block, due)));
        }
        if given_up > 0 {
            self.outstanding -= given_up;
            self.report.given_up += u64::from(given_up);
            self.gave_up = Some(self.progress);
        }
        given_up
    }

    /// A request is over. Returns what has come of it, if there was such a request.
    pub(super) fn remove(&mut self, request: u16) -> Option<Asked> {
        self.pieces.forget(request);
        self.requests.remove(&request)
    }

    /// A block that is to be given credit, and for how many symbols.
    pub(super) fn neediest(&mut self, max_blocks: usize) -> Option<(u16, u32, u16)> {
        // While nothing answers, asking for more and more would only use up what a block may have.
        let most = if self.turnaround.is_backed_off() { PROBE_SYMBOLS } else { u16::MAX };
        if !self.is_ready() || most == PROBE_SYMBOLS && self.outstanding > 0 {
            return None;
        }
        self.requests.iter_mut().find_map(|(request, asked)| {
            asked.neediest(max_blocks).map(|(block, symbols)| (*request, block, symbols.min(most)))
        })
    }

    /// Gives credit, while `ahead_bytes` are under way from all servers.
    pub(super) fn give(&mut self, now: Time, request: u16, block: u32, symbols: u16, ahead_bytes: usize) {
        let Some(asked) = self.requests.get_mut(&request) else { return };
        if self.outstanding == 0 {
            self.asked = Some((now, ahead_bytes));
            if !self.turnaround.is_backed_off() {
                self.heard = now;
            }
        }
        self.outstanding += u32::from(symbols);
        // A server may answer requests in turns: all that is out, twice over, comes before.
        let due = self.highest + 2 * u64::from(self.outstanding) * u64::from(self.datagrams) + LATE_NUMBERS;
        asked.give(block, symbols, due);
        self.deadlines.insert((due, request, block));
        self.progress = now;
        self.credits_to_tell.insert((request, block));
    }

    /// A request has gone out on the control channel.
    pub(super) fn spoke_by_control(&mut self, now: Time) {
        if self.requests.len() == 1 && !self.turnaround.is_backed_off() {
            self.heard = now;
        }
        self.told = now;
    }

    /// When the server counts as lost if nothing is heard of it.
    pub(super) fn lost_at(&self, silence: Duration, by_credit: bool) -> Option<Time> {
        let waits = match self.stage {
            Stage::Gone => false,
            Stage::Ready => {
                self.questions > 0 || self.requests.values().any(|asked| asked.is_owed(by_credit))
            }
            Stage::Opening | Stage::Greeting | Stage::Proving { .. } => true,
        };
        waits.then(|| self.heard + silence)
    }

    /// A question about files goes out.
    pub(super) fn asks(&mut self, now: Time) {
        if self.requests.is_empty() && self.questions == 0 {
            self.heard = now;
        }
        self.questions += 1;
    }

    /// Part of an answer to one has come, the last one perhaps.
    pub(super) fn answered(&mut self, last: bool) {
        self.questions = self.questions.saturating_sub(last.into());
    }

    /// A datagram has come. Whether some before it have not: gaps in their numbers are losses.
    pub(super) fn arrived(&mut self, number: u64) -> bool {
        let gap = self.arrived > 0 && number > self.highest + 1;
        self.arrived += 1;
        self.highest = self.highest.max(number);
        gap
    }

    /// A symbol was of use, or came late.
    pub(super) fn count(&mut self, useful: bool) {
        if useful { self.report.useful += 1 } else { self.report.late += 1 }
    }

    /// What came of it.
    pub(super) fn report(&self) -> super::ServerReport {
        let Dropped { unexpected, forged, replayed } = self.packets.dropped() + self.probes.dropped();
        // Numbers below the highest that never came.
        let missing = if self.arrived == 0 { 0 } else { (self.highest + 1).saturating_sub(self.arrived) };
        let Counts { ect, ce, .. } = self.counts;
        super::ServerReport { missing, ect, ce, unexpected, forged, replayed, ..self.report }
    }

    /// When something is to be said without any input, however little: reports, signs of life.
    pub(super) fn speaks_at(&self, silence: Duration) -> Option<Time> {
        match self.stage {
            Stage::Ready if !self.requests.is_empty() => {
                let alive = self.alive_at(silence);
                Some(self.receiver.poll_timeout().map_or(alive, |at| at.min(alive)))
            }
            _ => None,
        }
    }

    fn alive_at(&self, silence: Duration) -> Time {
        self.told + (silence / 4).min(LONGEST_QUIET)
    }

    fn has_to_speak(&self, now: Time, silence: Duration) -> bool {
        let told_late = || self.speaks_at(silence).is_some_and(|at| at <= now);
        self.is_ready() && (self.report_due || !self.credits_to_tell.is_empty()) || told_late()
    }

    /// The next answer to a probe, report, or credit, for the server.
    pub(super) fn poll_transmit(&mut self, now: Time, silence: Duration, out: &mut Vec<u8>) -> bool {
        // Before credit, so that the server knows how long what it sends may be.
        if let Some(bytes) = self.answers.pop_front() {
            self.probes.seal(Kind::Probe, out, |_, out| Probe { bytes }.emit(out));
            return true;
        }
        if !self.has_to_speak(now, silence) {
            return false;
        }
        if self.alive_at(silence) <= now {
            // A sign of life repeats what may have been lost.
            let all = self.requests.iter().flat_map(|(r, asked)| asked.credited().map(|b| (*r, b)));
            self.credits_to_tell.extend(all.take(MAX_CREDITS));
        }
        let feedback = self.feedback(now);
        self.packets.seal(Kind::Feedback, out, |_, out| feedback.emit(out));
        self.told = now;
        true
    }

    fn feedback(&mut self, now: Time) -> Feedback {
        let Counts { received, ect, ce } = self.counts;
        let mut feedback = Feedback { highest: self.highest, received, ect, ce, ..Feedback::default() };
        let timer = self.receiver.poll_timeout().is_some_and(|at| at <= now);
        if std::mem::take(&mut self.report_due) || timer {
            let report = self.receiver.report(now);
            self.report.loss_event_rate = report.loss_event_rate;
            if let Some((echo_us, at)) = self.echo {
                feedback.echo_us = echo_us;
                feedback.delay_us = now.since(at).as_micros().min(u128::from(u32::MAX)) as u32;
                feedback.x_recv = Some(report.x_recv as u64);
            }
            feedback.loss_event_rate = report.loss_event_rate;
        }
        while feedback.credits.len() < MAX_CREDITS {
            let Some((request, block)) = self.credits_to_tell.pop_first() else { break };
            let credit = self.requests.get(&request).map(|asked| asked.credit(request, block));
            // A request that is no more has had all its blocks, or was given up.
            feedback.credits.push(credit.unwrap_or(wire::packet::Credit { request, block, want: 0 }));
        }
        feedback
    }
}

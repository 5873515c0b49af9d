//! A peer: what is shared with it, and its flows.

use std::net::SocketAddr;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use wire::acc::{Content, Hello, Packet, Patience, Report};

use super::super::outbox::{Outbox, Way};
use super::super::packet::{FlowKey, Pair};
use super::super::redundancy::Scheduler;
use super::super::session::Session;
use super::super::{Coded, Feedback, LossRate, Receiver, ReceiverCounters, Sender, SenderCounters};
use super::{Config, FlowStatistics, PeerStatistics};
use crate::Time;
use crate::ecn::Codepoint;

/// A host that is asked is asked again after this time, and after twice and three times as much.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(50);
/// A peer that was sent to and says nothing is asked after this time.
pub(super) const SILENCE: Duration = Duration::from_millis(150);
/// A host that is no peer is not asked again before.
pub(super) const REFUSED: Duration = Duration::from_secs(30);
/// One that is to be one is.
const REFUSED_FIXED: Duration = Duration::from_secs(2);
/// Flows are looked through, for those that are idle.
pub(super) const SWEEP: Duration = Duration::from_secs(10);
/// What one packet more counts in a path's loss rate, which new flows begin with.
const PATH_WEIGHT: f64 = 1.0 / 128.0;
/// How long packets wait for a lost one at least.
const LEAST_PATIENCE: Duration = Duration::from_micros(300);

pub(super) struct Outgoing {
    pub(super) key: FlowKey,
    pub(super) sender: Sender,
    pub(super) used: Time,
    pub(super) armed: Option<Time>,
}

pub(super) struct Incoming {
    pub(super) key: Option<FlowKey>,
    pub(super) receiver: Receiver,
    pub(super) reported: Feedback,
    pub(super) patience: Patience,
    pub(super) used: Time,
    pub(super) armed: Option<Time>,
}

pub(super) struct Asked {
    pub(super) hello: Hello,
    pub(super) since: Time,
    pub(super) at: Time,
    pub(super) tries: u32,
}

/// What packets go out under.
pub(super) struct Link {
    pub(super) pair: Pair,
    /// The last is the newest; what is sent is sent under the one called `sending`.
    pub(super) sessions: Vec<Session>,
    pub(super) sending: Option<u32>,
    /// Bodies of packets are left in clear.
    pub(super) clear: bool,
}

pub(super) struct Peer {
    pub(super) link: Link,
    /// It is to be asked for ever.
    pub(super) fixed: bool,
    pub(super) up: bool,
    pub(super) asked: Option<Asked>,
    /// The last probe whose answer has come, or is not waited for any more.
    pub(super) was_asked: Option<Hello>,
    /// The last probe that was answered, and how.
    pub(super) answered: Option<(Hello, Hello)>,
    pub(super) refused_until: Option<Time>,
    pub(super) rekey: Time,
    pub(super) heard: Time,
    /// Since when there is no sign of life although something was sent.
    pub(super) unheard: Option<Time>,
    pub(super) swept: Time,
    pub(super) armed: Option<Time>,
    pub(super) loss: LossRate,
    /// What is lost of what comes: the way there may be no better, where little was sent.
    pub(super) lost_here: LossRate,
    pub(super) scheduler: Scheduler,
    pub(super) rtt: Option<Duration>,
    /// How long what follows on a lost packet is to wait for a coded one, for which the peer asks and is told.
    pub(super) patience: Patience,
    /// Flows are numbered from anywhere on, so that they are not taken for those of another process that was here before.
    pub(super) next_flow: u32,
    pub(super) outgoing: HashMap<u32, Outgoing>,
    pub(super) numbers: HashMap<FlowKey, u32>,
    pub(super) incoming: HashMap<u32, Incoming>,
    /// Incoming flows, by what goes the other way.
    pub(super) against: HashMap<FlowKey, u32>,
    pub(super) held_bytes: usize,
    pub(super) sent: u64,
    pub(super) came: u64,
    past_sender: SenderCounters,
    past_receiver: ReceiverCounters,
    past_lost: u64,
}

fn add_sender(to: &mut SenderCounters, one: SenderCounters) {
    to.at_ends += one.at_ends;
    to.on_losses += one.on_losses;
    to.timeouts_avoided += one.timeouts_avoided;
    (to.last_c1, to.last_c2, to.last_window) = (one.last_c1, one.last_c2, one.last_window);
}

fn add_receiver(to: &mut ReceiverCounters, one: ReceiverCounters) {
    to.came += one.came;
    to.coded += one.coded;
    to.useless += one.useless;
    to.recovered += one.recovered;
    to.impatient += one.impatient;
}

impl Link {
    /// Appends a packet under the present session. `body` appends what it carries.
    pub(super) fn write(
        &mut self,
        ecn: Codepoint,
        content: Content,
        report: Option<Report>,
        out: &mut Outbox,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let (sending, clear) = (self.sending, self.clear);
        let session = self.sessions.iter_mut().find(|session| Some(session.ours) == sending);
        let Some(session) = session else { return };
        out.write(way(&self.pair, session.port), ecn, |bytes| {
            let (begin, counter) = (bytes.len(), session.counter() as u32);
            let packet = Packet { report, content, body: &[] };
            let envelope = packet.emit(session.theirs, counter, clear, bytes);
            body(bytes);
            session.seal(&envelope, bytes, begin);
        });
    }

    pub(super) fn write_coded(&mut self, flow: u32, coded: &mut Vec<Coded>, out: &mut Outbox) {
        for Coded { first, count, seed, bytes } in coded.drain(..) {
            let content = Content::Coded { flow, first: first as u32, count: count as u8, seed };
            self.write(Codepoint::NotEct, content, None, out, |out| out.extend_from_slice(&bytes));
        }
    }

    /// Appends what is nothing but a report, or a sign of life.
    pub(super) fn write_empty(&mut self, report: Option<Report>, out: &mut Outbox) {
        self.write(Codepoint::NotEct, Content::Plain, report, out, |_| {});
    }
}

pub(super) fn way(pair: &Pair, port: u16) -> Way {
    Way { from: pair.local, to: SocketAddr::new(pair.remote, port) }
}

impl Peer {
    pub(super) fn new(pair: Pair, first_flow: u32, config: &Config, now: Time) -> Self {
        let (strategy, clear) = (config.strategy, config.clear);
        Peer {
            link: Link { pair, sessions: Vec::new(), sending: None, clear },
            fixed: false,
            up: false,
            asked: None,
            was_asked: None,
            answered: None,
            refused_until: None,
            rekey: now,
            heard: now,
            unheard: None,
            swept: now,
            armed: None,
            loss: LossRate::new(0.0, PATH_WEIGHT),
            lost_here: LossRate::new(0.0, PATH_WEIGHT),
            scheduler: strategy.scheduler(),
            rtt: None,
            patience: Patience::of(LEAST_PATIENCE),
            next_flow: first_flow,
            outgoing: HashMap::new(),
            numbers: HashMap::new(),
            incoming: HashMap::new(),
            against: HashMap::new(),
            held_bytes: 0,
            sent: 0,
            came: 0,
            past_sender: SenderCounters::default(),
            past_receiver: ReceiverCounters::default(),
            past_lost: 0,
        }
    }

    pub(super) fn on_rtt(&mut self, sample: Duration) {
        let rtt = self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8);
        self.rtt = Some(rtt);
        self.patience = Patience::of((rtt * 3 / 2).max(LEAST_PATIENCE));
    }

    /// Whether the path is congested, of whose packets so many are lost.
    pub(super) fn is_congested(&self, loss: f64) -> bool {
        self.rtt.is_some_and(|rtt| self.scheduler.is_congested(loss.max(self.loss.value()), rtt))
    }

    /// When its turn is.
    pub(super) fn due(&self) -> Option<Time> {
        let ask_again = self.asked.as_ref().map(|asked| asked.at + ASK_AGAIN * asked.tries);
        let silent = self.unheard.filter(|_| self.asked.is_none()).map(|since| since + SILENCE);
        let rekey = (self.up && self.asked.is_none()).then_some(self.rekey);
        let flows = !self.outgoing.is_empty() || !self.incoming.is_empty();
        let sweep = flows.then(|| self.swept + SWEEP);
        [ask_again, silent, rekey, sweep, self.refused_until].into_iter().flatten().min()
    }

    /// How long it is not asked if it is none.
    pub(super) fn refusal(&self) -> Duration {
        if self.fixed { REFUSED_FIXED } else { REFUSED }
    }

    pub(super) fn remove_incoming(&mut self, flow: u32) -> Option<Incoming> {
        let gone = self.incoming.remove(&flow)?;
        if let Some(key) = gone.key
            && self.against.get(&key.reversed()) == Some(&flow)
        {
            self.against.remove(&key.reversed());
        }
        self.held_bytes -= gone.receiver.held_bytes();
        add_receiver(&mut self.past_receiver, gone.receiver.counters());
        self.past_lost += gone.receiver.feedback().lost;
        Some(gone)
    }

    pub(super) fn remove_outgoing(&mut self, flow: u32) {
        if let Some(gone) = self.outgoing.remove(&flow) {
            self.numbers.remove(&gone.key);
            add_sender(&mut self.past_sender, gone.sender.counters());
        }
    }

    pub(super) fn statistics(&self) -> PeerStatistics {
        let (mut sender, mut receiver, mut lost) = (self.past_sender, self.past_receiver, self.past_lost);
        for one in self.outgoing.values() {
            add_sender(&mut sender, one.sender.counters());
        }
        for one in self.incoming.values() {
            add_receiver(&mut receiver, one.receiver.counters());
            lost += one.receiver.feedback().lost;
        }
        let flow = |one: &Outgoing| FlowStatistics {
            key: one.key,
            loss: one.sender.loss(),
            queue: self.scheduler.queue(),
            sender: one.sender.counters(),
        };
        PeerStatistics {
            pair: self.link.pair,
            up: self.up,
            rtt: self.rtt,
            loss: self.loss.value(),
            sent: self.sent,
            came: self.came,
            sender,
            receiver,
            lost,
            flows: self.outgoing.values().map(flow).collect(),
            held_bytes: self.held_bytes,
        }
    }
}

impl Incoming {
    /// What its sender is to be told now.
    pub(super) fn report(&mut self, flow: u32) -> Report {
        let Feedback { next, through, lost } = self.receiver.feedback();
        self.reported = self.receiver.feedback();
        let ahead = u16::try_from(through - next).unwrap_or(u16::MAX);
        Report { flow, next: next as u32, ahead, lost: lost as u32 }
    }
}

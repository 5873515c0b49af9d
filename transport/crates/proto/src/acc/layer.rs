//! The layer of a host: its peers, their flows, and what goes between them.
//!
//! Peers are found by probes. A host that does not answer is none, and its packets never come here: whoever drives the layer gives it packets only
//! to peers of which [`Event::Up`] was told, until [`Event::Down`] is. A peer of which nothing is heard while it is sent to is asked
//! again, and is none any more if it does not answer: then TCP's packets go their old way, and TCP sends again what is missing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use codec::rlnc::MAX_BYTES;
use foldhash::{HashMap, HashMapExt};
use wire::acc::{
    Content, Datagram, Envelope, HELLO_BYTES, Hello, MAX_SESSION, NUMBERED_BYTES, PACKET_BYTES, Packet,
    Patience, REPORT_BYTES, Report, TAG_BYTES,
};

use super::outbox::{Outbox, Way};
use super::packet::{self, FlowKey, Look, Pair};
use super::redundancy::Scheduler;
use super::session::{KEY_BYTES, Nonces, Session, SharedKey, near};
use super::{Coded, Feedback, LossRate, Receiver, ReceiverCounters, Sender, SenderCounters, Strategy};
use crate::ecn::Codepoint;
use crate::{Agenda, Time};

/// A peer is asked so many times; each time the next one comes later.
const TRIES: u32 = 3;
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// A peer that was sent to and says nothing is asked after this time.
const SILENCE: Duration = Duration::from_millis(150);
/// A host that is no peer is not asked again before.
const REFUSED: Duration = Duration::from_secs(30);
/// One that is to be one is.
const REFUSED_FIXED: Duration = Duration::from_secs(2);
/// Keys are used for so long.
const REKEY: Duration = Duration::from_secs(3600);
/// Flows that nothing was sent in for so long are forgotten.
const IDLE: Duration = Duration::from_secs(60);
const SWEEP: Duration = Duration::from_secs(10);
/// Sessions of a peer: packets under older keys are still on their way.
const MOST_SESSIONS: usize = 3;
/// What one packet more counts in a path's loss rate, which new flows begin with.
const PATH_WEIGHT: f64 = 1.0 / 128.0;
/// How long packets wait for a lost one at least.
const LEAST_PATIENCE: Duration = Duration::from_micros(300);

/// How the layer works.
#[derive(Clone, Debug)]
pub struct Config {
    /// What all hosts share.
    pub key: [u8; KEY_BYTES],
    /// How many coded packets are sent.
    pub strategy: Strategy,
    /// How long packets that follow on a lost one are kept back, at most; senders ask for one and a half round trips.
    pub most_patience: Duration,
    /// Where peers listen.
    pub port: u16,
    /// Peers at most.
    pub max_peers: usize,
    /// Flows of a peer at most, in each direction. The packets of others are carried, and neither numbered nor coded.
    pub max_flows: usize,
    /// Bytes that peers make the layer hold at most, for recovery; the flow that was used least recently is forgotten for others.
    pub max_held_bytes: usize,
    /// Whether to leave TCP's packets in clear, and authenticate what is in front of them alone.
    pub clear: bool,
    /// Bytes of a datagram at most.
    pub max_datagram_bytes: usize,
}

impl Config {
    /// The usual bounds.
    pub fn new(key: [u8; KEY_BYTES], strategy: Strategy) -> Self {
        Config {
            key,
            strategy,
            most_patience: Duration::from_millis(10),
            port: DEFAULT_PORT,
            max_peers: 4096,
            max_flows: 4096,
            max_held_bytes: 256 << 20,
            clear: false,
            max_datagram_bytes: 1472,
        }
    }
}

/// Where hosts listen if nothing else is said.
pub const DEFAULT_PORT: u16 = 4881;

/// What whoever drives the layer has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host is a peer: its packets are to be given to the layer.
    Up(Pair),
    /// It is none any more.
    Down(Pair, Why),
}

/// Why a host is no peer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It does not answer.
    Silent,
    /// It says that nobody listens there.
    Unreachable,
    /// It has said farewell.
    Left,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Why::Silent => "it does not answer",
            Why::Unreachable => "nobody listens there",
            Why::Left => "it has ended",
        })
    }
}

/// What has become of datagrams and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that are none of the layer's.
    pub malformed: u64,
    /// Of a session that there is not, or not any more.
    pub unknown: u64,
    /// Not made by the peer, changed on the way, or replayed.
    pub forged: u64,
    /// Probes and answers that had another key, or that nobody has asked for.
    pub refused: u64,
    /// Packets for hosts that are no peers.
    pub strayed: u64,
    /// Packets that were carried without a number, as their peer had too many flows.
    pub unnumbered: u64,
    /// Flows that were forgotten for others.
    pub evicted: u64,
}

/// A peer, for people and for metrics.
#[derive(Clone, Debug)]
pub struct PeerStatistics {
    /// Which.
    pub pair: Pair,
    /// Whether it is one at present.
    pub up: bool,
    /// The round trip.
    pub rtt: Option<Duration>,
    /// Shares of packets lost: what we send, as it reports.
    pub loss: f64,
    /// Packets of TCP sent to it, with a number and without.
    pub sent: u64,
    /// And those that came.
    pub came: u64,
    /// What senders have done, all flows.
    pub sender: SenderCounters,
    /// What receivers have done, all flows.
    pub receiver: ReceiverCounters,
    /// What of its packets we have missed (d), all flows.
    pub lost: u64,
    /// Flows to it.
    pub flows: Vec<FlowStatistics>,
    /// Bytes that are held of what it has sent.
    pub held_bytes: usize,
}

/// A flow that is sent.
#[derive(Clone, Copy, Debug)]
pub struct FlowStatistics {
    /// Which.
    pub key: FlowKey,
    /// The loss rate p.
    pub loss: f64,
    /// Q.
    pub queue: f64,
    /// What its sender has done.
    pub sender: SenderCounters,
}

/// Who takes carried packets that have come; see [`packet::restore`].
pub type Deliver<'a> = &'a mut dyn FnMut(&Pair, Codepoint, &[u8]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Role {
    Peer,
    Outgoing(u32),
    Incoming(u32),
}

type Turn = (Pair, Role);

struct Outgoing {
    key: FlowKey,
    sender: Sender,
    used: Time,
    armed: Option<Time>,
}

struct Incoming {
    key: Option<FlowKey>,
    receiver: Receiver,
    reported: Feedback,
    patience: Patience,
    used: Time,
    armed: Option<Time>,
}

struct Asked {
    hello: Hello,
    since: Time,
    at: Time,
    tries: u32,
}

/// What packets go out under.
struct Link {
    pair: Pair,
    /// The last is the newest; what is sent is sent under the one called `sending`.
    sessions: Vec<Session>,
    sending: Option<u32>,
    /// Bodies of packets are left in clear.
    clear: bool,
}

struct Peer {
    link: Link,
    /// It is to be asked for ever.
    fixed: bool,
    up: bool,
    asked: Option<Asked>,
    /// The last probe that was answered, and how.
    answered: Option<(Hello, Hello)>,
    refused_until: Option<Time>,
    rekey: Time,
    heard: Time,
    /// Since when there is no sign of life although something was sent.
    unheard: Option<Time>,
    swept: Time,
    armed: Option<Time>,
    loss: LossRate,
    /// What is lost of what comes: the way there may be no better, where little was sent.
    lost_here: LossRate,
    scheduler: Scheduler,
    rtt: Option<Duration>,
    shortest_rtt: Duration,
    /// How long what follows on a lost packet is to wait for a coded one, for which the peer asks and is told.
    patience: Patience,
    /// Flows are numbered from anywhere on, so that they are not taken for those of another process that was here before.
    next_flow: u32,
    outgoing: HashMap<u32, Outgoing>,
    numbers: HashMap<FlowKey, u32>,
    incoming: HashMap<u32, Incoming>,
    /// Incoming flows, by what goes the other way.
    against: HashMap<FlowKey, u32>,
    held_bytes: usize,
    sent: u64,
    came: u64,
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
    fn write(
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

    fn write_coded(&mut self, flow: u32, coded: &mut Vec<Coded>, out: &mut Outbox) {
        for Coded { first, count, seed, bytes } in coded.drain(..) {
            let content = Content::Coded { flow, first: first as u32, count: count as u8, seed };
            self.write(Codepoint::NotEct, content, None, out, |out| out.extend_from_slice(&bytes));
        }
    }

    /// Appends what is nothing but a report, or a sign of life.
    fn write_empty(&mut self, report: Option<Report>, out: &mut Outbox) {
        self.write(Codepoint::NotEct, Content::Plain, report, out, |_| {});
    }
}

fn way(pair: &Pair, port: u16) -> Way {
    Way { from: pair.local, to: SocketAddr::new(pair.remote, port) }
}

impl Peer {
    fn new(pair: Pair, first_flow: u32, config: &Config, now: Time) -> Self {
        let (strategy, clear) = (config.strategy, config.clear);
        Peer {
            link: Link { pair, sessions: Vec::new(), sending: None, clear },
            fixed: false,
            up: false,
            asked: None,
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
            shortest_rtt: Duration::MAX,
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

    fn on_rtt(&mut self, sample: Duration) {
        self.shortest_rtt = self.shortest_rtt.min(sample);
        let rtt = self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8);
        self.rtt = Some(rtt);
        self.patience = Patience::of((rtt * 3 / 2).max(LEAST_PATIENCE));
    }

    /// Whether the path is congested, of whose packets so many are lost.
    fn is_congested(&self, loss: f64) -> bool {
        let shortest = self.shortest_rtt.max(Duration::from_micros(1));
        let stretch = self.rtt.map_or(1.0, |rtt| rtt.as_secs_f64() / shortest.as_secs_f64());
        self.scheduler.is_congested(loss.max(self.loss.value()), stretch)
    }

    /// When its turn is.
    fn due(&self) -> Option<Time> {
        let ask_again = self.asked.as_ref().map(|asked| asked.at + ASK_AGAIN * asked.tries);
        let silent = self.unheard.filter(|_| self.asked.is_none()).map(|since| since + SILENCE);
        let rekey = (self.up && self.asked.is_none()).then_some(self.rekey);
        let flows = !self.outgoing.is_empty() || !self.incoming.is_empty();
        let sweep = flows.then(|| self.swept + SWEEP);
        [ask_again, silent, rekey, sweep, self.refused_until].into_iter().flatten().min()
    }

    /// How long it is not asked if it is none.
    fn refusal(&self) -> Duration {
        if self.fixed { REFUSED_FIXED } else { REFUSED }
    }

    fn remove_incoming(&mut self, flow: u32) -> Option<Incoming> {
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

    fn remove_outgoing(&mut self, flow: u32) {
        if let Some(gone) = self.outgoing.remove(&flow) {
            self.numbers.remove(&gone.key);
            add_sender(&mut self.past_sender, gone.sender.counters());
        }
    }

    fn statistics(&self) -> PeerStatistics {
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
    fn report(&mut self, flow: u32) -> Report {
        let Feedback { next, through, lost } = self.receiver.feedback();
        self.reported = self.receiver.feedback();
        let ahead = u16::try_from(through - next).unwrap_or(u16::MAX);
        Report { flow, next: next as u32, ahead, lost: lost as u32 }
    }
}

/// The layer of a host.
pub struct Layer {
    config: Config,
    key: SharedKey,
    nonces: Nonces,
    peers: HashMap<Pair, Peer>,
    sessions: HashMap<u32, Pair>,
    next_session: u32,
    agenda: Agenda<Turn>,
    events: VecDeque<Event>,
    counters: Counters,
    held_bytes: usize,
    coded: Vec<Coded>,
}

impl Layer {
    /// One without peers. `seed` is to be like no other: nonces come from it.
    pub fn new(config: Config, seed: &[u8; 32]) -> Self {
        Layer {
            key: SharedKey::new(&config.key),
            nonces: Nonces::new(seed),
            config,
            peers: HashMap::new(),
            sessions: HashMap::new(),
            next_session: u32::from_be_bytes([0, seed[0], seed[1], seed[2]]),
            agenda: Agenda::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            held_bytes: 0,
            coded: Vec::new(),
        }
    }

    /// Asks whether a host is a peer, unless that is known. `for_ever`: it is asked again and again. Nothing happens if there are too many.
    pub fn look_for(&mut self, now: Time, pair: Pair, for_ever: bool, out: &mut Outbox) {
        let is_new = !self.peers.contains_key(&pair);
        if is_new && !self.has_room() {
            return;
        }
        let (nonces, config) = (&mut self.nonces, &self.config);
        let peer =
            self.peers.entry(pair).or_insert_with(|| Peer::new(pair, nonces.next_number(), config, now));
        peer.fixed |= for_ever;
        if is_new {
            self.ask(now, &pair, out);
        }
    }

    /// The host sends a packet, whose headers are in `head`. False: it is for nobody who is a peer.
    pub fn send(&mut self, now: Time, look: &Look, head: &[u8], rest: &[u8], out: &mut Outbox) -> bool {
        let Some(peer) = self.peers.get_mut(&look.pair).filter(|peer| peer.up) else {
            self.counters.strayed += 1;
            return false;
        };
        let (carried, config) = (look.carried_bytes(head.len() + rest.len()), &self.config);
        // What is not among the headers is data. No IP packet is too long to be coded, but with what is in front of it one may be.
        let is_numbered = (look.matters || !rest.is_empty()) && carried <= MAX_BYTES;
        let flow = look.flow.filter(|_| is_numbered);
        let number = flow.and_then(|key| match peer.numbers.get(&key) {
            Some(number) => Some(*number),
            None if peer.outgoing.len() < config.max_flows => {
                let number = peer.next_flow;
                peer.next_flow = number.wrapping_add(1);
                let loss = peer.loss.value().max(peer.lost_here.value());
                let mut sender = Sender::new(config.strategy, loss);
                sender.set_congested(peer.is_congested(0.0));
                peer.numbers.insert(key, number);
                peer.outgoing.insert(number, Outgoing { key, sender, used: now, armed: None });
                Some(number)
            }
            None => {
                self.counters.unnumbered += 1;
                None
            }
        });
        let bytes = PACKET_BYTES + number.map_or(0, |_| NUMBERED_BYTES) + carried + TAG_BYTES;
        let report = look.flow.filter(|_| bytes + REPORT_BYTES <= config.max_datagram_bytes);
        let report = report.and_then(|key| {
            let flow = *peer.against.get(&key)?;
            let incoming = peer.incoming.get_mut(&flow)?;
            (incoming.receiver.feedback() != incoming.reported).then(|| incoming.report(flow))
        });
        peer.sent += 1;
        let patience = peer.patience;
        let Some((flow, outgoing)) = number.and_then(|flow| Some((flow, peer.outgoing.get_mut(&flow)?)))
        else {
            let body = |out: &mut Vec<u8>| look.carry(head, rest, out);
            peer.link.write(look.ecn, Content::Plain, report, out, body);
            return true;
        };
        outgoing.used = now;
        let (number, base) = (outgoing.sender.next_number(), outgoing.sender.base());
        let back = (number - base).try_into().unwrap_or(u16::MAX);
        let patience = if outgoing.sender.waits() { patience } else { Patience::NONE };
        let content = Content::Numbered { flow, number: number as u32, back, patience };
        peer.link.write(look.ecn, content, report, out, |out| {
            let at = out.len();
            look.carry(head, rest, out);
            outgoing.sender.on_packet(now, &out[at..]);
        });
        let turn = (look.pair, Role::Outgoing(flow));
        arm(&mut self.agenda, turn, &mut outgoing.armed, outgoing.sender.poll_timeout());
        if peer.unheard.is_none() {
            peer.unheard = Some(now);
            let due = peer.due();
            arm(&mut self.agenda, (look.pair, Role::Peer), &mut peer.armed, due);
        }
        true
    }

    /// A datagram has come over `pair`, from this port, with this mark.
    #[allow(clippy::too_many_arguments)]
    pub fn receive(
        &mut self,
        now: Time,
        pair: Pair,
        port: u16,
        ecn: Codepoint,
        datagram: &mut [u8],
        out: &mut Outbox,
        deliver: Deliver<'_>,
    ) {
        match Datagram::parse(datagram) {
            Err(_) => self.counters.malformed += 1,
            Ok(Datagram::Hello(hello, covered, code)) => {
                let done = match hello.answers {
                    None => self.on_probe(now, pair, port, hello, covered, &code, out),
                    Some(_) => self.on_answer(now, pair, port, hello, covered, &code, out),
                };
                if done.is_none() {
                    self.counters.refused += 1;
                }
            }
            Ok(Datagram::Packet(envelope)) => {
                self.on_packet(now, pair, ecn, &envelope, datagram, out, deliver)
            }
        }
    }

    /// The system says that nobody listens at a host.
    pub fn unreachable(&mut self, now: Time, remote: std::net::IpAddr) {
        // Anybody can have said so on behalf of a peer that is heard of; TCP would lose nothing but its spare packets by it.
        let gone: Vec<Pair> = self.peers.keys().filter(|pair| pair.remote == remote).copied().collect();
        for pair in gone {
            self.refuse(now, &pair, Why::Unreachable);
        }
    }

    /// Tells all peers that this is the end.
    pub fn leave(&mut self, out: &mut Outbox) {
        for peer in self.peers.values_mut().filter(|peer| peer.up) {
            peer.link.write(Codepoint::NotEct, Content::Farewell, None, out, |_| {});
        }
    }

    /// The next thing that has happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Layer::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox, deliver: Deliver<'_>) {
        for (pair, role) in self.agenda.take(now) {
            match role {
                Role::Peer => self.handle_peer(now, &pair, out),
                Role::Outgoing(flow) => self.handle_outgoing(now, pair, flow, out),
                Role::Incoming(flow) => self.handle_incoming(now, pair, flow, deliver),
            }
        }
    }

    /// What has become of datagrams and packets.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes that are held of what peers have sent.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// All peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatistics> + '_ {
        self.peers.values().map(Peer::statistics)
    }

    fn has_room(&mut self) -> bool {
        if self.peers.len() >= self.config.max_peers {
            // Those who are none make room for those who may be.
            let refused = self.peers.values().find(|peer| peer.refused_until.is_some() && !peer.fixed);
            let Some(pair) = refused.map(|peer| peer.link.pair) else { return false };
            self.forget(&pair);
        }
        true
    }

    /// Knows nothing more of a host that is no peer.
    fn forget(&mut self, pair: &Pair) {
        if let Some(peer) = self.peers.remove(pair) {
            for session in peer.link.sessions {
                self.sessions.remove(&session.ours);
            }
        }
        self.agenda.remove((*pair, Role::Peer));
    }

    fn new_session(&mut self, pair: Pair) -> u32 {
        loop {
            self.next_session = (self.next_session + 1) & MAX_SESSION;
            if let std::collections::hash_map::Entry::Vacant(entry) = self.sessions.entry(self.next_session) {
                entry.insert(pair);
                return self.next_session;
            }
        }
    }

    fn ask(&mut self, now: Time, pair: &Pair, out: &mut Outbox) {
        let session = self.new_session(*pair);
        let hello = Hello { session, answers: None, nonce: self.nonces.next() };
        let Some(peer) = self.peers.get_mut(pair) else { return };
        peer.refused_until = None;
        peer.asked = Some(Asked { hello, since: now, at: now, tries: 1 });
        self.say(pair, self.config.port, &hello, None, out);
        self.rearm(pair);
    }

    /// Sends a probe, or an answer to one.
    fn say(&self, pair: &Pair, port: u16, hello: &Hello, asked: Option<&Hello>, out: &mut Outbox) {
        out.write(way(pair, port), Codepoint::NotEct, |bytes| {
            let begin = bytes.len();
            hello.emit(bytes);
            let code = self.key.code(pair, &bytes[begin..], asked.map(|asked| &asked.nonce[..]));
            bytes.extend(code);
            debug_assert_eq!(bytes.len() - begin, HELLO_BYTES);
        });
    }

    fn rearm(&mut self, pair: &Pair) {
        if let Some(peer) = self.peers.get_mut(pair) {
            let due = peer.due();
            peer.armed = due;
            self.agenda.set((*pair, Role::Peer), due);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn on_probe(
        &mut self,
        now: Time,
        pair: Pair,
        port: u16,
        hello: Hello,
        covered: &[u8],
        code: &[u8; 16],
        out: &mut Outbox,
    ) -> Option<()> {
        self.key.verify(&pair, covered, None, code).ok()?;
        if !self.peers.contains_key(&pair) && !self.has_room() {
            return None;
        }
        let (nonces, config) = (&mut self.nonces, &self.config);
        let peer =
            self.peers.entry(pair).or_insert_with(|| Peer::new(pair, nonces.next_number(), config, now));
        let before = peer.answered.filter(|(asked, _)| *asked == hello).map(|(_, answer)| answer);
        let answer = match before {
            Some(answer) => answer,
            None => {
                // If nothing follows, it is none.
                let until = now + peer.refusal();
                peer.refused_until = (!peer.up && peer.asked.is_none()).then_some(until);
                let session = self.new_session(pair);
                let answer =
                    Hello { session: hello.session, answers: Some(session), nonce: self.nonces.next() };
                let keys = self.key.session(&pair, port, &hello, &answer, false, session);
                self.add_session(&pair, keys);
                self.peers.get_mut(&pair)?.answered = Some((hello, answer));
                answer
            }
        };
        self.say(&pair, port, &answer, Some(&hello), out);
        self.rearm(&pair);
        Some(())
    }

    #[allow(clippy::too_many_arguments)]
    fn on_answer(
        &mut self,
        now: Time,
        pair: Pair,
        port: u16,
        hello: Hello,
        covered: &[u8],
        code: &[u8; 16],
        out: &mut Outbox,
    ) -> Option<()> {
        let peer = self.peers.get_mut(&pair)?;
        let asked = peer.asked.take_if(|asked| asked.hello.session == hello.session)?;
        if self.key.verify(&pair, covered, Some(&asked.hello.nonce), code).is_err() {
            peer.asked = Some(asked);
            return None;
        }
        if asked.tries == 1 {
            peer.on_rtt(now.since(asked.at));
        }
        let keys = self.key.session(&pair, port, &asked.hello, &hello, true, asked.hello.session);
        self.add_session(&pair, keys);
        self.confirm(now, pair, asked.hello.session);
        // The other one sends under these keys only when it has seen them used.
        self.peers.get_mut(&pair)?.link.write_empty(None, out);
        self.rearm(&pair);
        Some(())
    }

    fn add_session(&mut self, pair: &Pair, session: Session) {
        let Some(peer) = self.peers.get_mut(pair) else { return };
        let Link { sessions, sending, .. } = &mut peer.link;
        sessions.push(session);
        while sessions.len() > MOST_SESSIONS {
            let unused = sessions.iter().position(|one| Some(one.ours) != *sending);
            let gone = sessions.remove(unused.unwrap_or(0));
            self.sessions.remove(&gone.ours);
        }
    }

    /// The peer has the keys of this session, too.
    fn confirm(&mut self, now: Time, pair: Pair, session: u32) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let Link { sessions, sending, .. } = &mut peer.link;
        let at = |ours: Option<u32>| sessions.iter().position(|one| Some(one.ours) == ours);
        // Whichever is newer.
        if at(Some(session)) > at(*sending) {
            *sending = Some(session);
            peer.rekey = now + REKEY;
        }
        peer.unheard = None;
        if !peer.up {
            peer.up = true;
            peer.refused_until = None;
            self.events.push_back(Event::Up(pair));
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn on_packet(
        &mut self,
        now: Time,
        pair: Pair,
        ecn: Codepoint,
        envelope: &Envelope,
        datagram: &mut [u8],
        out: &mut Outbox,
        deliver: Deliver<'_>,
    ) {
        let known = self.sessions.get(&envelope.session) == Some(&pair);
        let peer = self.peers.get_mut(&pair).filter(|_| known);
        let session =
            peer.and_then(|peer| peer.link.sessions.iter_mut().find(|one| one.ours == envelope.session));
        let Some(session) = session else {
            self.counters.unknown += 1;
            return;
        };
        let Ok(opened) = session.open(envelope, datagram) else {
            self.counters.forged += 1;
            return;
        };
        self.heard(now, pair, envelope.session);
        let Ok(packet) = Packet::parse(envelope, opened) else {
            self.counters.malformed += 1;
            return;
        };
        if let Some(report) = packet.report {
            self.on_report(now, pair, report, out);
        }
        match packet.content {
            Content::Farewell => self.refuse(now, &pair, Why::Left),
            Content::Plain => {
                if !packet.body.is_empty() {
                    if let Some(peer) = self.peers.get_mut(&pair) {
                        peer.came += 1;
                    }
                    deliver(&pair, ecn, packet.body);
                }
            }
            Content::Numbered { .. } | Content::Coded { .. } => {
                self.on_flow(now, pair, ecn, &packet, out, deliver);
            }
        }
    }

    fn heard(&mut self, now: Time, pair: Pair, session: u32) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        (peer.heard, peer.unheard) = (now, None);
        if !peer.up || peer.link.sending != Some(session) {
            self.confirm(now, pair, session);
        }
    }

    fn on_report(&mut self, now: Time, pair: Pair, report: Report, out: &mut Outbox) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let Some(loss) = peer.outgoing.get(&report.flow).map(|one| one.sender.loss()) else { return };
        let congested = peer.is_congested(loss);
        let Some(outgoing) = peer.outgoing.get_mut(&report.flow) else { return };
        let sender = &mut outgoing.sender;
        sender.set_congested(congested);
        let feedback = feedback_of(&report, sender.base(), sender.lost());
        let mut coded = std::mem::take(&mut self.coded);
        let told = sender.on_feedback(now, feedback, &mut peer.scheduler, &mut coded);
        peer.loss.on_packets(told.sent, told.lost);
        peer.link.write_coded(report.flow, &mut coded, out);
        self.coded = coded;
        let turn = (pair, Role::Outgoing(report.flow));
        arm(&mut self.agenda, turn, &mut outgoing.armed, outgoing.sender.poll_timeout());
        if let Some(rtt) = told.rtt {
            peer.on_rtt(rtt);
        }
    }

    /// A packet of a flow, or a coded one.
    fn on_flow(
        &mut self,
        now: Time,
        pair: Pair,
        ecn: Codepoint,
        packet: &Packet<'_>,
        out: &mut Outbox,
        deliver: Deliver<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let (flow, first) = match packet.content {
            Content::Numbered { flow, number, back, .. } => {
                (flow, u64::from(number).saturating_sub(back.into()))
            }
            Content::Coded { flow, first, .. } => (flow, first.into()),
            Content::Plain | Content::Farewell => return,
        };
        if !peer.incoming.contains_key(&flow) {
            if peer.incoming.len() >= self.config.max_flows {
                self.evict(pair, deliver);
            }
            let Some(peer) = self.peers.get_mut(&pair) else { return };
            let receiver = Receiver::starting(first, Duration::ZERO);
            let reported = receiver.feedback();
            let patience = Patience::NONE;
            let one = Incoming { key: None, receiver, reported, patience, used: now, armed: None };
            peer.incoming.insert(flow, one);
        }
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let Some(incoming) = peer.incoming.get_mut(&flow) else { return };
        incoming.used = now;
        let receiver = &mut incoming.receiver;
        let (held, before) = (receiver.held_bytes(), receiver.feedback());
        if let Content::Numbered { patience, .. } = packet.content
            && patience != incoming.patience
        {
            incoming.patience = patience;
            receiver.set_patience(patience.time().min(self.config.most_patience));
        }
        let mut hand_on = |bytes: &[u8]| deliver(&pair, ecn, bytes);
        match packet.content {
            Content::Numbered { number, back, .. } => {
                let number = near(number, receiver.feedback().through);
                let base = number.saturating_sub(back.into());
                receiver.on_packet(now, number, base, packet.body, &mut hand_on);
                peer.came += 1;
                if incoming.key.is_none() {
                    incoming.key = packet::flow_of(&pair, packet.body);
                    if let Some(key) = incoming.key {
                        peer.against.insert(key.reversed(), flow);
                    }
                }
            }
            Content::Coded { first, count, seed, .. } => {
                let first = near(first, receiver.feedback().through);
                let coded = Coded { first, count: count.into(), seed, bytes: packet.body.to_vec() };
                // What is of no use is counted.
                let _ = receiver.on_coded(now, &coded, &mut hand_on);
            }
            Content::Plain | Content::Farewell => {}
        }
        let (held_now, after) = (incoming.receiver.held_bytes(), incoming.receiver.feedback());
        peer.lost_here.on_packets(after.through - before.through, after.lost - before.lost);
        let turn = (pair, Role::Incoming(flow));
        let due = incoming.receiver.poll_timeout();
        if due != incoming.armed {
            incoming.armed = due;
            self.agenda.set(turn, due);
        }
        // A sender that does not repair is told of losses with the next acknowledgement.
        let feedback = incoming.receiver.feedback();
        let is_news = incoming.receiver.waits() && feedback.lost > incoming.reported.lost;
        peer.held_bytes = peer.held_bytes + held_now - held;
        self.held_bytes = self.held_bytes + held_now - held;
        if is_news && let Some(incoming) = peer.incoming.get_mut(&flow) {
            peer.link.write_empty(Some(incoming.report(flow)), out);
        }
        while self.held_bytes > self.config.max_held_bytes && self.evict(pair, deliver) {}
        if let Some(peer) = self.peers.get_mut(&pair).filter(|peer| peer.armed.is_none()) {
            // Flows are looked through now and then.
            let due = peer.due();
            arm(&mut self.agenda, (pair, Role::Peer), &mut peer.armed, due);
        }
    }

    /// Forgets the incoming flow that was used least recently. What waits in it is handed on. False: there is none.
    fn evict(&mut self, pair: Pair, deliver: Deliver<'_>) -> bool {
        let Some(peer) = self.peers.get_mut(&pair) else { return false };
        let oldest = peer.incoming.iter().min_by_key(|(_, one)| one.used).map(|(flow, _)| *flow);
        let Some(flow) = oldest else { return false };
        self.counters.evicted += 1;
        let before = peer.held_bytes;
        let gone = peer.remove_incoming(flow);
        self.held_bytes -= before - peer.held_bytes;
        self.agenda.remove((pair, Role::Incoming(flow)));
        if let Some(mut gone) = gone {
            gone.receiver.give_up(&mut |bytes| deliver(&pair, Codepoint::NotEct, bytes));
        }
        true
    }

    /// A host is no peer any more.
    fn refuse(&mut self, now: Time, pair: &Pair, why: Why) {
        let Some(peer) = self.peers.get_mut(pair) else { return };
        for flow in peer.outgoing.keys().copied().collect::<Vec<_>>() {
            peer.remove_outgoing(flow);
            self.agenda.remove((*pair, Role::Outgoing(flow)));
        }
        let held = peer.held_bytes;
        for flow in peer.incoming.keys().copied().collect::<Vec<_>>() {
            // What waits in it is lost with its peer; TCP sends it again.
            peer.remove_incoming(flow);
            self.agenda.remove((*pair, Role::Incoming(flow)));
        }
        self.held_bytes -= held - peer.held_bytes;
        let asked = peer.asked.take().map(|asked| asked.hello.session);
        for session in peer.link.sessions.drain(..).map(|session| session.ours).chain(asked) {
            self.sessions.remove(&session);
        }
        (peer.link.sending, peer.answered, peer.unheard) = (None, None, None);
        peer.refused_until = Some(now + peer.refusal());
        if std::mem::take(&mut peer.up) {
            self.events.push_back(Event::Down(*pair, why));
        }
        self.rearm(pair);
    }

    fn handle_peer(&mut self, now: Time, pair: &Pair, out: &mut Outbox) {
        let Some(peer) = self.peers.get_mut(pair) else { return };
        peer.armed = None;
        if let Some(asked) = &mut peer.asked {
            if asked.at + ASK_AGAIN * asked.tries <= now {
                if asked.tries >= TRIES && peer.up && peer.heard > asked.since {
                    // It is there, and only its answers are lost.
                    let session = asked.hello.session;
                    (peer.asked, peer.rekey) = (None, now + SWEEP);
                    self.sessions.remove(&session);
                    return self.rearm(pair);
                }
                if asked.tries >= TRIES {
                    return self.refuse(now, pair, Why::Silent);
                }
                asked.tries += 1;
                asked.at = now;
                let hello = asked.hello;
                self.say(pair, self.config.port, &hello, None, out);
            }
        } else if peer.refused_until.is_some_and(|until| until <= now) {
            if peer.fixed {
                return self.ask(now, pair, out);
            }
            return self.forget(pair);
        } else if peer.unheard.is_some_and(|since| since + SILENCE <= now) || peer.up && peer.rekey <= now {
            return self.ask(now, pair, out);
        }
        let Some(peer) = self.peers.get_mut(pair) else { return };
        if peer.swept + SWEEP <= now {
            peer.swept = now;
            let is_idle = |used: Time| used + IDLE <= now;
            let idle = |(flow, one): (&u32, &Outgoing)| is_idle(one.used).then_some(*flow);
            for flow in peer.outgoing.iter().filter_map(idle).collect::<Vec<_>>() {
                peer.remove_outgoing(flow);
                self.agenda.remove((*pair, Role::Outgoing(flow)));
            }
            let idle = |(flow, one): (&u32, &Incoming)| is_idle(one.used).then_some(*flow);
            let held = peer.held_bytes;
            for flow in peer.incoming.iter().filter_map(idle).collect::<Vec<_>>() {
                peer.remove_incoming(flow);
                self.agenda.remove((*pair, Role::Incoming(flow)));
            }
            self.held_bytes -= held - peer.held_bytes;
        }
        self.rearm(pair);
    }

    fn handle_outgoing(&mut self, now: Time, pair: Pair, flow: u32, out: &mut Outbox) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let Some(outgoing) = peer.outgoing.get_mut(&flow) else { return };
        outgoing.armed = None;
        let mut coded = Vec::new();
        outgoing.sender.handle_timeout(now, &mut peer.scheduler, &mut coded);
        let turn = (pair, Role::Outgoing(flow));
        arm(&mut self.agenda, turn, &mut outgoing.armed, outgoing.sender.poll_timeout());
        peer.link.write_coded(flow, &mut coded, out);
    }

    fn handle_incoming(&mut self, now: Time, pair: Pair, flow: u32, deliver: Deliver<'_>) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let Some(incoming) = peer.incoming.get_mut(&flow) else { return };
        let held = incoming.receiver.held_bytes();
        incoming.receiver.handle_timeout(now, &mut |bytes| deliver(&pair, Codepoint::NotEct, bytes));
        incoming.armed = incoming.receiver.poll_timeout();
        self.agenda.set((pair, Role::Incoming(flow)), incoming.armed);
        let freed = held.saturating_sub(incoming.receiver.held_bytes());
        peer.held_bytes -= freed;
        self.held_bytes -= freed;
    }
}

/// What a report says to a sender of which so much was known.
fn feedback_of(report: &Report, base: u64, lost: u64) -> Feedback {
    let next = near(report.next, base);
    // Of a flow that has gone on for long, what was lost is far from all that was sent.
    Feedback { next, through: next.saturating_add(report.ahead.into()), lost: near(report.lost, lost) }
}

/// Has it be somebody's turn at `due`, or earlier.
fn arm(agenda: &mut Agenda<Turn>, turn: Turn, armed: &mut Option<Time>, due: Option<Time>) {
    if let Some(due) = due
        && armed.is_none_or(|armed| due < armed)
    {
        *armed = Some(due);
        agenda.set(turn, Some(due));
    }
}

#[cfg(test)]
mod tests;

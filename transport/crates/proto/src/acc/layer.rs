//! The layer of a host: its peers, their flows, and what goes between them.
//!
//! Peers are found by probes. A host that does not answer is none, and its packets never come here: whoever drives the layer gives it packets only
//! to peers of which [`Event::Up`] was told, until [`Event::Down`] is. A peer of which nothing is heard while it is sent to is asked
//! again, and is none any more if it does not answer: then TCP's packets go their old way, and TCP sends again what is missing.

mod meeting;
mod peer;
mod statistics;

use std::collections::VecDeque;
use std::time::Duration;

use codec::rlnc::MAX_BYTES;
use foldhash::{HashMap, HashMapExt};
use wire::acc::{
    Content, Datagram, Envelope, NUMBERED_BYTES, PACKET_BYTES, Packet, Patience, REPORT_BYTES, Report,
    TAG_BYTES,
};

use self::meeting::Greeting;
use self::peer::{Incoming, Outgoing, Peer};
pub use self::statistics::{Counters, FlowStatistics, PeerStatistics};
use super::outbox::Outbox;
use super::packet::{self, Look, Pair};
use super::session::{KEY_BYTES, Nonces, SharedKey, near};
use super::{Coded, Feedback, Receiver, Sender, Strategy};
use crate::ecn::Codepoint;
use crate::{Agenda, Time};

/// Flows that nothing was sent in for so long are forgotten, and those to a peer to which there is no room for others, once a second, after a
/// second.
const IDLE: Duration = Duration::from_secs(60);
const IDLE_WHERE_FULL: Duration = Duration::from_secs(1);

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
    /// Bytes that peers make the layer hold at most, for recovery; a peer that would make it hold more loses what it used least recently.
    pub max_held_bytes: usize,
    /// Whether TCP's packets without data are numbered, too, so that they are brought back. Usually the next acknowledgement makes up for a lost one;
    /// but none follows where windows are of a packet or two, as where a switch regulates them.
    pub numbers_acknowledgements: bool,
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
            numbers_acknowledgements: false,
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

/// How a datagram has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// To whom, and from whom.
    pub pair: Pair,
    /// From which port.
    pub port: u16,
    /// With which mark.
    pub ecn: Codepoint,
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
        let is_full = |peer: &Peer| peer.outgoing.len() >= self.config.max_flows;
        if self.peers.get(&look.pair).is_some_and(|peer| is_full(peer) && peer.swept + IDLE_WHERE_FULL <= now)
        {
            self.sweep(now, &look.pair, IDLE_WHERE_FULL);
        }
        let Some(peer) = self.peers.get_mut(&look.pair).filter(|peer| peer.up) else {
            self.counters.strayed += 1;
            return false;
        };
        let (carried, config) = (look.carried_bytes(head.len() + rest.len()), &self.config);
        // What is not among the headers is data.
        let matters = look.matters || !rest.is_empty();
        // No IP packet is too long to be coded, but with what is in front of it one may be.
        let is_numbered = (matters || config.numbers_acknowledgements) && carried <= MAX_BYTES;
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
        // TCP does not mind in which order acknowledgements come, and waits for them.
        let patience = if matters && outgoing.sender.waits() { patience } else { Patience::NONE };
        let content = Content::Numbered { flow, number: number as u32, back, patience };
        peer.link.write(look.ecn, content, report, out, |out| {
            let at = out.len();
            look.carry(head, rest, out);
            let bytes = &out[at..];
            if matters {
                outgoing.sender.on_packet(now, bytes);
            } else {
                outgoing.sender.on_acknowledgement(now, bytes);
            }
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

    /// A datagram has come.
    pub fn receive(
        &mut self,
        now: Time,
        arrival: Arrival,
        datagram: &mut [u8],
        out: &mut Outbox,
        deliver: Deliver<'_>,
    ) {
        match Datagram::parse(datagram) {
            Err(_) => self.counters.malformed += 1,
            Ok(Datagram::Hello(hello, covered, code)) => {
                let greeting = Greeting { hello, covered, code };
                let done = match hello.answers {
                    None => self.on_probe(now, arrival, &greeting, out),
                    Some(_) => self.on_answer(now, arrival, &greeting, out),
                };
                if done.is_none() {
                    self.counters.refused += 1;
                }
            }
            Ok(Datagram::Packet(envelope)) => {
                self.on_packet(now, arrival, &envelope, datagram, out, deliver);
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

    fn on_packet(
        &mut self,
        now: Time,
        arrival: Arrival,
        envelope: &Envelope,
        datagram: &mut [u8],
        out: &mut Outbox,
        deliver: Deliver<'_>,
    ) {
        let pair = arrival.pair;
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
                    deliver(&pair, arrival.ecn, packet.body);
                }
            }
            Content::Numbered { .. } | Content::Coded { .. } => {
                self.on_flow(now, arrival, &packet, out, deliver);
            }
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
        if told.queued {
            peer.loss.limit(peer.scheduler.losses.loss_without_queue());
        }
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
        arrival: Arrival,
        packet: &Packet<'_>,
        out: &mut Outbox,
        deliver: Deliver<'_>,
    ) {
        let Arrival { pair, ecn, .. } = arrival;
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
            // Flows are looked through now and then.
            let due = peer.due();
            arm(&mut self.agenda, (pair, Role::Peer), &mut peer.armed, due);
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
        let mut hand_on = |ecn, bytes: &[u8]| deliver(&pair, ecn, bytes);
        match packet.content {
            Content::Numbered { number, back, .. } => {
                let number = near(number, receiver.feedback().through);
                let base = number.saturating_sub(back.into());
                receiver.on_packet(now, number, base, ecn, packet.body, &mut hand_on);
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
        if incoming.receiver.waits() && after.lost > incoming.reported.lost {
            peer.link.write_empty(Some(incoming.report(flow)), out);
        }
        peer.held_bytes = peer.held_bytes + held_now - held;
        self.held_bytes = self.held_bytes + held_now - held;
        while self.held_bytes > self.config.max_held_bytes && self.evict(pair, deliver) {}
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
            gone.receiver.give_up(&mut |ecn, bytes| deliver(&pair, ecn, bytes));
        }
        true
    }

    /// Forgets the flows to a peer that nothing was sent in for so long, and those from it that are idle: what is forgotten of one of these may be
    /// delivered twice.
    fn sweep(&mut self, now: Time, pair: &Pair, idle: Duration) {
        let Some(peer) = self.peers.get_mut(pair) else { return };
        peer.swept = now;
        let outgoing = peer.outgoing.iter().filter(|(_, one)| one.used + idle <= now).map(|(flow, _)| *flow);
        for flow in outgoing.collect::<Vec<_>>() {
            peer.remove_outgoing(flow);
            self.agenda.remove((*pair, Role::Outgoing(flow)));
        }
        let incoming = peer.incoming.iter().filter(|(_, one)| one.used + IDLE <= now).map(|(flow, _)| *flow);
        let held = peer.held_bytes;
        for flow in incoming.collect::<Vec<_>>() {
            peer.remove_incoming(flow);
            self.agenda.remove((*pair, Role::Incoming(flow)));
        }
        self.held_bytes -= held - peer.held_bytes;
        for idle in peer.incoming.values_mut().filter(|one| one.used + IDLE_WHERE_FULL <= now) {
            idle.receiver.rest();
        }
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
        incoming.receiver.handle_timeout(now, &mut |ecn, bytes| deliver(&pair, ecn, bytes));
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

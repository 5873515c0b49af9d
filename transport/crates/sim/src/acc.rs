//! TCP-ACC between a model of TCP and the network: a shim around a source, and one around its sink.

use std::time::Duration;

use proto::acc::redundancy::Scheduler;
use proto::acc::{Coded, Feedback, Receiver, Sender, Strategy};
use proto::ecn::Codepoint;

use crate::{Datagram, NodeId, Passed, Shim, Time};

/// What is in front of a packet on the wire, about: a number, the base, n, the seed, and d.
const HEADER_BYTES: u32 = 16;

/// What goes from one shim to the other.
enum Message {
    Original { number: u64, base: u64, waits: bool, bytes: Vec<u8> },
    Coded(Coded),
    Answer { feedback: Feedback, bytes: Vec<u8> },
}

impl Message {
    fn emit(&self) -> Vec<u8> {
        let (kind, numbers, bytes) = match self {
            Message::Original { number, base, waits, bytes } => {
                (0, [*number, *base, u64::from(*waits)], bytes)
            }
            Message::Coded(Coded { first, count, seed, bytes }) => {
                (1, [*first, *count as u64, u64::from(*seed)], bytes)
            }
            Message::Answer { feedback: Feedback { next, through, lost }, bytes } => {
                (2, [*next, *through, *lost], bytes)
            }
        };
        let mut out = vec![kind];
        out.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        out.extend_from_slice(bytes);
        out
    }

    fn parse(payload: &[u8]) -> Option<Self> {
        let (kind, mut rest) = payload.split_first()?;
        let mut numbers = [0; 3];
        for number in &mut numbers {
            let (bytes, after) = rest.split_first_chunk()?;
            (*number, rest) = (u64::from_be_bytes(*bytes), after);
        }
        let [a, b, c] = numbers;
        let bytes = rest.to_vec();
        Some(match kind {
            0 => Message::Original { number: a, base: b, waits: c != 0, bytes },
            1 => Message::Coded(Coded { first: a, count: b as usize, seed: c as u8, bytes }),
            2 => Message::Answer { feedback: Feedback { next: a, through: b, lost: c }, bytes },
            _ => return None,
        })
    }
}

/// Around a source.
pub struct AccSource {
    sender: Sender,
    scheduler: Scheduler,
    /// Where packets go, and how long the longest of them is on a link.
    to: NodeId,
    wire_bytes: u32,
    sent: u64,
    coded: u64,
}

impl AccSource {
    /// For a source that sends to `to`. `loss`: what earlier flows have seen lost.
    pub fn new(to: NodeId, strategy: Strategy, loss: f64) -> Self {
        AccSource {
            sender: Sender::new(strategy, loss),
            scheduler: strategy.scheduler(),
            to,
            wire_bytes: 0,
            sent: 0,
            coded: 0,
        }
    }

    /// Its state.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Packets of TCP, and coded ones, that it has sent.
    pub fn sent(&self) -> (u64, u64) {
        (self.sent, self.coded)
    }

    fn pass(&mut self, coded: Vec<Coded>, passed: &mut Passed) {
        self.coded += coded.len() as u64;
        for one in coded {
            let payload = Message::Coded(one).emit();
            passed.down(Datagram::new(self.to, payload).sized(self.wire_bytes + 2));
        }
    }
}

impl Shim for AccSource {
    fn outgoing(&mut self, now: Time, datagram: Datagram, passed: &mut Passed) {
        let wire_bytes = datagram.wire_bytes + HEADER_BYTES;
        self.wire_bytes = self.wire_bytes.max(wire_bytes);
        self.sent += 1;
        let number = self.sender.on_packet(now, &datagram.payload);
        let (base, waits) = (self.sender.base(), self.sender.waits());
        let message = Message::Original { number, base, waits, bytes: datagram.payload };
        passed.down(Datagram { wire_bytes, payload: message.emit(), ..datagram });
    }

    fn incoming(&mut self, now: Time, datagram: Datagram, passed: &mut Passed) {
        let Some(Message::Answer { feedback, bytes }) = Message::parse(&datagram.payload) else { return };
        let mut coded = Vec::new();
        self.sender.on_feedback(now, feedback, &mut self.scheduler, &mut coded);
        self.pass(coded, passed);
        if !bytes.is_empty() {
            passed.up(Datagram { payload: bytes, ..datagram });
        }
    }

    fn handle_timeout(&mut self, now: Time, passed: &mut Passed) {
        let mut coded = Vec::new();
        self.sender.handle_timeout(now, &mut self.scheduler, &mut coded);
        self.pass(coded, passed);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.sender.poll_timeout()
    }
}

/// Around a sink.
pub struct AccSink {
    receiver: Receiver,
    patience: Duration,
    /// d, as it was last told.
    told: u64,
    /// The last packet that came, for what else there is to know of those that are handed on.
    last: Option<Datagram>,
}

impl AccSink {
    /// One that keeps packets back for so long behind a lost one, if its sender asks for that.
    pub fn new(patience: Duration) -> Self {
        AccSink { receiver: Receiver::new(Duration::ZERO), patience, told: 0, last: None }
    }

    /// Its state.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    fn pass(&self, packets: Vec<Vec<u8>>, passed: &mut Passed) {
        if let Some(last) = &self.last {
            packets.into_iter().for_each(|payload| passed.up(Datagram { payload, ..last.clone() }));
        }
    }
}

impl Shim for AccSink {
    fn incoming(&mut self, now: Time, datagram: Datagram, passed: &mut Passed) {
        let mut packets: Vec<Vec<u8>> = Vec::new();
        match Message::parse(&datagram.payload) {
            Some(Message::Original { number, base, waits, bytes }) => {
                self.receiver.set_patience(if waits { self.patience } else { Duration::ZERO });
                let hand_on = &mut |_, packet: &[u8]| packets.push(packet.to_vec());
                self.receiver.on_packet(now, number, base, Codepoint::NotEct, &bytes, hand_on);
            }
            Some(Message::Coded(coded)) => {
                // What is of no use does no harm.
                let _ = self.receiver.on_coded(now, &coded, &mut |_, packet| packets.push(packet.to_vec()));
            }
            Some(Message::Answer { .. }) | None => return,
        }
        let feedback = self.receiver.feedback();
        if feedback.lost > self.told && self.receiver.waits() {
            // TCP says nothing while packets wait.
            self.told = feedback.lost;
            let message = Message::Answer { feedback, bytes: Vec::new() };
            passed.down(Datagram::new(datagram.from, message.emit()));
        }
        self.last = Some(datagram);
        self.pass(packets, passed);
    }

    fn outgoing(&mut self, _now: Time, datagram: Datagram, passed: &mut Passed) {
        self.told = self.receiver.feedback().lost;
        let message = Message::Answer { feedback: self.receiver.feedback(), bytes: datagram.payload };
        let wire_bytes = datagram.wire_bytes + HEADER_BYTES;
        passed.down(Datagram { wire_bytes, payload: message.emit(), ..datagram });
    }

    fn handle_timeout(&mut self, now: Time, passed: &mut Passed) {
        let mut packets: Vec<Vec<u8>> = Vec::new();
        self.receiver.handle_timeout(now, &mut |_, packet| packets.push(packet.to_vec()));
        self.pass(packets, passed);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.receiver.poll_timeout()
    }
}

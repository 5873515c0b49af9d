//! What hosts that run TCP-ACC's layer send each other, in UDP.
//!
//! ```text
//! probe    0xa0 | version 8 | zeros 16 | session 32 | zeros 32 | nonce 128 | code 128
//! answer   0xa1 | version 8 | zeros 16 | session 32 | own session 32 | nonce 128 | code 128
//! packet   1011 | clear 1 | report 1 | content 2 | session 24 | counter 32 | sealed: report | content | tag 128
//!
//! report                flow 32 | next 32 | through - next 16 | lost 32
//! content   0 plain     a packet, or nothing
//!           1 numbered  flow 32 | number 32 | number - base 16 | patience 8 | a packet
//!           2 coded     flow 32 | first 32 | n 8 | seed 8 | a sum of packets
//!           3 farewell  nothing
//! ```
//! All numbers are big-endian. `session` is the one that the receiver of a datagram has chosen: its own number for what the two share. Of
//! `counter`, of the packets of a session, and of `number`, `first`, `next` and `lost`, of a flow's packets, these are the lower 32 bits.
//! `patience` asks the receiver to keep the packet back while one before it is missing, as coded ones may bring that back: for 50 us times
//! 2^((patience - 1) / 8), or not at all if it is 0.
//!
//! The codes of probes and answers are over them and the two hosts' addresses. What is sealed of a packet is encrypted, and authenticated with what
//! is in front of it. If `clear` is set, bodies (what follows on the content's numbers) are neither: whoever can change packets on their way can change
//! these as he could those of TCP alone. Sums of packets are always sealed.

use std::time::Duration;

use thiserror::Error;

use crate::VERSION;

/// Bytes of a probe and of an answer: nobody is answered with more than was sent.
pub const HELLO_BYTES: usize = 44;
/// Bytes of the code at the end of both.
pub const CODE_BYTES: usize = 16;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 16;
/// Bytes at the end of a packet.
pub const TAG_BYTES: usize = 16;
/// Bytes in front of what a packet has to tell.
pub const PACKET_BYTES: usize = 8;
/// Bytes of a report.
pub const REPORT_BYTES: usize = 14;
/// Bytes of content in front of a numbered packet; in front of a sum there is one less.
pub const NUMBERED_BYTES: usize = 11;
/// Sessions are numbered from 0 to here.
pub const MAX_SESSION: u32 = 0xff_ffff;

const PROBE: u8 = 0xa0;
const ANSWER: u8 = 0xa1;
const PACKET: u8 = 0xb0;
const CLEAR: u8 = 8;
const REPORT: u8 = 4;
const CONTENT: u8 = 3;

/// Why a datagram is none of this layer's.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// It ends within a field.
    #[error("the datagram ends too early")]
    Short,
    /// Its first byte says nothing.
    #[error("unknown kind of datagram {0:#04x}")]
    Kind(u8),
    /// Another version of the layer.
    #[error("version {0}")]
    Version(u8),
    /// There is more than there should be, or not zeros.
    #[error("something that means nothing")]
    Excess,
}

type Result<T> = std::result::Result<T, Malformed>;

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
    *bytes = rest;
    Ok(*taken)
}

fn u32_of(bytes: &mut &[u8]) -> Result<u32> {
    take(bytes).map(u32::from_be_bytes)
}

fn u16_of(bytes: &mut &[u8]) -> Result<u16> {
    take(bytes).map(u16::from_be_bytes)
}

/// Asks whether a host runs the layer, or says that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the host that asks calls the session.
    pub session: u32,
    /// What the one that answers calls it; none in a probe.
    pub answers: Option<u32>,
    /// The sender's share of what makes keys of this session unlike those of any other.
    pub nonce: [u8; NONCE_BYTES],
}

impl Hello {
    /// Appends it without its code, which goes behind it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([if self.answers.is_some() { ANSWER } else { PROBE }, VERSION, 0, 0]);
        out.extend(self.session.to_be_bytes());
        out.extend(self.answers.unwrap_or(0).to_be_bytes());
        out.extend(self.nonce);
    }
}

/// What is in front of a packet that is sealed under a session's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What the receiver calls the session.
    pub session: u32,
    /// The lower bits of this packet's number in the session.
    pub counter: u32,
    kind: u8,
}

impl Envelope {
    /// Bytes that are in front of what is encrypted, and authenticated; of packets of which nothing is encrypted (true), in front of their bodies.
    pub fn covered_bytes(&self) -> (usize, bool) {
        let report = if self.kind & REPORT == 0 { 0 } else { REPORT_BYTES };
        let content = if self.kind & CONTENT == 1 { NUMBERED_BYTES } else { 0 };
        let clear = self.kind & CLEAR != 0;
        (PACKET_BYTES + if clear { report + content } else { 0 }, clear)
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What has come of a flow in the other direction.
    pub report: Option<Report>,
    /// What it is for.
    pub content: Content,
    /// A packet as [`Content`] has it.
    pub body: &'a [u8],
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// To carry a packet of no flow, or a report.
    Plain,
    /// To carry a packet of a flow.
    Numbered {
        /// The flow, as its sender numbers them.
        flow: u32,
        /// The packet's place in it.
        number: u32,
        /// So far below it lies the lowest number that is coded again.
        back: u16,
        /// How long what follows on a lost packet is to wait for it.
        patience: Patience,
    },
    /// To carry a sum of packets of a flow.
    Coded {
        /// The flow.
        flow: u32,
        /// The first of them.
        first: u32,
        /// How many they are.
        count: u8,
        /// What gives their coefficients.
        seed: u8,
    },
    /// To say that the sender ends.
    Farewell,
}

/// A time, in few bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(u8);

/// The shortest time that is not none.
const SHORTEST: Duration = Duration::from_micros(50);

impl Patience {
    /// None at all.
    pub const NONE: Patience = Patience(0);

    /// About `time`, not longer, unless that is shorter than 50 us.
    pub fn of(time: Duration) -> Self {
        let steps = 8.0 * (time.as_secs_f64() / SHORTEST.as_secs_f64()).log2();
        // Of the range that a byte has.
        Patience(1 + steps.clamp(0.0, 254.0) as u8)
    }

    /// The time.
    pub fn time(self) -> Duration {
        match self.0 {
            0 => Duration::ZERO,
            steps => SHORTEST.mul_f64((f64::from(steps - 1) / 8.0).exp2()),
        }
    }
}

/// What has come of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The flow, as its sender numbers them.
    pub flow: u32,
    /// All packets below this are here, or not waited for.
    pub next: u32,
    /// So far above that is the highest that has come, and one more.
    pub ahead: u16,
    /// d.
    pub lost: u32,
}

impl<'a> Packet<'a> {
    /// Appends it for a session; its tag goes behind it. Returns what tells how it is to be sealed: all but the first [`PACKET_BYTES`], or, if it is to be
    /// `clear` and is no sum, nothing.
    pub fn emit(&self, session: u32, counter: u32, clear: bool, out: &mut Vec<u8>) -> Envelope {
        let (content, [a, b]) = match self.content {
            Content::Plain => (0, [0; 2]),
            Content::Numbered { flow, number, .. } => (1, [flow, number]),
            Content::Coded { flow, first, .. } => (2, [flow, first]),
            Content::Farewell => (3, [0; 2]),
        };
        let report = if self.report.is_some() { REPORT } else { 0 };
        let clear = if clear && content < 2 { CLEAR } else { 0 };
        let kind = PACKET | clear | report | content;
        let first = u32::from(kind) << 24 | session & MAX_SESSION;
        out.extend(first.to_be_bytes());
        out.extend(counter.to_be_bytes());
        if let Some(Report { flow, next, ahead, lost }) = self.report {
            out.extend(flow.to_be_bytes());
            out.extend(next.to_be_bytes());
            out.extend(ahead.to_be_bytes());
            out.extend(lost.to_be_bytes());
        }
        let last = match self.content {
            Content::Plain | Content::Farewell => None,
            Content::Numbered { back, .. } => Some(back.to_be_bytes()),
            Content::Coded { count, seed, .. } => Some([count, seed]),
        };
        if let Some(last) = last {
            out.extend(a.to_be_bytes());
            out.extend(b.to_be_bytes());
            out.extend(last);
        }
        if let Content::Numbered { patience, .. } = self.content {
            out.push(patience.0);
        }
        out.extend_from_slice(self.body);
        Envelope { session: session & MAX_SESSION, counter, kind }
    }

    /// Reads what was sealed in this envelope.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(envelope: &Envelope, opened: &'a [u8]) -> Result<Self> {
        let (mut rest, kind) = (opened, envelope.kind);
        let report = if kind & REPORT == 0 {
            None
        } else {
            let (flow, next) = (u32_of(&mut rest)?, u32_of(&mut rest)?);
            Some(Report { flow, next, ahead: u16_of(&mut rest)?, lost: u32_of(&mut rest)? })
        };
        let content = match kind & CONTENT {
            0 => Content::Plain,
            1 => {
                let (flow, number) = (u32_of(&mut rest)?, u32_of(&mut rest)?);
                let (back, [patience]) = (u16_of(&mut rest)?, take(&mut rest)?);
                Content::Numbered { flow, number, back, patience: Patience(patience) }
            }
            2 => {
                let (flow, first) = (u32_of(&mut rest)?, u32_of(&mut rest)?);
                let [count, seed] = take(&mut rest)?;
                Content::Coded { flow, first, count, seed }
            }
            _ if !rest.is_empty() => return Err(Malformed::Excess),
            _ => Content::Farewell,
        };
        Ok(Packet { report, content, body: rest })
    }
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// A probe or an answer: what its code is over, and the code.
    Hello(Hello, &'a [u8], [u8; CODE_BYTES]),
    /// A packet: [`PACKET_BYTES`] in clear, what is sealed, and [`TAG_BYTES`].
    Packet(Envelope),
}

impl<'a> Datagram<'a> {
    /// Reads a datagram. Nothing of it is known to be true.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self> {
        match *datagram.first().ok_or(Malformed::Short)? {
            PROBE | ANSWER => parse_hello(datagram),
            kind if kind & 0xf0 == PACKET => parse_envelope(datagram).map(Datagram::Packet),
            kind => Err(Malformed::Kind(kind)),
        }
    }
}

fn parse_hello(datagram: &[u8]) -> Result<Datagram<'_>> {
    let mut rest = datagram;
    let [kind, version, zeros @ ..] = take::<4>(&mut rest)?;
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let (session, answers, nonce) = (u32_of(&mut rest)?, u32_of(&mut rest)?, take(&mut rest)?);
    let code = take(&mut rest)?;
    let is_answer = kind == ANSWER;
    if !rest.is_empty() || zeros != [0; 2] || !is_answer && answers != 0 {
        return Err(Malformed::Excess);
    }
    let hello = Hello { session, answers: is_answer.then_some(answers), nonce };
    Ok(Datagram::Hello(hello, &datagram[..HELLO_BYTES - CODE_BYTES], code))
}

fn parse_envelope(datagram: &[u8]) -> Result<Envelope> {
    let mut rest = datagram;
    let (first, counter) = (u32_of(&mut rest)?, u32_of(&mut rest)?);
    let envelope = Envelope { session: first & MAX_SESSION, counter, kind: (first >> 24) as u8 };
    let (covered, clear) = envelope.covered_bytes();
    if datagram.len() < covered + TAG_BYTES {
        return Err(Malformed::Short);
    }
    // Sums and farewells are always sealed.
    if clear && envelope.kind & CONTENT > 1 { Err(Malformed::Kind(envelope.kind)) } else { Ok(envelope) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content() -> impl Strategy<Value = Content> {
        prop_oneof![
            Just(Content::Plain),
            any::<(u32, u32, u16, u8)>().prop_map(|(flow, number, back, patience)| Content::Numbered {
                flow,
                number,
                back,
                patience: Patience(patience)
            }),
            any::<(u32, u32, u8, u8)>().prop_map(|(flow, first, count, seed)| Content::Coded {
                flow,
                first,
                count,
                seed
            }),
        ]
    }

    fn report() -> impl Strategy<Value = Option<Report>> {
        let some = any::<(u32, u32, u16, u32)>().prop_map(|(flow, next, ahead, lost)| Report {
            flow,
            next,
            ahead,
            lost,
        });
        proptest::option::of(some)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn packets_are_read_as_they_are_written(
            session in 0..=MAX_SESSION,
            counter in any::<u32>(),
            clear in any::<bool>(),
            report in report(),
            content in content(),
            body in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let packet = Packet { report, content, body: &body };
            let mut bytes = Vec::new();
            packet.emit(session, counter, clear, &mut bytes);
            bytes.extend([9; TAG_BYTES]);
            let Ok(Datagram::Packet(envelope)) = Datagram::parse(&bytes) else { panic!("no packet") };
            prop_assert_eq!((envelope.session, envelope.counter), (session, counter));
            prop_assert_eq!(Packet::parse(&envelope, &bytes[PACKET_BYTES..bytes.len() - TAG_BYTES]), Ok(packet));
        }

        #[test]
        fn hellos_are_read_as_they_are_written(session in any::<u32>(), answers in any::<Option<u32>>(), nonce in any::<[u8; 16]>()) {
            let hello = Hello { session, answers, nonce };
            let mut bytes = Vec::new();
            hello.emit(&mut bytes);
            let covered = bytes.clone();
            bytes.extend([9; CODE_BYTES]);
            prop_assert_eq!(bytes.len(), HELLO_BYTES);
            prop_assert_eq!(Datagram::parse(&bytes), Ok(Datagram::Hello(hello, &covered, [9; 16])));
            bytes.push(0);
            prop_assert_eq!(Datagram::parse(&bytes), Err(Malformed::Excess));
        }

        #[test]
        fn anything_else_is_refused_and_breaks_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            if let Ok(Datagram::Packet(envelope)) = Datagram::parse(&bytes) {
                let opened = &bytes[PACKET_BYTES..bytes.len() - TAG_BYTES];
                if let Ok(packet) = Packet::parse(&envelope, opened) {
                    let mut again = Vec::new();
                    packet.emit(envelope.session, envelope.counter, envelope.covered_bytes().1, &mut again);
                    prop_assert_eq!(&again, &bytes[..bytes.len() - TAG_BYTES]);
                }
            }
        }
    }

    #[test]
    fn a_time_is_kept_within_a_tenth() {
        assert_eq!(Patience::NONE.time(), Duration::ZERO);
        for us in [50, 51, 99, 300, 1_234, 10_000, 9_999_999] {
            let time = Duration::from_micros(us);
            let kept = Patience::of(time).time();
            assert!(kept <= time + Duration::from_nanos(9) && kept > time.mul_f64(0.9), "{time:?}: {kept:?}");
        }
        assert_eq!(Patience::of(Duration::ZERO).time(), SHORTEST);
        assert!(Patience::of(Duration::MAX).time() > Duration::from_secs(3600));
    }

    #[test]
    fn what_means_nothing_is_told_apart() {
        assert_eq!(Datagram::parse(&[]), Err(Malformed::Short));
        assert_eq!(Datagram::parse(&[0x45; 40]), Err(Malformed::Kind(0x45)));
        assert_eq!(Datagram::parse(&[0xa0, 7, 0, 0]), Err(Malformed::Version(7)));
        assert_eq!(Datagram::parse(&[0xb1; PACKET_BYTES + TAG_BYTES - 1]), Err(Malformed::Short));
        let envelope = |kind| Envelope { session: 0, counter: 0, kind };
        assert_eq!(Packet::parse(&envelope(0xb1), &[0; NUMBERED_BYTES - 1]), Err(Malformed::Short));
        assert_eq!(Packet::parse(&envelope(0xb3), &[0]), Err(Malformed::Excess));
    }
}

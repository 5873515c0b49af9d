//! DFCP's control channel over datagrams that are lost, doubled and late: both streams arrive whole, nobody is let in who
//! is not where he says, and nothing that comes makes it fail.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use weir_proto::Time;
use weir_proto::dfcp::{AddressValidator, Signalling, reset};
use weir_proto::protect::{Protection, SECRET_BYTES, Side};
use wire::packet::{Flag, HEADER_BYTES, Header, Kind, MAX_SIGNAL_PAYLOAD, Probe, SIGNAL_BYTES, Signal};

const CONNECTION: u32 = 7;
const MS: Duration = Duration::from_millis(1);

/// Reproducible randomness.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn here() -> SocketAddr {
    "10.0.0.1:1234".parse().unwrap()
}

fn parsed(datagram: &[u8]) -> (Header, Signal, &[u8]) {
    let header = Header::parse(datagram).unwrap();
    let (signal, payload) = Signal::parse(&datagram[HEADER_BYTES..]).unwrap();
    (header, signal, payload)
}

/// Two ends, and what is on its way between them.
struct Pair {
    now: Time,
    random: Random,
    loss_percent: u64,
    door: AddressValidator,
    sender: Signalling,
    receiver: Option<Signalling>,
    /// When it arrives, whether at the receiver, and what.
    way: Vec<(Time, bool, Vec<u8>)>,
    datagrams: u64,
    got: [Vec<u8>; 2],
}

impl Pair {
    fn new(seed: u64, loss_percent: u64) -> Self {
        Pair {
            now: Time::ZERO,
            random: Random(seed),
            loss_percent,
            door: AddressValidator::new(&[3; 32]),
            sender: Signalling::initiate(Time::ZERO, CONNECTION),
            receiver: None,
            way: Vec::new(),
            datagrams: 0,
            got: Default::default(),
        }
    }

    fn throw(&mut self, to_receiver: bool, datagram: Vec<u8>) {
        self.datagrams += 1;
        for _ in 0..1 + u64::from(self.random.below(10) == 0) {
            if self.random.below(100) >= self.loss_percent {
                let late = Duration::from_micros(500 + self.random.below(3_000));
                self.way.push((self.now + late, to_receiver, datagram.clone()));
            }
        }
    }

    /// Everything that is to happen now, and the time of what comes next.
    fn step(&mut self) {
        let due: Vec<_> = self.way.extract_if(.., |(at, ..)| *at <= self.now).collect();
        for (_, to_receiver, datagram) in due {
            let header = Header::parse(&datagram).unwrap();
            if !to_receiver {
                self.sender.handle_datagram(self.now, &header, &datagram);
            } else if let Some(receiver) = &mut self.receiver {
                receiver.handle_datagram(self.now, &header, &datagram);
            } else {
                let (_, signal, payload) = parsed(&datagram);
                let mut answer = Vec::new();
                if self.door.admits(self.now, here(), CONNECTION, &signal, payload, &mut answer) {
                    let mut receiver = Signalling::respond(self.now, CONNECTION);
                    receiver.handle_datagram(self.now, &header, &datagram);
                    self.receiver = Some(receiver);
                } else if !answer.is_empty() {
                    assert!(answer.len() <= datagram.len(), "no more is answered than came");
                    self.throw(false, answer);
                }
            }
        }
        let mut buffer = Vec::new();
        while self.sender.poll_transmit(self.now, &mut buffer) {
            assert!(buffer.len() <= HEADER_BYTES + SIGNAL_BYTES + MAX_SIGNAL_PAYLOAD);
            self.throw(true, std::mem::take(&mut buffer));
        }
        while self.receiver.as_mut().is_some_and(|r| r.poll_transmit(self.now, &mut buffer)) {
            self.throw(false, std::mem::take(&mut buffer));
        }
        self.got[1].extend(self.sender.take());
        if let Some(receiver) = &mut self.receiver {
            self.got[0].extend(receiver.take());
        }
        self.now = self.now + MS;
    }

    fn run(&mut self, steps: u32, done: impl Fn(&Pair) -> bool) -> bool {
        (0..steps).any(|_| {
            self.step();
            done(self)
        })
    }
}

fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_streams_arrive_whole_and_end(
        seed: u64,
        loss_percent in 0_u64..60,
        there in 0_usize..60_000,
        back in 0_usize..60_000,
        pieces in 1_usize..9,
    ) {
        let mut pair = Pair::new(seed, loss_percent);
        let (there, back) = (bytes(1, there), bytes(2, back));
        for piece in there.chunks(there.len().div_ceil(pieces).max(1)) {
            pair.sender.write(piece);
            pair.step();
        }
        pair.sender.end();
        prop_assert!(pair.run(60_000, |pair| pair.receiver.is_some()), "opened");
        let receiver = pair.receiver.as_mut().unwrap();
        receiver.write(&back);
        receiver.end();
        let over = |pair: &Pair| pair.sender.is_over() && pair.receiver.as_ref().unwrap().is_over();
        prop_assert!(pair.run(120_000, over), "over after {:?}", pair.now);
        prop_assert!(pair.got[0] == there);
        prop_assert!(pair.got[1] == back);
        // Nothing is said any more when all has been.
        pair.way.clear();
        let before = pair.datagrams;
        pair.run(3_000, |_| false);
        prop_assert!(pair.datagrams <= before + 6);
    }

    #[test]
    fn whatever_comes_is_harmless(
        signals in prop::collection::vec(
            (0_u8..6, any::<u32>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..200,
        ),
    ) {
        let mut pair = Pair::new(1, 0);
        pair.sender.write(&bytes(1, 5_000));
        for (flag, offset, acknowledged, payload, near) in signals {
            let mut datagram = Vec::new();
            let header = Header { kind: Kind::Signal, connection: CONNECTION, number: 0 };
            header.emit(&mut datagram);
            datagram.push(flag);
            // Near the truth as well as far from it.
            let shorten = |n: u32| if near { n % 6_000 } else { n };
            datagram.extend_from_slice(&shorten(offset).to_be_bytes());
            datagram.extend_from_slice(&shorten(acknowledged).to_be_bytes());
            datagram.extend_from_slice(&payload);
            pair.sender.handle_datagram(pair.now, &header, &datagram);
            if let Some(receiver) = &mut pair.receiver {
                receiver.handle_datagram(pair.now, &header, &datagram);
            }
            pair.step();
        }
        prop_assert!(pair.sender.unacknowledged_bytes() <= 5_000);
    }
}

/// Has both ends come by their keys as TLS does: each from what the other has said last in clear.
fn shake_hands(pair: &mut Pair) {
    let keys = |side| Protection::new(&[5; SECRET_BYTES], side);
    pair.sender.write(b"a");
    assert!(pair.run(60_000, |pair| pair.got[0].len() == 1));
    pair.receiver.as_mut().unwrap().write(b"b");
    assert!(pair.run(60_000, |pair| pair.got[1].len() == 1));
    pair.sender.write(b"c");
    pair.sender.protect(keys(Side::Client), Side::Client);
    assert!(pair.run(60_000, |pair| pair.got[0].len() == 2));
    let receiver = pair.receiver.as_mut().unwrap();
    receiver.protect(keys(Side::Server), Side::Server);
    receiver.write(b"d");
    assert!(pair.run(60_000, |pair| pair.got[1].len() == 2));
}

/// What anybody may send who knows the connection's number.
fn spoofed(flag: Flag, offset: u32, payload: &[u8]) -> (Header, Vec<u8>) {
    let header = Header { kind: Kind::Signal, connection: CONNECTION, number: 1 };
    let mut datagram = Vec::new();
    header.emit(&mut datagram);
    Signal { flag, offset, acknowledged: 0 }.emit(&mut datagram);
    datagram.extend_from_slice(payload);
    (header, datagram)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn once_there_are_keys_nothing_else_is_believed(seed: u64, loss_percent in 0_u64..50) {
        let mut pair = Pair::new(seed, loss_percent);
        shake_hands(&mut pair);
        let (there, back) = (bytes(1, 20_000), bytes(2, 20_000));
        pair.sender.write(&there);
        pair.sender.end();
        let receiver = pair.receiver.as_mut().unwrap();
        receiver.write(&back);
        receiver.end();
        let mut sealed = false;
        for step in 0_u32..120_000 {
            // The sender has heard something sealed by now; the receiver, once it is asked for more.
            let flags = [Flag::Reset, Flag::End, Flag::None, Flag::Retry, Flag::Open];
            let (header, datagram) = spoofed(flags[step as usize % 5], step % 30_000, &[0xff; 40]);
            pair.sender.handle_datagram(pair.now, &header, &datagram);
            sealed |= pair.got[0].len() > 2;
            if sealed {
                pair.receiver.as_mut().unwrap().handle_datagram(pair.now, &header, &datagram);
            }
            pair.step();
            // Sealed data keep coming beside signals.
            let heard = Some(pair.now);
            prop_assert!(!pair.sender.was_reset(pair.now, heard));
            prop_assert!(!pair.receiver.as_mut().unwrap().was_reset(pair.now, heard));
            if pair.sender.is_over() && pair.receiver.as_ref().unwrap().is_over() {
                break;
            }
        }
        prop_assert!(pair.got[0][2..] == there && pair.got[1][2..] == back);
        prop_assert!(pair.sender.forged() > 0);
    }
}

/// Until the first sealed signal comes, anybody may have sent what is in clear.
#[test]
fn what_came_in_clear_before_the_first_sealed_signal_spoils_nothing() {
    let mut pair = Pair::new(1, 0);
    shake_hands(&mut pair);
    let receiver = pair.receiver.as_mut().unwrap();
    for (flag, offset) in [(Flag::End, 1_000_000_000), (Flag::None, 500), (Flag::Reset, 0)] {
        let (header, datagram) = spoofed(flag, offset, &[0xff; 1000]);
        receiver.handle_datagram(pair.now, &header, &datagram);
    }
    receiver.end();
    let there = bytes(1, 5_000);
    pair.sender.write(&there);
    pair.sender.end();
    let over = |pair: &Pair| pair.sender.is_over() && pair.receiver.as_ref().unwrap().is_over();
    assert!(pair.run(5_000, over), "{:?}", pair.receiver);
    assert!(pair.got[0][2..] == there);
    assert!(!pair.receiver.unwrap().was_reset(pair.now, None));
}

#[test]
fn a_reset_that_anybody_may_have_sent_counts_when_nothing_else_comes() {
    let mut pair = Pair::new(1, 0);
    shake_hands(&mut pair);
    let (header, datagram) = spoofed(Flag::Reset, 0, &[]);
    pair.run(20, |_| false);
    pair.sender.handle_datagram(pair.now, &header, &datagram);
    assert!(!pair.sender.was_reset(pair.now + 900 * MS, None));
    assert!(pair.sender.poll_timeout().is_some_and(|at| at <= pair.now + 1_000 * MS), "it wakes for that");
    assert!(!pair.sender.was_reset(pair.now + 1_100 * MS, Some(pair.now + 500 * MS)), "the peer was heard");
    pair.sender.handle_datagram(pair.now, &header, &datagram);
    assert!(pair.sender.was_reset(pair.now + 1_100 * MS, Some(pair.now)));
}

#[test]
fn an_opening_takes_a_round_trip_for_the_cookie_and_carries_what_was_written() {
    let mut pair = Pair::new(1, 0);
    pair.sender.write(b"hello");
    assert!(pair.run(30, |pair| pair.got[0] == b"hello"), "{:?}", pair.got);
    assert!(pair.run(30, |pair| pair.sender.is_open()));
    assert!(pair.sender.rtt().is_some_and(|rtt| rtt < 10 * MS));
}

#[test]
fn a_cookie_is_good_for_its_address_connection_and_time_alone() {
    let door = AddressValidator::new(&[3; 32]);
    let now = Time::from_nanos(1_000_000_000_000);
    let cookie = |from: SocketAddr, connection| {
        let open = Signal { flag: Flag::Open, ..Signal::default() };
        let mut answer = Vec::new();
        assert!(!door.admits(now, from, connection, &open, &[0; 16], &mut answer));
        let (header, signal, payload) = parsed(&answer);
        assert_eq!((header.connection, signal.flag), (connection, Flag::Retry));
        payload.to_vec()
    };
    let good = cookie(here(), 1);
    let opens = Signal { flag: Flag::Opens, ..Signal::default() };
    let shown = |door: &AddressValidator, now, from: &str, connection, cookie: &[u8]| {
        let mut answer = Vec::new();
        let admitted = door.admits(now, from.parse().unwrap(), connection, &opens, cookie, &mut answer);
        assert_eq!(admitted, answer.is_empty(), "who is not let in is given a cookie that is");
        admitted
    };
    assert!(shown(&door, now, "10.0.0.1:1234", 1, &good));
    assert!(shown(&door, now + 29_000 * MS, "10.0.0.1:1234", 1, &good));
    assert!(!shown(&door, now + 61_000 * MS, "10.0.0.1:1234", 1, &good));
    assert!(!shown(&door, now, "10.0.0.1:1235", 1, &good));
    assert!(!shown(&door, now, "10.0.0.2:1234", 1, &good));
    assert!(!shown(&door, now, "10.0.0.1:1234", 2, &good));
    assert!(!shown(&AddressValidator::new(&[4; 32]), now, "10.0.0.1:1234", 1, &good));
    assert!(!shown(&door, now, "10.0.0.1:1234", 1, &[0; 16]));
}

#[test]
fn what_belongs_to_no_connection_is_answered_with_a_reset_and_a_reset_with_nothing() {
    let door = AddressValidator::new(&[3; 32]);
    for flag in [Flag::None, Flag::End, Flag::Retry] {
        let mut answer = Vec::new();
        let signal = Signal { flag, ..Signal::default() };
        assert!(!door.admits(Time::ZERO, here(), 5, &signal, &[0; 40], &mut answer));
        assert_eq!(parsed(&answer).1.flag, Flag::Reset);
    }
    let (mut answer, mut again) = (Vec::new(), Vec::new());
    reset(5, &mut answer);
    let (_, signal, payload) = parsed(&answer);
    assert!(!door.admits(Time::ZERO, here(), 5, &signal, payload, &mut again));
    assert!(again.is_empty());
}

/// A peer that says something now and then, and acknowledges nothing.
#[test]
fn an_end_that_is_never_acknowledged_goes_on_sending() {
    let mut end = Signalling::respond(Time::ZERO, CONNECTION);
    end.write(b"something");
    let (mut now, mut sent) = (Time::ZERO, 0);
    for _ in 0..1_000 {
        let mut buffer = Vec::new();
        sent += u64::from(end.poll_transmit(now, &mut buffer));
        now = end.poll_timeout().expect("it is sent again");
        let (header, nothing) = spoofed(Flag::None, 0, &[]);
        end.handle_datagram(now, &header, &nothing);
    }
    assert!(sent > 900, "{sent}");
}

#[test]
fn probes_are_as_long_as_they_say_and_answered_by_little_if_they_are_authentic() {
    let secret = [5; SECRET_BYTES];
    let (mut sender, mut receiver) =
        (Signalling::initiate(Time::ZERO, CONNECTION), Signalling::respond(Time::ZERO, CONNECTION));
    assert!(!sender.can_probe(), "nobody knows of the connection");
    assert!(receiver.can_probe());
    // A first signal in each direction that is sealed: from then on nothing else counts.
    sender.protect(Protection::new(&secret, Side::Client), Side::Client);
    receiver.protect(Protection::new(&secret, Side::Server), Side::Server);
    let talk = |by: &mut Signalling, to: &mut Signalling| {
        by.write(b"x");
        let mut datagram = Vec::new();
        assert!(by.poll_transmit(Time::ZERO, &mut datagram));
        to.handle_datagram(Time::ZERO, &Header::parse(&datagram).unwrap(), &datagram);
    };
    talk(&mut receiver, &mut sender);
    talk(&mut sender, &mut receiver);
    assert!(sender.can_probe());
    let mut numbers = std::collections::BTreeSet::new();
    for bytes in [1452, 512, 9002] {
        let mut probe = Vec::new();
        sender.probe(bytes, &mut probe);
        let header = Header::parse(&probe).unwrap();
        assert!(header.kind == Kind::Probe && numbers.insert(header.number), "{header:?}");
        assert_eq!(probe.len(), usize::from(bytes));
        assert_eq!(receiver.open_probe(&header, &probe), Some(Probe { bytes }));
        receiver.answer(bytes);
    }
    // The longest is answered, whatever else has come.
    let mut answer = Vec::new();
    assert!(receiver.poll_transmit(Time::ZERO, &mut answer));
    assert!(answer.len() < 50, "{}", answer.len());
    let header = Header::parse(&answer).unwrap();
    assert_eq!(sender.open_probe(&header, &answer), Some(Probe { bytes: 9002 }));
    // What anybody else says is none.
    let mut forged = answer.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(sender.open_probe(&header, &forged), None);
    let mut clear = Vec::new();
    header.emit(&mut clear);
    Probe { bytes: 9002 }.emit(&mut clear);
    assert_eq!(sender.open_probe(&header, &clear), None);
    assert_eq!(sender.open_probe(&header, &clear[..11]), None);
    assert_eq!(sender.forged(), 3);
}

/// On a path that carries no long datagrams, pieces of the stream become short enough.
#[test]
fn a_stream_passes_where_only_short_datagrams_do() {
    let (mut sender, mut receiver) =
        (Signalling::respond(Time::ZERO, CONNECTION), Signalling::respond(Time::ZERO, CONNECTION));
    let stream: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
    sender.write(&stream);
    let (mut now, mut got) = (Time::ZERO, Vec::new());
    while got.len() < stream.len() {
        assert!(now < Time::ZERO + 5_000 * MS, "{} bytes have come", got.len());
        now = now + MS;
        for _ in 0..50 {
            let mut datagram = Vec::new();
            if !sender.poll_transmit(now, &mut datagram) {
                break;
            }
            if datagram.len() <= 512 {
                receiver.handle_datagram(now, &Header::parse(&datagram).unwrap(), &datagram);
            }
        }
        let mut answer = Vec::new();
        if receiver.poll_transmit(now, &mut answer) {
            sender.handle_datagram(now, &Header::parse(&answer).unwrap(), &answer);
        }
        got.extend(receiver.take());
    }
    assert_eq!(got, stream);
}

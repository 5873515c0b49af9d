//! DFCP's control channel over datagrams that are lost, doubled and late: both streams arrive whole, nobody is let in who
//! is not where he says, and nothing that comes makes it fail.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use weir_proto::Time;
use weir_proto::dfcp::{Doorkeeper, Signalling, reset};
use wire::packet::{Flag, HEADER_BYTES, Header, MAX_SIGNAL_PAYLOAD, SIGNAL_BYTES, Signal};

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
    door: Doorkeeper,
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
            door: Doorkeeper::new(&[3; 32]),
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
            let (_, signal, payload) = parsed(&datagram);
            if !to_receiver {
                self.sender.handle(self.now, &signal, payload);
            } else if let Some(receiver) = &mut self.receiver {
                receiver.handle(self.now, &signal, payload);
            } else {
                let mut answer = Vec::new();
                if self.door.admits(self.now, here(), CONNECTION, &signal, payload, &mut answer) {
                    let mut receiver = Signalling::respond(self.now, CONNECTION);
                    receiver.handle(self.now, &signal, payload);
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
            let mut datagram = vec![flag];
            // Near the truth as well as far from it.
            let shorten = |n: u32| if near { n % 6_000 } else { n };
            datagram.extend_from_slice(&shorten(offset).to_be_bytes());
            datagram.extend_from_slice(&shorten(acknowledged).to_be_bytes());
            datagram.extend_from_slice(&payload);
            let (signal, payload) = Signal::parse(&datagram).unwrap();
            pair.sender.handle(pair.now, &signal, payload);
            if let Some(receiver) = &mut pair.receiver {
                receiver.handle(pair.now, &signal, payload);
            }
            pair.step();
        }
        prop_assert!(pair.sender.unacknowledged_bytes() <= 5_000);
    }
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
    let door = Doorkeeper::new(&[3; 32]);
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
    let shown = |door: &Doorkeeper, now, from: &str, connection, cookie: &[u8]| {
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
    assert!(!shown(&Doorkeeper::new(&[4; 32]), now, "10.0.0.1:1234", 1, &good));
    assert!(!shown(&door, now, "10.0.0.1:1234", 1, &[0; 16]));
}

#[test]
fn what_belongs_to_no_connection_is_answered_with_a_reset_and_a_reset_with_nothing() {
    let door = Doorkeeper::new(&[3; 32]);
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

//! Whole ends of DFCP connections with TLS between, over a network that loses, repeats, delays and forges.

mod fate;
mod tls;

use std::time::Duration;

use fate::Fate;
use proptest::prelude::*;
use tls::Tls;
use weir_proto::Time;
use weir_proto::assembly::{Assembly, Step};
use weir_proto::channel::Security;
use weir_proto::dfcp::{
    RateConfig, ReceiverConfig, ReceiverEndpoint, ReceiverEvent, SenderConfig, SenderEndpoint, SenderEvent,
    Transmit, reset,
};
use weir_proto::ecn::Codepoint;
use weir_proto::object::{Arrival, Cut, Layout, Object};
use wire::control::{Run, Version};

const CONNECTION: u32 = 7;
const DELAY: Duration = Duration::from_micros(150);
const BITS_PER_S: f64 = 50e6;
/// Turns at one time: a timer that is due and does nothing would keep a driver's processor busy.
const MOST_TURNS: usize = 10_000;

/// Both ends, and what is on its way between them.
struct Pair {
    now: Time,
    sender: SenderEndpoint,
    receiver: ReceiverEndpoint,
    object: Vec<u8>,
    coming: Option<(Assembly, usize)>,
    got: Vec<u8>,
    /// When, whether it goes to the receiver, and what.
    under_way: Vec<(Time, bool, Vec<u8>)>,
    fates: Vec<Fate>,
    /// What is sent to the receiver from the first to the second is lost.
    outage: Option<(Time, Time)>,
    sent: usize,
    has_keys: bool,
    stored: bool,
    ended: (Option<String>, Option<String>),
    bursts: usize,
    /// How often the sender had something to do, and the receiver.
    wakes: (usize, usize),
}

impl Pair {
    fn new(client: impl Into<Security>, server: impl Into<Security>, bytes: usize, fates: Vec<Fate>) -> Self {
        let rate = RateConfig { expiry: None, ..SenderConfig::default().rate };
        let config = SenderConfig { symbol_bytes: 256, block_symbols: 64, rate, ..SenderConfig::default() };
        let object: Vec<u8> = (0..bytes).map(|n| (n * 31 + n / 256) as u8).collect();
        let now = Time::ZERO;
        Pair {
            now,
            sender: SenderEndpoint::connect(config, now, CONNECTION, client.into()),
            receiver: ReceiverEndpoint::accept(ReceiverConfig::default(), now, CONNECTION, server.into()),
            got: vec![0; object.len()],
            object,
            coming: None,
            under_way: Vec::new(),
            fates,
            outage: None,
            sent: 0,
            has_keys: false,
            stored: false,
            ended: (None, None),
            bursts: 0,
            wakes: (0, 0),
        }
    }

    fn put(&mut self, to_receiver: bool, datagram: Vec<u8>) {
        let fate = self.fates.get(self.sent % self.fates.len().max(1)).copied().unwrap_or(Fate::Passes);
        self.sent += 1;
        if to_receiver && self.outage.is_some_and(|(from, to)| (from..to).contains(&self.now)) {
            return;
        }
        let (at, late) = (self.now + DELAY, self.now + 5 * DELAY);
        match fate {
            Fate::Passes => self.under_way.push((at, to_receiver, datagram)),
            Fate::IsLost => {}
            Fate::ComesTwice => {
                self.under_way.extend([(at, to_receiver, datagram.clone()), (late, to_receiver, datagram)]);
            }
            Fate::ComesLate => self.under_way.push((late, to_receiver, datagram)),
            Fate::IsForged => {
                let mut forged = datagram.clone();
                // Not the name of the connection: it would be another's.
                let place = 5 + self.sent % (forged.len() - 5);
                forged[place] ^= 1 << (self.sent % 8);
                // Before there are keys, TLS notices what was forged, and nothing comes of the connection.
                if self.has_keys {
                    self.under_way.push((self.now + DELAY / 2, to_receiver, forged));
                }
                self.under_way.push((at, to_receiver, datagram));
            }
        }
    }

    fn pump(&mut self) {
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Open => {
                    let version = Version([0; 16]);
                    let size = self.object.len() as u64;
                    let object = Object { size, version, modified_ns: 0, mode: 0 };
                    let sender = self.sender.sender().unwrap();
                    sender.tell_rate(self.now, BITS_PER_S);
                    sender.offer("it", &object).unwrap().unwrap();
                }
                SenderEvent::Load { request, block, offset, bytes } => {
                    let begin = offset as usize;
                    let part = self.object[begin..begin + bytes].into();
                    self.sender.sender().unwrap().provide(request, block, part);
                }
                // Its answer was sealed.
                SenderEvent::Accepted { .. } => self.has_keys = true,
                SenderEvent::Stored { .. } => {
                    self.stored = true;
                    self.sender.release("done");
                }
                SenderEvent::Ended { reason } => self.ended.0 = Some(reason),
                _ => {}
            }
        }
        if self.receiver.is_opening() {
            self.receiver.open(self.now, 1 << 20);
        }
        while let Some(event) = self.receiver.poll_event(self.now) {
            match event {
                ReceiverEvent::Offer(offer) => {
                    let parameters = offer.parameters;
                    let layout =
                        Layout::new(offer.symbol_bytes, offer.block_symbols, parameters.size).unwrap();
                    let cut = Cut::new(layout, offer.code, parameters.seed, parameters.last_seed).unwrap();
                    let blocks = layout.blocks();
                    self.coming = Some((Assembly::new(cut, true), blocks as usize));
                    let all = [Run { first: 0, count: blocks }];
                    self.receiver.receiver().unwrap().accept(parameters.request, &all);
                }
                ReceiverEvent::BlockHash { request, block, hash } => {
                    let (assembly, _) = self.coming.as_mut().unwrap();
                    let step = assembly.hash(block, hash).unwrap();
                    self.take(request, block, step);
                }
                ReceiverEvent::Withdrawn { .. } => {}
                ReceiverEvent::Ended { reason, .. } => self.ended.1 = Some(reason),
            }
        }
        let mut buffer = Vec::new();
        while let Some(Transmit { segment_bytes, .. }) = self.sender.poll_transmit(self.now, &mut buffer, 64)
        {
            for datagram in buffer.chunks(segment_bytes) {
                self.put(true, datagram.to_vec());
            }
            self.bursts += usize::from(buffer.len() >= 8 * segment_bytes);
            buffer.clear();
        }
        while self.receiver.poll_transmit(self.now, &mut buffer) {
            self.put(false, std::mem::take(&mut buffer));
        }
    }

    fn take(&mut self, request: u16, block: u32, step: Step) {
        let receiver = self.receiver.receiver().unwrap();
        match step {
            Step::Pending => {}
            Step::Needs(symbols) => receiver.needs(self.now, request, block, symbols),
            Step::Whole(whole) => {
                let begin = whole.offset as usize;
                self.got[begin..begin + whole.bytes].copy_from_slice(whole.source());
                receiver.complete(self.now, request, block);
                let (_, left) = self.coming.as_mut().unwrap();
                *left -= 1;
                if *left == 0 {
                    receiver.stored(request);
                }
            }
        }
    }

    fn deliver(&mut self, to_receiver: bool, mut datagram: Vec<u8>) {
        if !to_receiver {
            return self.sender.handle_datagram(self.now, &mut datagram);
        }
        if self.receiver.is_over(self.now) {
            // A driver has forgotten it.
            let mut answer = Vec::new();
            reset(CONNECTION, &mut answer);
            return self.put(false, answer);
        }
        let arrival = self.receiver.handle_datagram(self.now, Codepoint::NotEct, &mut datagram);
        let Some(Arrival { request, block, index, payload, .. }) = arrival else { return };
        let (assembly, _) = self.coming.as_mut().unwrap();
        let step = assembly.symbol(block, index, payload, || None).unwrap();
        self.take(request, block, step);
    }

    /// Who has something to do now.
    fn count_wakes(&mut self) {
        let now = self.now;
        let comes = |receives| self.under_way.iter().any(|(at, to, _)| *at <= now && *to == receives);
        let is_due = |timer: Option<Time>| timer.is_some_and(|at| at <= now);
        let (sender, receiver) = (self.sender.poll_timeout(now), self.receiver.poll_timeout());
        self.wakes.0 += usize::from(is_due(sender) || comes(false));
        self.wakes.1 += usize::from(is_due(receiver) || comes(true));
    }

    /// What both ends wait for.
    fn due(&self) -> String {
        let (sender, receiver) = (self.sender.poll_timeout(self.now), self.receiver.poll_timeout());
        let data = self.sender.data().map(|sender| sender.poll_timeout(self.now));
        format!(
            "sender {sender:?} (its data {data:?}), receiver {receiver:?}, {} datagrams under way",
            self.under_way.len()
        )
    }

    /// Runs until the sender has been released or lost, or for so long.
    fn run(&mut self, most: Duration) {
        let end = Time::ZERO + most;
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < MOST_TURNS, "{:?} and does not pass: {}", self.now, self.due());
            self.pump();
            if self.sender.is_over() || self.ended.0.is_some() || self.now >= end {
                return;
            }
            // As a driver that sleeps meanwhile has it.
            if let Some(until) = self.sender.data().and_then(|sender| sender.pause(self.now)) {
                let to_sender = self.under_way.iter_mut().filter(|(_, to_receiver, _)| !to_receiver);
                to_sender.for_each(|(at, ..)| *at = until.max(*at));
            }
            self.under_way.sort_by_key(|(at, ..)| *at);
            let arrives = self.under_way.first().map(|(at, ..)| *at);
            let receiver = self.receiver.poll_timeout().filter(|_| !self.receiver.is_over(self.now));
            let timers = self.sender.poll_timeout(self.now).into_iter().chain(receiver).min();
            let Some(next) = arrives.into_iter().chain(timers).min() else { return };
            if next > self.now {
                (self.now, turns) = (next, 0);
                self.count_wakes();
            }
            if arrives.is_some_and(|at| at <= self.now) {
                let (_, to_receiver, datagram) = self.under_way.remove(0);
                self.deliver(to_receiver, datagram);
            }
            if self.sender.poll_timeout(self.now).is_some_and(|at| at <= self.now) {
                self.sender.handle_timeout(self.now);
            }
            if self.receiver.poll_timeout().is_some_and(|at| at <= self.now) {
                self.receiver.handle_timeout(self.now);
            }
        }
    }
}

#[test]
fn an_object_passes_under_tls_and_the_connection_is_released() {
    let tls = Tls::new();
    let mut pair = Pair::new(Some(tls.client("here")), Some(tls.server()), 300_000, Vec::new());
    pair.run(Duration::from_secs(10));
    assert!(pair.stored && pair.got == pair.object, "{:?}", pair.ended);
    assert!(pair.sender.is_over());
    let ideal = pair.object.len() as f64 * 8.0 / BITS_PER_S;
    assert!(
        pair.now.since(Time::ZERO).as_secs_f64() < 1.6 * ideal,
        "{} s, {ideal} s at least",
        pair.now.since(Time::ZERO).as_secs_f64()
    );
}

#[test]
fn at_a_rate_that_was_told_both_ends_are_woken_by_bursts_and_by_little_else() {
    let tls = Tls::new();
    let mut pair = Pair::new(Some(tls.client("here")), Some(tls.server()), 2_000_000, Vec::new());
    pair.run(Duration::from_secs(10));
    assert!(pair.stored && pair.bursts > 300, "{:?}, {} bursts", pair.ended, pair.bursts);
    let most = pair.bursts * 5 / 4;
    assert!(pair.wakes.0 <= most && pair.wakes.1 <= most, "{:?}: {} bursts", pair.wakes, pair.bursts);
}

#[test]
fn blocks_of_which_nothing_came_are_asked_after_all_at_once() {
    let tls = Tls::new();
    let run = |outage| {
        let mut pair = Pair::new(Some(tls.client("here")), Some(tls.server()), 1_000_000, Vec::new());
        pair.outage = outage;
        pair.run(Duration::from_secs(10));
        assert!(pair.stored && pair.got == pair.object, "{:?}", pair.ended);
        pair.now.since(Time::ZERO)
    };
    let at = |ms| Time::ZERO + Duration::from_millis(ms);
    let (whole, torn) = (run(None), run(Some((at(60), at(100)))));
    let longer = torn.saturating_sub(whole);
    assert!(longer < Duration::from_millis(200), "{longer:?} longer, of which 40 ms were lost");
}

#[test]
fn who_is_not_who_he_should_be_gets_nothing() {
    let (tls, other) = (Tls::new(), Tls::new());
    let named = Pair::new(Some(tls.client("elsewhere")), Some(tls.server()), 1000, Vec::new());
    let unknown = Pair::new(Some(other.client("here")), Some(tls.server()), 1000, Vec::new());
    let clear = Pair::new(Security::Clear, Some(tls.server()), 1000, Vec::new());
    let to_clear = Pair::new(Some(tls.client("here")), Security::Clear, 1000, Vec::new());
    for (mut pair, told) in [
        (named, "its certificate is for another name"),
        (unknown, "was issued by nobody that is trusted"),
        (clear, "the other side speaks TLS"),
        (to_clear, "closed by the other side before TLS was set up"),
    ] {
        pair.run(Duration::from_secs(30));
        let reason = pair.ended.0.clone().unwrap_or_default();
        assert!(reason.contains(told), "{reason:?} says nothing of {told:?}");
        assert!(pair.got.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_receiver_that_falls_silent_is_given_up() {
    let tls = Tls::new();
    let mut pair = Pair::new(Some(tls.client("here")), Some(tls.server()), 1000, vec![Fate::IsLost]);
    pair.run(Duration::from_secs(30));
    let reason = pair.ended.0.clone().unwrap_or_default();
    assert!(reason.contains("did not answer for 10 s"), "{reason}");
    assert!(pair.now.since(Time::ZERO).as_secs_f64() < 11.0);
}

#[test]
fn a_reset_after_the_end_does_not_keep_its_receiver_awake() {
    let tls = Tls::new();
    let mut pair = Pair::new(Some(tls.client("here")), Some(tls.server()), 1000, Vec::new());
    pair.run(Duration::from_secs(10));
    assert!(pair.sender.is_over(), "{:?}", pair.ended);
    let mut datagram = Vec::new();
    reset(CONNECTION, &mut datagram);
    pair.deliver(true, datagram);
    let mut wakes = 0;
    while !pair.receiver.is_over(pair.now) {
        wakes += 1;
        assert!(wakes < 100, "woken again and again: {}", pair.due());
        pair.now = pair.receiver.poll_timeout().unwrap().max(pair.now);
        pair.receiver.handle_timeout(pair.now);
        pair.pump();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever becomes of datagrams, the object arrives as it was.
    #[test]
    fn an_object_arrives_whatever_the_network_does(
        fates in prop::collection::vec(fate::mostly_passes(), 8..60),
        bytes in 1_usize..80_000,
    ) {
        // One that passes, so that not all are lost.
        let fates = fates.into_iter().chain([Fate::Passes]).collect();
        let tls = Tls::new();
        let mut pair = Pair::new(Some(tls.client("here")), Some(tls.server()), bytes, fates);
        pair.run(Duration::from_secs(60));
        prop_assert!(pair.stored && pair.got == pair.object, "{:?} at {:?}", pair.ended, pair.now);
    }
}

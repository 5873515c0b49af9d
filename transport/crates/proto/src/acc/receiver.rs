//! What comes (section III-C).

use std::collections::BTreeMap;
use std::time::Duration;

use codec::rlnc::{Decoder, Recovered, Refused};

use super::Feedback;
use super::sender::Coded;
use crate::Time;
use crate::ecn::Codepoint;
use crate::ranges::RangeSet;

/// Packets that are kept back at most, and numbers below the highest of which it is remembered whether they are here.
const MOST_KEPT: usize = 256;

/// What a receiver has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Packets that have come by themselves.
    pub came: u64,
    /// Coded packets that have come.
    pub coded: u64,
    /// Of them, those that were of no use: malformed, forgotten, or contradictory.
    pub useless: u64,
    /// Packets that were lost, and are here by coded ones.
    pub recovered: u64,
    /// Packets handed on without those before them, as these did not come in time.
    pub impatient: u64,
}

/// The receiver's end of a flow.
#[derive(Debug)]
pub struct Receiver {
    decoder: Decoder,
    /// Numbers that are here, from `floor` on.
    here: RangeSet,
    floor: u64,
    /// Nothing is known of those below.
    first: u64,
    /// All below are here, or not waited for.
    next: u64,
    through: u64,
    lost: u64,
    /// All below were handed on, or were not here when their turn came.
    turn: u64,
    /// Packets that wait for their turn; None: one that has been handed on before it.
    waiting: BTreeMap<u64, Option<Waiting>>,
    /// How long those do that come next.
    patience: Duration,
    counters: ReceiverCounters,
    recovered: Vec<Recovered>,
}

#[derive(Debug)]
struct Waiting {
    until: Time,
    ecn: Codepoint,
    bytes: Vec<u8>,
}

/// Who takes what is handed on, with the mark of the datagram that it has come in; what was recovered has none.
pub type HandOn<'a> = &'a mut dyn FnMut(Codepoint, &[u8]);

impl Receiver {
    /// One to which nothing has come. `patience`: how long packets that follow on a lost one are kept back, so that it may be recovered
    /// before TCP notices.
    pub fn new(patience: Duration) -> Self {
        Receiver::starting(0, patience)
    }

    /// One that knows nothing of packets below `first`.
    pub fn starting(first: u64, patience: Duration) -> Self {
        Receiver {
            decoder: Decoder::new(first),
            here: RangeSet::default(),
            floor: first,
            first,
            next: first,
            through: first,
            lost: 0,
            turn: first,
            waiting: BTreeMap::new(),
            patience,
            counters: ReceiverCounters::default(),
            recovered: Vec::new(),
        }
    }

    /// Packets that come from now on are kept back for so long; those that are kept back already are not let go by that.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Whether packets are kept back at all.
    pub fn waits(&self) -> bool {
        !self.patience.is_zero()
    }

    /// A packet has come, with the mark `ecn`, which its sender has given this number; it codes none below `base` any more. Hands on those
    /// whose turn it is.
    pub fn on_packet(
        &mut self,
        now: Time,
        number: u64,
        base: u64,
        ecn: Codepoint,
        bytes: &[u8],
        hand_on: HandOn<'_>,
    ) {
        self.forget_below(base.min(number));
        if !self.is_new(number) {
            return;
        }
        self.counters.came += 1;
        self.see(number);
        self.take(now, number, ecn, bytes, hand_on);
        let mut recovered = std::mem::take(&mut self.recovered);
        self.decoder.on_packet(number, bytes, &mut recovered);
        self.take_recovered(now, recovered, hand_on);
    }

    /// A coded packet has come. Hands on what it has brought back, and what waited for that.
    ///
    /// # Errors
    /// [`Refused`]: it was of no use.
    pub fn on_coded(&mut self, now: Time, coded: &Coded, hand_on: HandOn<'_>) -> Result<(), Refused> {
        self.counters.coded += 1;
        let mut recovered = std::mem::take(&mut self.recovered);
        let taken = self.decoder.on_coded(coded.first, coded.count, coded.seed, &coded.bytes, &mut recovered);
        match taken {
            // Its packets were all sent before it.
            Ok(()) => self.see(coded.first + coded.count as u64 - 1),
            Err(_) => self.counters.useless += 1,
        }
        self.take_recovered(now, recovered, hand_on);
        taken
    }

    /// Nothing may come for long: frees what is kept for that.
    pub fn rest(&mut self) {
        self.decoder.rest();
    }

    /// What the sender is to be told.
    pub fn feedback(&self) -> Feedback {
        Feedback { next: self.next, through: self.through, lost: self.lost }
    }

    /// When [`Receiver::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        // Those that have come later may be of lower numbers.
        self.waiting.values().flatten().map(|one| one.until).min()
    }

    /// Hands on what has waited for long enough.
    pub fn handle_timeout(&mut self, now: Time, hand_on: HandOn<'_>) {
        let is_due = |one: &Option<Waiting>| one.as_ref().is_some_and(|one| one.until <= now);
        if let Some(last) = self.waiting.iter().rev().find(|(_, one)| is_due(one)).map(|(number, _)| *number)
        {
            self.hand_on_through(last, hand_on);
        }
    }

    /// Hands on all that waits.
    pub fn give_up(&mut self, hand_on: HandOn<'_>) {
        if let Some(last) = self.waiting.keys().next_back().copied() {
            self.hand_on_through(last, hand_on);
        }
    }

    /// What it has done.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.decoder.held_bytes() + self.waiting.values().flatten().map(|one| one.bytes.len()).sum::<usize>()
    }

    /// Whether a packet is here for the first time. One that is late is, though nothing waits for it any more: TCP can still use it.
    fn is_new(&self, number: u64) -> bool {
        number >= self.floor && !self.here.contains(number)
    }

    /// Something was sent up to this number.
    fn see(&mut self, number: u64) {
        self.through = self.through.max(number.saturating_add(1));
        // A packet that was only late was not lost, but d does not fall.
        self.lost = self.lost.max((self.through - self.first).saturating_sub(self.counters.came));
        // What has not come by now has been sent again by TCP, under another number.
        let oldest = self.through.saturating_sub(MOST_KEPT as u64);
        self.forget_below(oldest);
        // Not at each packet.
        if oldest > self.floor + MOST_KEPT as u64 {
            self.floor = oldest;
            self.here.remove(0..oldest);
        }
    }

    fn take_recovered(&mut self, now: Time, mut recovered: Vec<Recovered>, hand_on: HandOn<'_>) {
        for Recovered { number, bytes } in recovered.drain(..) {
            if self.is_new(number) {
                self.counters.recovered += 1;
                self.take(now, number, Codepoint::NotEct, &bytes, hand_on);
            }
        }
        self.recovered = recovered;
    }

    /// A packet is here, by whatever way.
    fn take(&mut self, now: Time, number: u64, ecn: Codepoint, bytes: &[u8], hand_on: HandOn<'_>) {
        self.here.insert(number..number + 1);
        self.advance();
        let (is_next, waits) = (number <= self.turn, !self.patience.is_zero());
        if is_next || !waits {
            hand_on(ecn, bytes);
        }
        if is_next || !waits && self.waiting.is_empty() {
            if number >= self.turn {
                self.turn = number + 1;
                self.hand_on_next(hand_on);
            }
            return;
        }
        let until = now + self.patience;
        self.waiting.insert(number, waits.then(|| Waiting { until, ecn, bytes: bytes.to_vec() }));
        while self.waiting.len() > MOST_KEPT
            && let Some(first) = self.waiting.keys().next().copied()
        {
            self.hand_on_through(first, hand_on);
        }
    }

    /// Hands on packets as long as there is the next.
    fn hand_on_next(&mut self, hand_on: HandOn<'_>) {
        while let Some(one) = self.waiting.remove(&self.turn) {
            if let Some(Waiting { ecn, bytes, .. }) = one {
                hand_on(ecn, &bytes);
            }
            self.turn += 1;
        }
        // If nothing waits, there is no order to keep.
        if self.waiting.values().all(Option::is_none)
            && let Some((last, _)) = self.waiting.pop_last()
        {
            self.waiting.clear();
            self.turn = last + 1;
        }
    }

    /// Hands on all up to this number, whether or not others are missing below, and what follows.
    fn hand_on_through(&mut self, last: u64, hand_on: HandOn<'_>) {
        let later = self.waiting.split_off(&(last + 1));
        let through = std::mem::replace(&mut self.waiting, later);
        for Waiting { ecn, bytes, .. } in through.into_values().flatten() {
            self.counters.impatient += 1;
            hand_on(ecn, &bytes);
        }
        self.turn = self.turn.max(last + 1);
        self.hand_on_next(hand_on);
        // TCP sends again what is still missing, under other numbers: no window is to be coded for it any more.
        self.forget_below(self.turn);
    }

    /// Moves on to the first number that is not here.
    fn advance(&mut self) {
        if let Some(range) = self.here.iter().find(|range| range.contains(&self.next)) {
            self.next = range.end;
        }
    }

    fn forget_below(&mut self, base: u64) {
        if base > self.next {
            self.next = base;
            self.advance();
        }
        self.decoder.forget_below(base);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use codec::Random;
    use codec::gf256::Kernel;
    use codec::rlnc::encode;
    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(1);

    fn packet(number: u64) -> Vec<u8> {
        (0..8 + number * 37 % 90).map(|at| (number * 7 + at) as u8).collect()
    }

    fn coded(first: u64, count: usize, seed: u8) -> Coded {
        let packets: Vec<Vec<u8>> = (first..first + count as u64).map(packet).collect();
        let mut bytes = Vec::new();
        encode(&Kernel::best(), first, packets.iter().map(Vec::as_slice), seed, &mut bytes);
        Coded { first, count, seed, bytes }
    }

    fn into(out: &mut Vec<Vec<u8>>) -> impl FnMut(Codepoint, &[u8]) + '_ {
        |_, bytes| out.push(bytes.to_vec())
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_follows_on_a_lost_packet_waits_for_it() {
        let mut receiver = Receiver::new(PATIENCE);
        let mut out = Vec::new();
        for number in [0, 2, 3] {
            receiver.on_packet(at(0), number, 0, Codepoint::NotEct, &packet(number), &mut into(&mut out));
        }
        assert_eq!(out, [packet(0)]);
        assert_eq!(receiver.feedback(), Feedback { next: 1, through: 4, lost: 1 });
        receiver.on_coded(at(0), &coded(0, 4, 9), &mut into(&mut out)).unwrap();
        assert_eq!(out, (0..4).map(packet).collect::<Vec<_>>());
        assert_eq!(
            receiver.feedback(),
            Feedback { next: 4, through: 4, lost: 1 },
            "it was lost all the same"
        );
        assert_eq!(receiver.poll_timeout(), None);
    }

    #[test]
    fn each_keeps_its_own_mark() {
        let mut receiver = Receiver::new(PATIENCE);
        let mut marks = Vec::new();
        for (number, ecn) in
            [(1, Codepoint::Ce), (2, Codepoint::Ect0), (0, Codepoint::NotEct), (4, Codepoint::Ce)]
        {
            receiver.on_packet(at(0), number, 0, ecn, &packet(number), &mut |ecn, _| marks.push(ecn));
        }
        assert_eq!(marks, [Codepoint::NotEct, Codepoint::Ce, Codepoint::Ect0]);
        receiver.on_coded(at(0), &coded(0, 4, 9), &mut |ecn, _| marks.push(ecn)).unwrap();
        assert_eq!(marks[3..], [Codepoint::NotEct, Codepoint::Ce]);
    }

    #[test]
    fn what_is_not_to_wait_does_not_and_the_order_of_the_others_stays() {
        let mut receiver = Receiver::new(PATIENCE);
        let mut out = Vec::new();
        let mut come = |receiver: &mut Receiver, number, patience| {
            receiver.set_patience(patience);
            receiver.on_packet(at(0), number, 0, Codepoint::NotEct, &packet(number), &mut into(&mut out));
        };
        for (number, patience) in [(1, PATIENCE), (2, Duration::ZERO), (3, PATIENCE), (5, PATIENCE)] {
            come(&mut receiver, number, patience);
        }
        assert_eq!(receiver.poll_timeout(), Some(at(1)));
        come(&mut receiver, 0, PATIENCE);
        come(&mut receiver, 4, PATIENCE);
        assert_eq!(receiver.poll_timeout(), None);
        // Nothing waits: there is no order to keep.
        for number in [7, 6, 9] {
            come(&mut receiver, number, Duration::ZERO);
        }
        assert_eq!(out, [2, 0, 1, 3, 4, 5, 7, 6, 9].map(packet));
    }

    #[test]
    fn what_was_handed_on_before_its_turn_is_not_remembered_once_nothing_waits() {
        let mut receiver = Receiver::new(PATIENCE);
        let mut out = Vec::new();
        let mut come = |receiver: &mut Receiver, number, patience| {
            receiver.set_patience(patience);
            receiver.on_packet(at(0), number, 0, Codepoint::NotEct, &packet(number), &mut into(&mut out));
        };
        for (number, patience) in [(1, PATIENCE), (3, Duration::ZERO), (5, Duration::ZERO)] {
            come(&mut receiver, number, patience);
        }
        assert_eq!(receiver.waiting.len(), 3);
        come(&mut receiver, 0, PATIENCE);
        assert!(receiver.waiting.is_empty());
        come(&mut receiver, 4, PATIENCE);
        assert_eq!(out, [3, 5, 0, 1, 4].map(packet));
    }

    #[test]
    fn but_not_for_long() {
        let mut receiver = Receiver::new(PATIENCE);
        let mut out = Vec::new();
        receiver.on_packet(at(0), 1, 0, Codepoint::NotEct, &packet(1), &mut into(&mut out));
        receiver.handle_timeout(at(0), &mut into(&mut out));
        assert_eq!((out.len(), receiver.poll_timeout()), (0, Some(at(1))));
        receiver.handle_timeout(at(1), &mut into(&mut out));
        receiver.on_packet(at(1), 2, 0, Codepoint::NotEct, &packet(2), &mut into(&mut out));
        // TCP can still use what is late.
        receiver.on_packet(at(2), 0, 0, Codepoint::NotEct, &packet(0), &mut into(&mut out));
        receiver.on_packet(at(2), 0, 0, Codepoint::NotEct, &packet(0), &mut into(&mut out));
        assert_eq!(out, [packet(1), packet(2), packet(0)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the network does, each packet is handed on once at most, as it was sent, and little is held.
        #[test]
        fn each_packet_is_handed_on_once_at_most(seed in any::<u64>(), loss in 0..60_u32, copies in 0..30_u32, jump in 0..200_u64) {
            let mut random = Random::new(seed);
            let (mut receiver, mut handed_on) = (Receiver::new(PATIENCE), BTreeSet::new());
            let mut on_its_way: Vec<(u64, Option<Coded>)> = Vec::new();
            for number in jump..jump + 300 {
                on_its_way.push((number, None));
                if random.below(4) == 0 {
                    let count = 1 + random.below(32.min((number - jump) as u32 + 1)) as usize;
                    on_its_way.push((0, Some(coded(number + 1 - count as u64, count, random.bits() as u8))));
                }
                let now = at(number / 3);
                let mut out = Vec::new();
                receiver.set_patience(if random.below(4) == 0 { Duration::ZERO } else { PATIENCE });
                while !on_its_way.is_empty() && random.below(3) > 0 {
                    let which = random.below(on_its_way.len() as u32) as usize;
                    let one = on_its_way[which].clone();
                    if random.below(100) >= copies {
                        on_its_way.remove(which);
                    }
                    match one {
                        _ if random.below(100) < loss => {}
                        (number, None) => receiver.on_packet(now, number, 0, Codepoint::NotEct, &packet(number), &mut into(&mut out)),
                        (_, Some(coded)) => drop(receiver.on_coded(now, &coded, &mut into(&mut out))),
                    }
                }
                if receiver.poll_timeout().is_some_and(|at| at <= now) {
                    receiver.handle_timeout(now, &mut into(&mut out));
                    prop_assert!(receiver.poll_timeout().is_none_or(|at| at > now));
                }
                for bytes in out {
                    let number = (jump..jump + 300).find(|number| packet(*number) == bytes);
                    prop_assert!(number.is_some_and(|number| handed_on.insert(number)), "{number:?}");
                }
                let Feedback { next, through, lost } = receiver.feedback();
                prop_assert!(next <= through && lost <= through);
                prop_assert!(receiver.held_bytes() < 3 * 256 * 100);
            }
        }
    }
}

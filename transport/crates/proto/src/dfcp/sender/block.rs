//! One block of the sliding window.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::Time;
use crate::coding::Encoder;
use crate::loss::LossMeter;
use crate::object::{Layout, symbol_cap};

/// How often the symbols of a block are sent, all that it may have: a receiver that keeps up needs some of the first round.
const MOST_ROUNDS: u32 = 16;
/// Rounds in a row after which a receiver needs no symbol less than before.
const MOST_IN_VAIN: u32 = 4;

/// Where the symbols of a block come from.
#[derive(Debug)]
pub(super) enum Symbols {
    Coded(Encoder),
    /// These bytes over and over again, as they are: encoding is off.
    Plain(Arc<[u8]>),
}

impl Symbols {
    /// Writes the symbol `index` to `out`, which is zeros, below the cap and of the symbol's length.
    pub(super) fn write(&mut self, index: u16, out: &mut [u8]) {
        match self {
            Symbols::Coded(encoder) => encoder
                .encode(index.into(), out)
                .expect("the index is below the cap, the length is the symbol's"),
            Symbols::Plain(bytes) => {
                let begin = usize::from(index) * out.len() % bytes.len().max(1);
                let some = &bytes[begin..bytes.len().min(begin + out.len())];
                out[..some.len()].copy_from_slice(some);
            }
        }
    }
}

/// A block, from its loading to its acknowledgement.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) request: u16,
    pub(super) number: u32,
    pub(super) bytes: usize,
    pub(super) k: u16,
    pub(super) symbol_bytes: u16,
    /// Once it is loaded.
    pub(super) symbols: Option<Symbols>,
    /// The next symbol's index.
    pub(super) next: u16,
    /// Symbols of the first pass.
    pub(super) first_pass: u16,
    /// Symbols that may be sent now.
    pub(super) allowance: u16,
    probing: bool,
    /// When it was asked after last, since a report said nothing of it.
    asked: Option<Time>,
    /// Since when all symbols that it may have were sent.
    pub(super) spent: Option<Time>,
    /// What the receiver said last that it needs, and what it had said when the round began.
    needs: Option<u16>,
    needed: Option<u16>,
    rounds: u32,
    /// How many of the last rounds brought nothing.
    in_vain: u32,
    flights: VecDeque<Flight>,
}

/// Symbols that may be under way.
#[derive(Debug)]
struct Flight {
    /// The number of the datagram that ends the first of them.
    first: u64,
    /// How many follow one another from there.
    count: u64,
    /// Datagrams of each.
    pieces: u8,
}

impl Block {
    pub(super) fn new(request: u16, number: u32, layout: &Layout) -> Self {
        Block {
            request,
            number,
            bytes: layout.block_bytes(number),
            k: layout.k(number),
            symbol_bytes: layout.symbol_bytes() as u16,
            symbols: None,
            next: 0,
            first_pass: 0,
            allowance: 0,
            probing: false,
            asked: None,
            spent: None,
            needs: None,
            needed: None,
            rounds: 1,
            in_vain: 0,
            flights: VecDeque::new(),
        }
    }

    /// Symbols that may still be sent in all.
    pub(super) fn left(&self) -> u16 {
        symbol_cap(self.k).saturating_sub(self.next)
    }

    /// So many may be sent from now on, however many could before.
    pub(super) fn allow(&mut self, symbols: u64) {
        self.probing = false;
        self.allowance = u16::try_from(symbols).unwrap_or(u16::MAX).min(self.left());
    }

    /// The last symbol may be sent again, to bring about a report.
    pub(super) fn probe(&mut self) {
        (self.allowance, self.probing) = (1, true);
    }

    pub(super) fn has_more(&self) -> bool {
        self.symbols.is_some() && self.allowance > 0
    }

    /// The index of a symbol that goes out in so many datagrams, of which the last has this number.
    pub(super) fn step(&mut self, now: Time, number: u64, pieces: u8) -> u16 {
        let follows = |last: &&mut Flight| {
            last.pieces == pieces && last.first + last.count * u64::from(pieces) == number
        };
        match self.flights.back_mut().filter(follows) {
            Some(last) => last.count += 1,
            None => self.flights.push_back(Flight { first: number, count: 1, pieces }),
        }
        self.allowance -= 1;
        if std::mem::take(&mut self.probing) && self.next > 0 {
            return self.next - 1;
        }
        self.next += u16::from(self.left() > 0);
        if self.left() == 0 {
            self.spent.get_or_insert(now);
        }
        self.next - 1
    }

    /// When to begin over, if all symbols were sent: waits are longer the more rounds were in vain, since a receiver whose
    /// host loses nearly all of them has too much to do.
    pub(super) fn begins_over_at(&self, patience: Duration) -> Option<Time> {
        Some(self.spent? + patience * (1 << self.in_vain))
    }

    /// Sends the same symbols again, since most of them were lost. False: there is no use in that.
    pub(super) fn begin_over(&mut self) -> bool {
        let brought = self.needs.is_some_and(|needs| self.needed.is_none_or(|needed| needs < needed));
        self.in_vain = if brought { 0 } else { self.in_vain + 1 };
        if self.in_vain > MOST_IN_VAIN || self.rounds == MOST_ROUNDS {
            return false;
        }
        self.rounds += 1;
        self.needed = self.needs;
        (self.next, self.spent) = (0, None);
        self.allow(self.needs.unwrap_or(1).into());
        true
    }

    /// How many were sent after the datagram with number `highest`; those before are forgotten.
    fn in_flight(&mut self, highest: u64) -> u64 {
        while let Some(flight) = self.flights.front_mut().filter(|flight| flight.first <= highest) {
            let pieces = u64::from(flight.pieces);
            let gone = ((highest - flight.first) / pieces + 1).min(flight.count);
            (flight.first, flight.count) = (flight.first + gone * pieces, flight.count - gone);
            if flight.count > 0 {
                break;
            }
            self.flights.pop_front();
        }
        self.flights.iter().map(|flight| flight.count).sum()
    }

    /// The receiver, which had got everything up to `highest` that was not lost, says nothing of it. It is asked after if all
    /// that was sent should have come, and again after so long.
    pub(super) fn on_silence(&mut self, now: Time, highest: u64, patience: Duration) {
        let waits = self.next == 0 || self.allowance > 0 || self.in_flight(highest) > 0;
        if !waits && self.asked.is_none_or(|at| now.since(at) >= patience) {
            self.asked = Some(now);
            self.probe();
        }
    }

    /// The receiver, which had got everything up to `highest` that was not lost, needs so many more.
    pub(super) fn on_needs(&mut self, needs: u16, highest: u64, meter: &LossMeter, last: bool) {
        self.needs = Some(needs);
        let in_flight = self.in_flight(highest);
        self.allow(meter.to_send(needs.into(), in_flight, last));
    }
}

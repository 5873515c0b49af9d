//! Symbols that come in pieces, until they are whole.

use wire::packet::{MAX_PIECES, Piece};

use crate::{Budget, Held};

/// Symbols of which some pieces have come and some have not: as many as reordering may mix. A piece more makes the oldest
/// count as lost.
const PLACES: usize = 8;

/// A few symbols, in bounded memory: none before a piece has come.
#[derive(Default)]
pub(super) struct Pieces {
    places: Vec<Place>,
    next: usize,
    held: Option<Held>,
    held_bytes: usize,
}

#[derive(Debug, Default)]
struct Place {
    /// Request, block, index, and how many pieces there are.
    of: Option<(u16, u32, u16, u8)>,
    /// A bit for each piece that has come.
    came: u32,
    bytes: Vec<u8>,
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The symbol is whole: `whole` has it.
    Whole,
    /// Others are missing, or it came before.
    Kept,
    /// It is none of a symbol of this length.
    Wrong,
    /// No memory is left for it.
    NoRoom,
}

impl Pieces {
    /// Takes a piece of a symbol of `symbol_bytes`, with memory of this budget. A symbol that is whole by this is left in `whole`.
    pub(super) fn add(
        &mut self,
        piece: &Piece,
        payload: &[u8],
        symbol_bytes: usize,
        budget: &Budget,
        whole: &mut Vec<u8>,
    ) -> Added {
        let Piece { symbol, piece, of } = *piece;
        let (count, length) = (usize::from(of), payload.len());
        if length != symbol_bytes.div_ceil(count) {
            return Added::Wrong;
        }
        if !self.hold(symbol_bytes, budget) {
            return Added::NoRoom;
        }
        let name = Some((symbol.request, symbol.block, symbol.index, of));
        let known = self.places.iter().position(|place| place.of == name);
        let at = known.unwrap_or_else(|| {
            let at = self.next;
            self.next = (at + 1) % PLACES;
            let place = &mut self.places[at];
            (place.of, place.came) = (name, 0);
            place.bytes.resize(count * length, 0);
            at
        });
        let place = &mut self.places[at];
        let begin = usize::from(piece) * length;
        place.bytes[begin..begin + length].copy_from_slice(payload);
        place.came |= 1 << piece;
        if place.came.count_ones() < of.into() {
            return Added::Kept;
        }
        place.of = None;
        std::mem::swap(&mut place.bytes, whole);
        whole.truncate(symbol_bytes);
        Added::Whole
    }

    /// Holds what all places take, and the symbol that is whole. False: there is not as much left.
    fn hold(&mut self, symbol_bytes: usize, budget: &Budget) -> bool {
        let bytes = (PLACES + 1) * (size_of::<Place>() + symbol_bytes + usize::from(MAX_PIECES));
        if bytes <= self.held_bytes {
            return true;
        }
        let holds = match &mut self.held {
            Some(held) => held.resize(bytes),
            None => {
                self.held = budget.take(bytes);
                self.held.is_some()
            }
        };
        if holds {
            self.held_bytes = bytes;
            self.places.resize_with(PLACES, Place::default);
        }
        holds
    }
}

#[cfg(test)]
mod tests {
    use wire::packet::Symbol;

    use super::*;

    fn piece(index: u16, piece: u8, of: u8) -> Piece {
        Piece { symbol: Symbol { request: 1, block: 2, index, sent_us: 0, rtt_us: 0 }, piece, of }
    }

    fn payload(index: u16, piece: u8) -> [u8; 34] {
        [index as u8 * 16 + piece; 34]
    }

    fn bench(room: usize) -> impl FnMut(Piece) -> (Added, Vec<u8>) {
        let (mut pieces, budget) = (Pieces::default(), Budget::new(room));
        move |piece: Piece| {
            let mut whole = Vec::new();
            let bytes = payload(piece.symbol.index, piece.piece);
            let added = pieces.add(&piece, &bytes, 100, &budget, &mut whole);
            (added, whole)
        }
    }

    fn symbol(index: u16) -> Vec<u8> {
        (0..3).flat_map(|piece| payload(index, piece)).take(100).collect()
    }

    #[test]
    fn a_symbol_is_whole_when_its_last_piece_comes_in_whatever_order() {
        let mut add = bench(usize::MAX);
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            for n in &order[..2] {
                assert_eq!(add(piece(5, *n, 3)).0, Added::Kept);
                assert_eq!(add(piece(5, *n, 3)).0, Added::Kept, "again");
            }
            assert_eq!(add(piece(5, order[2], 3)), (Added::Whole, symbol(5)));
        }
    }

    #[test]
    fn eight_symbols_may_be_mixed_and_the_oldest_of_more_is_lost() {
        let mut add = bench(usize::MAX);
        for n in 0..2 {
            for index in 0..8 {
                assert_eq!(add(piece(index, n, 3)).0, Added::Kept);
            }
        }
        assert_eq!(add(piece(8, 0, 3)).0, Added::Kept);
        assert_eq!(add(piece(0, 2, 3)).0, Added::Kept, "the first is forgotten");
        for index in 2..8 {
            assert_eq!(add(piece(index, 2, 3)), (Added::Whole, symbol(index)));
        }
    }

    #[test]
    fn pieces_of_another_length_or_number_are_not_mixed() {
        let mut add = bench(usize::MAX);
        assert_eq!(add(piece(1, 0, 2)).0, Added::Wrong, "halves of 100 bytes have 50");
        assert_eq!(add(piece(1, 0, 3)).0, Added::Kept);
        assert_eq!(add(piece(1, 1, 3)).0, Added::Kept);
        let mut short = Pieces::default();
        let budget = Budget::new(usize::MAX);
        assert_eq!(short.add(&piece(1, 0, 3), &[1; 33], 100, &budget, &mut Vec::new()), Added::Wrong);
    }

    #[test]
    fn they_take_no_memory_that_there_is_not() {
        assert_eq!(bench(100)(piece(1, 0, 3)).0, Added::NoRoom);
        let budget = Budget::new(100_000);
        let mut pieces = Pieces::default();
        assert_eq!(pieces.add(&piece(1, 0, 3), &payload(1, 0), 100, &budget, &mut Vec::new()), Added::Kept);
        let held = budget.taken();
        assert!((900..3_000).contains(&held), "{held}");
        drop(pieces);
        assert_eq!(budget.taken(), 0);
    }
}

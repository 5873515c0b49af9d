//! Symbols that a path does not carry whole: how they are cut into pieces, and how those become whole again.
//!
//! How symbols go is decided once for many of them ([`Shape`]); an end that has sent and seen no piece does no work for them.

#[cfg(test)]
mod tests;

use wire::packet::{MAX_PIECES, Piece, Symbol, piece_datagram_bytes, symbol_datagram_bytes};

use crate::{Budget, Held};

/// Datagrams for symbols of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) symbol_bytes: u16,
    /// 1: symbols are whole.
    pub(crate) pieces: u8,
    /// Bytes of a symbol in each.
    pub(crate) payload_bytes: usize,
    pub(crate) datagram_bytes: usize,
}

impl Shape {
    /// As few datagrams as possible of at most `carried` bytes each.
    pub(crate) fn of(symbol_bytes: u16, carried: u16, protected: bool) -> Self {
        let (bytes, carried) = (usize::from(symbol_bytes), usize::from(carried));
        let whole = symbol_datagram_bytes(bytes, protected);
        if whole <= carried {
            return Shape { symbol_bytes, pieces: 1, payload_bytes: bytes, datagram_bytes: whole };
        }
        let room = carried.saturating_sub(piece_datagram_bytes(0, protected)).max(1);
        let pieces = bytes.div_ceil(room).clamp(2, MAX_PIECES.into());
        let payload_bytes = bytes.div_ceil(pieces);
        let datagram_bytes = piece_datagram_bytes(payload_bytes, protected);
        Shape { symbol_bytes, pieces: pieces as u8, payload_bytes, datagram_bytes }
    }
}

/// A symbol that is being sent in pieces.
#[derive(Debug)]
pub(crate) struct InPieces {
    pub(crate) symbol: Symbol,
    pub(crate) shape: Shape,
    /// The symbol, and zeros up to the end of the last piece.
    bytes: Vec<u8>,
    next: u8,
}

impl InPieces {
    /// `write` appends nothing, and writes the symbol over the zeros that it is given.
    pub(crate) fn new(symbol: Symbol, shape: Shape, write: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = vec![0; shape.payload_bytes * usize::from(shape.pieces)];
        write(&mut bytes[..shape.symbol_bytes.into()]);
        InPieces { symbol, shape, bytes, next: 0 }
    }

    /// Appends the next piece. Whether it was the last.
    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> bool {
        let Shape { pieces: of, payload_bytes, .. } = self.shape;
        let begin = usize::from(self.next) * payload_bytes;
        Piece { symbol: self.symbol, piece: self.next, of }.emit(out);
        out.extend_from_slice(&self.bytes[begin..begin + payload_bytes]);
        self.next += 1;
        self.next == of
    }
}

/// Symbols of which some pieces have come and some have not: as many as reordering may mix. A piece more makes the oldest
/// count as lost.
const PLACES: usize = 8;

/// A few symbols, in bounded memory: none before a piece has come.
#[derive(Default)]
pub(crate) struct Pieces {
    places: Vec<Place>,
    next: usize,
    held: Option<Held>,
    held_bytes: usize,
}

#[derive(Debug, Default)]
struct Place {
    /// Request, block, index, how many pieces there are, and of how many bytes each.
    of: Option<(u16, u32, u16, u8, usize)>,
    /// A bit for each piece that has come.
    came: u32,
    bytes: Vec<u8>,
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Added {
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
    pub(crate) fn add(
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
        let name = Some((symbol.request, symbol.block, symbol.index, of, length));
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

    /// A request is over: another may have its number.
    pub(crate) fn forget(&mut self, request: u16) {
        for place in &mut self.places {
            place.of.take_if(|of| of.0 == request);
        }
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

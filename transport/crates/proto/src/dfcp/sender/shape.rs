//! How symbols go: each in a datagram, or in pieces where the path does not carry that.

use wire::packet::{MAX_PIECES, Piece, Symbol, piece_datagram_bytes, symbol_datagram_bytes};

/// Datagrams for symbols of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) symbol_bytes: u16,
    /// 1: symbols are whole.
    pub(super) pieces: u8,
    /// Bytes of a symbol in each.
    pub(super) payload_bytes: usize,
    pub(super) datagram_bytes: usize,
}

impl Shape {
    /// As few datagrams as possible of at most `carried` bytes each.
    pub(super) fn of(symbol_bytes: u16, carried: u16, protected: bool) -> Self {
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
pub(super) struct InPieces {
    pub(super) symbol: Symbol,
    pub(super) shape: Shape,
    /// The symbol, and zeros up to the end of the last piece.
    bytes: Vec<u8>,
    next: u8,
}

impl InPieces {
    /// `write` appends nothing, and writes the symbol over the zeros that it is given.
    pub(super) fn new(symbol: Symbol, shape: Shape, write: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = vec![0; shape.payload_bytes * usize::from(shape.pieces)];
        write(&mut bytes[..shape.symbol_bytes.into()]);
        InPieces { symbol, shape, bytes, next: 0 }
    }

    /// Appends the next piece. Whether it was the last.
    pub(super) fn emit(&mut self, out: &mut Vec<u8>) -> bool {
        let Shape { pieces: of, payload_bytes, .. } = self.shape;
        let begin = usize::from(self.next) * payload_bytes;
        Piece { symbol: self.symbol, piece: self.next, of }.emit(out);
        out.extend_from_slice(&self.bytes[begin..begin + payload_bytes]);
        self.next += 1;
        self.next == of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_goes_in_as_few_datagrams_as_the_path_allows() {
        let pieces = |symbol_bytes, carried| Shape::of(symbol_bytes, carried, true).pieces;
        assert_eq!([1450, 1449, 1252, 972, 512].map(|carried| pieces(1408, carried)), [1, 2, 2, 2, 4]);
        for symbol_bytes in [16, 100, 1408, 8960] {
            for carried in 512..9100 {
                for protected in [false, true] {
                    let shape = Shape::of(symbol_bytes, carried, protected);
                    assert!(shape.datagram_bytes <= carried.into(), "{shape:?}");
                    assert!(
                        usize::from(shape.pieces) * shape.payload_bytes >= symbol_bytes.into(),
                        "{shape:?}"
                    );
                    assert!(shape.pieces <= MAX_PIECES);
                }
            }
        }
    }
}

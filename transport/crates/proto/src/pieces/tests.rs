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
                assert!(usize::from(shape.pieces) * shape.payload_bytes >= symbol_bytes.into(), "{shape:?}");
                assert!(shape.pieces <= MAX_PIECES);
            }
        }
    }
}

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

#[test]
fn a_request_that_has_the_number_of_one_before_begins_with_nothing() {
    let (mut pieces, budget, mut whole) = (Pieces::default(), Budget::new(usize::MAX), Vec::new());
    let mut add = |pieces: &mut Pieces, which, byte, symbol_bytes: usize| {
        let payload = vec![byte; symbol_bytes.div_ceil(2)];
        pieces.add(&piece(0, which, 2), &payload, symbol_bytes, &budget, &mut whole)
    };
    assert_eq!(add(&mut pieces, 0, 1, 100), Added::Kept);
    // A request of the same number has longer symbols, though nobody has said that the first is over.
    assert_eq!(add(&mut pieces, 0, 2, 1_000), Added::Kept);
    pieces.forget(1);
    assert_eq!(add(&mut pieces, 1, 3, 1_000), Added::Kept);
    assert_eq!(add(&mut pieces, 0, 3, 1_000), Added::Whole);
    assert_eq!(whole, [3; 1_000]);
}

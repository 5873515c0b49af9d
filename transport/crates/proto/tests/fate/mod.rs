//! What becomes of datagrams on their way.

use proptest::prelude::*;

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Passes,
    IsLost,
    ComesTwice,
    ComesLate,
    /// A copy with a bit that is another overtakes it.
    IsForged,
}

/// The fate of one datagram, which passes in most cases.
pub fn mostly_passes() -> impl Strategy<Value = Fate> {
    prop_oneof![
        29 => Just(Fate::Passes),
        6 => Just(Fate::IsLost),
        5 => Just(Fate::ComesTwice),
        5 => Just(Fate::ComesLate),
        5 => Just(Fate::IsForged),
    ]
}

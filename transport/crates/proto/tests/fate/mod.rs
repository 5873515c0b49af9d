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

/// Most pass.
pub fn any() -> impl Strategy<Value = Fate> {
    prop_oneof![
        16 => Just(Fate::Passes),
        3 => Just(Fate::IsLost),
        2 => Just(Fate::ComesTwice),
        2 => Just(Fate::ComesLate),
        2 => Just(Fate::IsForged),
    ]
}

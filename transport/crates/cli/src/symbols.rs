//! How long symbols are, and how many make a block: as long as the path carries, and always blocks of the same length, so
//! that what has come over another path counts.

use std::net::SocketAddr;

use proto::object::cuts;
use wire::packet::symbol_datagram_bytes;

use crate::args::SymbolBytes;

const UDP_BYTES: usize = 8;

/// The cut of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// Bytes of a symbol.
    pub(crate) bytes: u16,
    /// Symbols of a block.
    pub(crate) of_a_block: u16,
    protected: bool,
    /// Whether they are as long as the path allows; else as long as they were asked to be.
    fitted: bool,
}

impl Symbols {
    /// What the command line asks for.
    pub(crate) fn new(bytes: SymbolBytes, of_a_block: u16, protected: bool) -> Self {
        let fitted = bytes == SymbolBytes::Mtu;
        Symbols { bytes: bytes.exactly(protected), of_a_block, protected, fitted }
    }

    /// Whether they are shorter where the path carries less.
    pub(crate) fn are_fitted(self) -> bool {
        self.fitted
    }

    /// Cuts blocks of this length, the longest symbols first.
    fn cuts(self) -> impl Iterator<Item = Symbols> {
        cuts(self.bytes, self.of_a_block).map(move |(bytes, of_a_block)| Symbols {
            bytes,
            of_a_block,
            ..self
        })
    }

    /// The longest that all these paths carry, as far as the system knows them.
    pub(crate) fn fit(self, peers: impl IntoIterator<Item = SocketAddr>) -> Self {
        let room = peers.into_iter().filter_map(|peer| {
            // Where there is no way, that is found out by going it.
            let mtu = udp::path_mtu(peer).ok()?;
            Some(mtu.saturating_sub(UDP_BYTES + if peer.is_ipv4() { 20 } else { 40 }))
        });
        match room.min() {
            Some(room) => self.within(room),
            None => self,
        }
    }

    fn within(self, room: usize) -> Self {
        let fits = |cut: &Symbols| symbol_datagram_bytes(cut.bytes.into(), self.protected) <= room;
        if fits(&self) || !self.fitted {
            return self;
        }
        self.cuts().find(fits).or_else(|| self.cuts().last()).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(symbols: Symbols) -> u32 {
        u32::from(symbols.bytes) * u32::from(symbols.of_a_block)
    }

    #[test]
    fn every_cut_gives_blocks_of_the_same_length() {
        for (of_a_block, protected) in
            [(256, true), (256, false), (512, true), (512, false), (1, true), (8192, true)]
        {
            let whole = Symbols::new(SymbolBytes::Mtu, of_a_block, protected);
            let cuts: Vec<Symbols> = whole.cuts().collect();
            assert_eq!(cuts.first(), Some(&whole));
            assert!(cuts.is_sorted_by(|longer, shorter| shorter.bytes < longer.bytes));
            for cut in cuts {
                assert_eq!(bytes(cut), bytes(whole), "{cut:?}");
            }
        }
    }

    #[test]
    fn symbols_fit_the_path_and_waste_little_of_it() {
        for of_a_block in [256, 512] {
            for protected in [true, false] {
                let whole = Symbols::new(SymbolBytes::Mtu, of_a_block, protected);
                assert_eq!(whole.within(1452), whole);
                for (mtu, least) in [(1420, 1000), (1280, 1000), (1000, 500), (576, 256)] {
                    let room = mtu - 48;
                    let cut = whole.within(room);
                    assert!(symbol_datagram_bytes(cut.bytes.into(), protected) <= room, "{mtu}: {cut:?}");
                    assert!(cut.bytes >= least, "{mtu}: {cut:?}");
                }
            }
        }
    }

    #[test]
    fn a_length_that_was_asked_for_stays() {
        let asked = Symbols::new(SymbolBytes::Exactly(1024), 256, true);
        assert_eq!(asked.within(600), asked);
    }
}

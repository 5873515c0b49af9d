//! What a client does for a path that does not carry symbols whole: it answers its server's probes, and puts pieces together.

use wire::packet::{Piece, Symbol};

use super::{Client, ServerId};
use crate::Time;
use crate::ecn::Codepoint;
use crate::object::Arrival;
use crate::pacer::FRAME_BYTES;
use crate::pieces::Added;

impl Client {
    /// A part of a symbol, for which the path is too narrow. Returns the symbol if it is whole by that, and of use.
    pub(super) fn on_piece(
        &mut self,
        now: Time,
        server: ServerId,
        number: u64,
        bytes: usize,
        body: &[u8],
        ecn: Codepoint,
    ) -> Option<Arrival<'_>> {
        let peer = &mut self.peers[server.0];
        let parsed = Piece::parse(body).ok().filter(|_| peer.is_ready());
        peer.on_piece(now, number, bytes, parsed.as_ref().map_or(1, |(piece, _)| piece.of));
        let gap = peer.arrived(number);
        peer.heard = now;
        let Some((piece, payload)) = parsed else { return peer.packets.unexpected() };
        let sample = peer.on_symbol(now, number, bytes, &piece.symbol, ecn);
        let symbol_bytes = self.config.symbol_bytes.into();
        let added = peer.pieces.add(&piece, payload, symbol_bytes, &self.room, &mut self.whole);
        if added == Added::Wrong {
            peer.packets.unexpected::<()>();
        }
        self.measure(server, sample);
        self.window.on_arrival(now, bytes + FRAME_BYTES, gap);
        let whole = added == Added::Whole;
        let enough = if whole { self.on_symbol(server, piece.symbol, symbol_bytes) } else { None };
        self.give_up_overdue(server);
        let Symbol { request, block, index, .. } = piece.symbol;
        Some(Arrival { request, block, index, enough: enough?, payload: &self.whole })
    }

    /// The server asks how much the path carries. What it has sent meanwhile may have been too long: it is asked for anew, after
    /// the answer.
    pub(super) fn on_probe(&mut self, now: Time, server: ServerId, datagram: &mut [u8]) {
        let wire_bytes = self.wire_bytes(server);
        let peer = &mut self.peers[server.0];
        if peer.on_probe(now, datagram) && peer.has_stalled(now) {
            self.outstanding_bytes -= peer.give_up(now) as usize * wire_bytes;
        }
    }
}

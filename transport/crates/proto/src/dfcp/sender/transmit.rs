//! What goes next, and how: bursts of symbols, or of pieces of them.

use wire::packet::{Kind, Symbol, TAG_BYTES};

use super::block::{Block, Symbols};
use super::{Sender, Transmit};
use crate::Time;
use crate::dfcp::Guide;
use crate::ecn::Codepoint;
use crate::pacer::FRAME_BYTES;
use crate::pieces::{InPieces, Shape};

/// Changes of the length of datagrams that are remembered.
const MOST_LENGTHS: usize = 64;

impl Sender {
    /// The block to send of: what was begun first comes first, and what comes short before what is new; without early
    /// stop, all take turns once each has been sent.
    pub(super) fn next_block(&self) -> Option<usize> {
        let sends = |block: &Block| block.has_more();
        if self.config.early_stop || !self.config.acknowledgements {
            return self.blocks.iter().position(sends);
        }
        let first = self.blocks.iter().position(|block| sends(block) && block.next < block.first_pass);
        let count = self.blocks.len();
        let turns = || (1..=count).map(|n| (self.turn + n) % count).find(|at| sends(&self.blocks[*at]));
        first.or_else(turns)
    }

    /// The next burst: datagrams of one size, appended to `buffer`, at most `max_datagrams` of them.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        let rate = self.rate.rate(now);
        if self.ended || rate <= 0.0 || max_datagrams == 0 || now < self.pacer.release(rate) {
            return None;
        }
        let shape = self.next_shape()?;
        let segment_bytes = shape.datagram_bytes;
        self.resize(segment_bytes);
        let burst = self.config.burst.at(rate, segment_bytes, max_datagrams);
        let sent = if shape.pieces == 1 {
            self.send_whole(now, shape, burst, buffer)
        } else {
            self.send_pieces(now, shape, burst, buffer)
        };
        let waiting = self.has_more();
        self.pacer.sent(now, rate, sent * segment_bytes, waiting);
        self.path.on_sent(now, sent as u32);
        self.sent = now;
        // Under a rate that was told, nobody would heed a mark (RFC 3168, section 5).
        let marked = self.guide == Guide::Tfrc && self.marking.is_on();
        self.marking.on_sent(now, self.rtt, sent as u64, marked);
        // TFRC's own rate holds nothing back while another is used.
        let limited = self.guide != Guide::Tfrc || !waiting;
        for _ in 0..sent {
            self.rate.tfrc.on_sent(now, segment_bytes as u32, limited);
        }
        if !self.config.acknowledgements {
            self.let_go(now);
        }
        let ecn = if marked { Codepoint::Ect0 } else { Codepoint::NotEct };
        Some(Transmit { segment_bytes, ecn })
    }

    /// Whether there is something to send.
    pub(super) fn has_more(&self) -> bool {
        self.in_pieces.is_some() || self.next_block().is_some()
    }

    /// How what is to be sent next goes.
    fn next_shape(&mut self) -> Option<Shape> {
        // Of a symbol whose pieces the path does not carry any more, the rest is of no use.
        let carried = usize::from(self.carried);
        self.in_pieces.take_if(|symbol| symbol.shape.datagram_bytes > carried);
        match &self.in_pieces {
            Some(symbol) => Some(symbol.shape),
            None => self.next_block().map(|at| self.shape(self.blocks[at].symbol_bytes)),
        }
    }

    /// Sends up to so many symbols, all of one length. Returns how many.
    fn send_whole(&mut self, now: Time, shape: Shape, burst: usize, buffer: &mut Vec<u8>) -> usize {
        let mut sent = 0;
        while sent < burst
            && let Some(at) = self.next_block()
            && self.blocks[at].symbol_bytes == shape.symbol_bytes
        {
            // Nothing comes before it while nothing is heard.
            let in_order = self.config.early_stop || !self.config.acknowledgements;
            let run = if in_order { burst - sent } else { 1 };
            for _ in 0..run {
                self.send(now, at, buffer);
                sent += 1;
                if !self.blocks[at].has_more() {
                    break;
                }
            }
        }
        sent
    }

    /// Sends up to so many datagrams with pieces of symbols. Returns how many.
    fn send_pieces(&mut self, now: Time, shape: Shape, burst: usize, buffer: &mut Vec<u8>) -> usize {
        let mut sent = 0;
        while sent < burst {
            let mut symbol = match self.in_pieces.take() {
                Some(symbol) => symbol,
                None => {
                    let Some(at) = self.next_block() else { break };
                    if self.shape(self.blocks[at].symbol_bytes) != shape {
                        break;
                    }
                    self.cut_symbol(now, at, shape)
                }
            };
            if symbol.shape != shape {
                self.in_pieces = Some(symbol);
                break;
            }
            let mut last = false;
            self.packets.seal(Kind::Piece, buffer, |_, buffer| last = symbol.emit(buffer));
            self.counters.pieces += 1;
            self.in_pieces = Some(symbol).filter(|_| !last);
            sent += 1;
        }
        sent
    }

    /// The next symbol of a block, to be sent in pieces.
    fn cut_symbol(&mut self, now: Time, at: usize, shape: Shape) -> InPieces {
        let last = self.packets.next_number() + u64::from(shape.pieces) - 1;
        let (symbol, symbols) = self.step(now, at, last, shape.pieces);
        InPieces::new(symbol, shape, |out| {
            if let Some(symbols) = symbols {
                symbols.write(symbol.index, out);
            }
        })
    }

    /// Counts the next symbol of a block, which goes in so many datagrams, of which the last has this number.
    fn step(&mut self, now: Time, at: usize, number: u64, pieces: u8) -> (Symbol, Option<&mut Symbols>) {
        self.turn = at;
        let block = &mut self.blocks[at];
        self.counters.symbols += 1;
        self.counters.repairs += u64::from(block.next >= block.first_pass);
        let rtt_us = self.rtt.as_micros().min(u128::from(u32::MAX)) as u32;
        let index = block.step(now, number, pieces);
        let symbol =
            Symbol { request: block.request, block: block.number, index, sent_us: now.micros(), rtt_us };
        (symbol, block.symbols.as_mut())
    }

    fn send(&mut self, now: Time, at: usize, buffer: &mut Vec<u8>) {
        let symbol_bytes = usize::from(self.blocks[at].symbol_bytes);
        let (symbol, _) = self.step(now, at, self.packets.next_number(), 1);
        let symbols = &mut self.blocks[at].symbols;
        self.packets.seal(Kind::Symbol, buffer, |_, buffer| {
            symbol.emit(buffer);
            let payload = buffer.len();
            // A place for the tag as well: sealing then never moves the burst.
            buffer.reserve(symbol_bytes + TAG_BYTES);
            buffer.resize(payload + symbol_bytes, 0);
            if let Some(symbols) = symbols {
                symbols.write(symbol.index, &mut buffer[payload..]);
            }
        });
    }

    /// Without acknowledgements, what was sent counts as delivered.
    fn let_go(&mut self, now: Time) {
        let done = |block: &&Block| block.symbols.is_some() && block.allowance == 0;
        let gone: Vec<_> = self.blocks.iter().filter(done).map(|b| (b.request, b.number)).collect();
        for (request, number) in gone {
            self.on_delivered(request, number);
        }
        self.open(now);
    }

    /// Datagrams have this length from now on.
    fn resize(&mut self, bytes: usize) {
        if self.lengths.back().is_some_and(|(_, before)| *before == bytes) {
            return;
        }
        if self.lengths.len() == MOST_LENGTHS {
            self.lengths.pop_front();
        }
        self.lengths.push_back((self.packets.next_number(), bytes));
        self.rate.resize(bytes, FRAME_BYTES);
    }
}

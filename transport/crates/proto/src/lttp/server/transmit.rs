//! What a server sends, and when: welcomes, probes of the path, symbols and pieces of them.

use std::ops::Bound;
use std::time::Duration;

use wire::packet::{Kind, Symbol, TAG_BYTES, Welcome};

use super::sending::Step;
use super::{Request, SEGMENT_BYTES, Server, Transmit};
use crate::Time;
use crate::ecn::Codepoint;
use crate::pieces::{InPieces, Shape};

impl Server {
    /// The next burst: datagrams of one size, appended to `buffer`, at most `max_datagrams` of them.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        let to = self.peer.filter(|_| !self.ended)?;
        let begin = buffer.len();
        if self.welcome(buffer) || self.probes() && self.path.poll_probe(now, buffer) {
            return Some(Transmit { to, segment_bytes: buffer.len() - begin, ecn: Codepoint::NotEct });
        }
        if now < self.pacer.release(self.pace()) || max_datagrams == 0 {
            return None;
        }
        let (request, shape) = self.next_shape(now)?;
        let segment_bytes = shape.datagram_bytes;
        let burst = self.config.burst.at(self.pace(), segment_bytes, max_datagrams);
        let first = self.packets.next_number();
        let sent = if shape.pieces == 1 {
            self.send_whole(now, request, shape, burst, buffer)
        } else {
            self.send_pieces(now, request, shape, burst, buffer)
        };
        self.turn = request;
        if sent == 0 {
            return None;
        }
        let marked = self.marking.is_on();
        self.marking.on_sent(now, self.rtt(), sent as u64, marked);
        self.path.on_sent(now, first, sent, segment_bytes);
        self.after_burst(now, sent, segment_bytes);
        let ecn = if marked { Codepoint::Ect0 } else { Codepoint::NotEct };
        Some(Transmit { to, segment_bytes, ecn })
    }

    /// Appends the answer to the last hello, if one is due.
    fn welcome(&mut self, buffer: &mut Vec<u8>) -> bool {
        let Some((hello, bytes)) = self.welcome.take() else { return false };
        self.path.welcomed();
        let end = (buffer.len() + bytes).saturating_sub(self.packets.tag_bytes());
        self.packets.seal(Kind::Welcome, buffer, |_, buffer| {
            Welcome { hello }.emit(buffer);
            // As long as the hello: the path carries that both ways, or neither.
            buffer.resize(end.max(buffer.len()), 0);
        });
        true
    }

    /// Whether the path is of interest.
    pub(super) fn probes(&self) -> bool {
        !self.requests.is_empty()
    }

    /// What is sent next, and how.
    fn next_shape(&mut self, now: Time) -> Option<(u16, Shape)> {
        // Of a symbol whose pieces the path does not carry any more, or that nobody wants, the rest is of no use.
        let (carried, requests) = (usize::from(self.path.size()), &self.requests);
        let is_of_no_use = |symbol: &mut InPieces| {
            symbol.shape.datagram_bytes > carried || !requests.contains_key(&symbol.symbol.request)
        };
        self.path.in_pieces.take_if(is_of_no_use);
        if let Some(symbol) = &self.path.in_pieces {
            return Some((symbol.symbol.request, symbol.shape));
        }
        let request = self.next_request(now)?;
        Some((request, self.path.shape(self.requests.get(&request)?.fetch.symbol_bytes)))
    }

    /// Sends up to so many symbols. Returns how many.
    fn send_whole(
        &mut self,
        now: Time,
        request: u16,
        shape: Shape,
        burst: usize,
        buffer: &mut Vec<u8>,
    ) -> usize {
        let (rtt, heard, symbol_bytes) = (self.rtt(), self.heard, usize::from(shape.symbol_bytes));
        let Some(serving) = self.requests.get_mut(&request) else { return 0 };
        let mut sent = 0;
        while sent < burst
            && let Some(step) = serving.step(now, rtt, heard)
        {
            self.packets.seal(Kind::Symbol, buffer, |_, buffer| {
                symbol(now, request, step, rtt).emit(buffer);
                let payload = buffer.len();
                // A place for the tag as well: sealing then never moves the burst.
                buffer.reserve(symbol_bytes + TAG_BYTES);
                buffer.resize(payload + symbol_bytes, 0);
                serving.encode(step, &mut buffer[payload..]);
            });
            sent += 1;
        }
        self.counters.symbols += sent as u64;
        sent
    }

    /// Sends up to so many pieces of symbols. Returns how many.
    fn send_pieces(
        &mut self,
        now: Time,
        request: u16,
        shape: Shape,
        burst: usize,
        buffer: &mut Vec<u8>,
    ) -> usize {
        let mut sent = 0;
        while sent < burst {
            let begun = self.path.in_pieces.take();
            let Some(mut symbol) = begun.or_else(|| self.cut_symbol(now, request, shape)) else { break };
            // It tells the round trip.
            symbol.symbol.sent_us = now.micros();
            let mut last = false;
            self.packets.seal(Kind::Piece, buffer, |_, buffer| last = symbol.emit(buffer));
            self.path.in_pieces = Some(symbol).filter(|_| !last);
            sent += 1;
        }
        self.counters.pieces += sent as u64;
        sent
    }

    /// The next symbol of a request, to be sent in pieces.
    fn cut_symbol(&mut self, now: Time, request: u16, shape: Shape) -> Option<InPieces> {
        let (rtt, heard) = (self.rtt(), self.heard);
        let serving = self.requests.get_mut(&request)?;
        let step = serving.step(now, rtt, heard)?;
        self.counters.symbols += 1;
        Some(InPieces::new(symbol(now, request, step, rtt), shape, |out| serving.encode(step, out)))
    }

    /// TFRC's rate in bytes/s, but for what keeps the connection alive.
    fn pace(&self) -> f64 {
        let least = f64::from(SEGMENT_BYTES) / self.config.longest_gap.as_secs_f64();
        self.tfrc.as_ref().map_or(least, |tfrc| tfrc.rate().max(least))
    }

    fn after_burst(&mut self, now: Time, sent: usize, segment_bytes: usize) {
        self.pacer.sent(now, self.pace(), sent * segment_bytes, true);
        let limited = self.path.in_pieces.is_none() && self.next_request(now).is_none();
        if let Some(tfrc) = &mut self.tfrc {
            for _ in 0..sent {
                tfrc.on_sent(now, segment_bytes as u32, limited);
            }
        }
    }

    /// The request whose turn it is among those that have something to send.
    fn next_request(&self, now: Time) -> Option<u16> {
        let ready = |(id, request): (&u16, &Request)| {
            request.ready_at(self.heard).is_some_and(|at| at <= now).then_some(*id)
        };
        let after = self.requests.range((Bound::Excluded(self.turn), Bound::Unbounded));
        after.chain(self.requests.range(..=self.turn)).find_map(ready)
    }

    /// When there is something to send.
    pub(super) fn ready_at(&self) -> Option<Time> {
        let rest = self.path.in_pieces.as_ref().map(|_| Time::ZERO);
        let ready = rest.or_else(|| self.requests.values().filter_map(|r| r.ready_at(self.heard)).min());
        Some(ready?.max(self.pacer.release(self.pace())))
    }
}

fn symbol(now: Time, request: u16, step: Step, rtt: Duration) -> Symbol {
    let rtt_us = rtt.as_micros().min(u128::from(u32::MAX)) as u32;
    let Step { block, index } = step;
    Symbol { request, block, index, sent_us: now.micros(), rtt_us }
}

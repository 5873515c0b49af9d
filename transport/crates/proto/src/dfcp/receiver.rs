//! The receiving end: takes symbols, tells what is needed, and acknowledges blocks (the paper's section 4.5).

mod block;
mod interface;
mod report;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use wire::control::{self, Code, MAX_PATH_BYTES, MAX_RUNS, Offer, Refusal, Run};
use wire::packet::{Kind, Piece, Symbol};

use self::block::Block;
pub use self::interface::{ReceiverConfig, ReceiverCounters, ReceiverEvent};
use self::report::{LEAST_INTERVAL, Newest};
use crate::block_set::BlockSet;
use crate::ecn::{Codepoint, Counts};
use crate::object::{Arrival, Layout, symbol_cap};
use crate::packets::{Dropped, Opened, Packets};
use crate::pieces::{Added, Pieces};
use crate::protect::Protection;
use crate::{Held, Time, tfrc};

/// What an object costs beside its path, the copies of that, and its codes; each hash that waits for its block; and each
/// run of blocks that have not come, at all ends that know of it.
const OBJECT_BYTES: usize = 1024;
const COPIES_OF_A_PATH: usize = 4;
const HASH_BYTES: usize = 96;
const RUN_BYTES: usize = 24;
/// One connection of a sender.
pub struct Receiver {
    config: ReceiverConfig,
    packets: Packets,
    greeted: bool,
    ceiling_bps: Option<u64>,
    tfrc: Option<tfrc::Receiver>,
    /// The highest symbol, and the sender's clock as it has told it.
    newest: Newest,
    counts: Counts,
    objects: BTreeMap<u16, Receiving>,
    /// The blocks under way, the oldest first.
    blocks: VecDeque<Block>,
    held_bytes: u64,
    pieces: Pieces,
    /// The symbol that the last piece has made whole.
    whole: Vec<u8>,
    /// Blocks to acknowledge, and in how many reports yet.
    done: VecDeque<(u16, u32, u8)>,
    /// The block that the next report begins with, if not all fit.
    turn: usize,
    /// When the next report goes.
    report_at: Option<Time>,
    interval: Duration,
    reported: Time,
    heard: Time,
    control: VecDeque<control::Receiver>,
    events: VecDeque<ReceiverEvent>,
    counters: ReceiverCounters,
    ended: bool,
}

/// An object that was offered.
struct Receiving {
    layout: Layout,
    /// What has not come; `None` until the driver has looked.
    wanted: Option<BlockSet>,
    /// Those of it whose hash has come.
    hashed: BTreeSet<u32>,
    /// What it costs for as long as it is known, and now.
    least_bytes: usize,
    code: Code,
    begun: bool,
    held: Held,
    _of_objects: Held,
}

impl Receiving {
    /// Holds what it costs as it is now. False: there is not as much left.
    fn hold(&mut self) -> bool {
        let runs = self.wanted.as_ref().map_or(0, |wanted| wanted.runs().len());
        self.held.resize(self.least_bytes + HASH_BYTES * self.hashed.len() + RUN_BYTES * runs)
    }
}

impl Receiver {
    /// A connection that has been let in.
    pub fn new(config: ReceiverConfig, now: Time, connection: u32, protection: Protection) -> Self {
        Receiver {
            config,
            packets: Packets::new(connection, protection),
            greeted: false,
            ceiling_bps: None,
            tfrc: None,
            newest: Newest::default(),
            counts: Counts::default(),
            objects: BTreeMap::new(),
            blocks: VecDeque::new(),
            held_bytes: 0,
            pieces: Pieces::default(),
            whole: Vec::new(),
            done: VecDeque::new(),
            turn: 0,
            report_at: None,
            interval: LEAST_INTERVAL,
            reported: now,
            heard: now,
            control: VecDeque::new(),
            events: VecDeque::new(),
            counters: ReceiverCounters::default(),
            ended: false,
        }
    }

    /// Asks the sender to be no faster than this from now on, in bit/s of whole Ethernet frames. Whether there is something to
    /// say.
    pub fn cap(&mut self, bps: u64) -> bool {
        let says = self.ceiling_bps.replace(bps) != Some(bps) && self.greeted && !self.ended;
        if says {
            self.control.push_back(control::Receiver::Ceiling { bps });
        }
        says
    }

    /// A message of the control channel.
    pub fn handle_control(&mut self, now: Time, message: control::Sender) {
        if self.ended {
            return;
        }
        self.heard = now;
        match message {
            control::Sender::Hello { version } if version != wire::VERSION => {
                self.end(format!("version {version} of DFCP is not spoken here, only {}", wire::VERSION));
            }
            control::Sender::Hello { .. } if self.greeted => self.end("a second hello".into()),
            control::Sender::Hello { .. } => {
                self.greeted = true;
                let window_bytes = self.config.window_bytes;
                self.control.push_back(control::Receiver::Welcome { version: wire::VERSION, window_bytes });
                self.control.extend(self.ceiling_bps.map(|bps| control::Receiver::Ceiling { bps }));
            }
            _ if !self.greeted => self.end("the first message is a hello".into()),
            control::Sender::Offer(offer) => self.on_offer(offer),
            control::Sender::BlockHash { request, block, hash } => {
                // What is of no use is not passed on: nobody has to remember it.
                let hashed: usize = self.objects.values().map(|object| object.hashed.len()).sum();
                let Some(object) = self.objects.get_mut(&request) else { return };
                let wanted = object.wanted.as_ref().is_some_and(|wanted| wanted.contains(block));
                if !wanted || object.hashed.contains(&block) {
                    return;
                }
                if hashed >= self.config.max_blocks {
                    return self.end("hashes of more blocks than may be under way".into());
                }
                object.hashed.insert(block);
                if !object.hold() {
                    return self.end("no memory is left for more hashes".into());
                }
                self.events.push_back(ReceiverEvent::BlockHash { request, block, hash });
            }
            control::Sender::Withdraw { request, detail } => {
                if self.forget(request) {
                    self.events.push_back(ReceiverEvent::Withdrawn { request, detail });
                }
            }
            control::Sender::Bye { reason } => self.finish(format!("the sender says: {reason}")),
        }
    }

    fn on_offer(&mut self, offer: Offer) {
        let request = offer.parameters.request;
        if self.objects.contains_key(&request) {
            return self.end(format!("request {request} was offered twice"));
        }
        if self.objects.len() >= self.config.max_objects {
            let detail = format!("more than {} objects at a time", self.config.max_objects);
            return self.answer(request, Refusal::Busy, detail);
        }
        if offer.path.len() > MAX_PATH_BYTES {
            let detail = format!("a path has at most {MAX_PATH_BYTES} bytes");
            return self.answer(request, Refusal::BadParameters, detail);
        }
        let Some(layout) = Layout::new(offer.symbol_bytes, offer.block_symbols, offer.parameters.size) else {
            let detail = format!("{} symbols of {} bytes", offer.block_symbols, offer.symbol_bytes);
            return self.answer(request, Refusal::BadParameters, detail);
        };
        if layout.blocks() > 1 && layout.block_bytes(0) < self.config.least_block_bytes {
            let detail = format!(
                "blocks of {} bytes: this receiver takes none below {}, but for objects of one block",
                layout.block_bytes(0),
                self.config.least_block_bytes
            );
            return self.answer(request, Refusal::BadParameters, detail);
        }
        let least_bytes = OBJECT_BYTES + COPIES_OF_A_PATH * offer.path.len() + layout.code_bytes();
        let (held, of_objects) = (self.config.state.take(least_bytes), self.config.objects.take(1));
        let (Some(held), Some(of_objects)) = (held, of_objects) else {
            let detail = "there is no room for more objects, of all senders together".to_owned();
            return self.answer(request, Refusal::Busy, detail);
        };
        let hashed = BTreeSet::new();
        let receiving = Receiving {
            layout,
            wanted: None,
            hashed,
            least_bytes,
            code: offer.code,
            begun: false,
            held,
            _of_objects: of_objects,
        };
        self.objects.insert(request, receiving);
        self.events.push_back(ReceiverEvent::Offer(offer));
    }

    /// These blocks of an object are missing, ascending: none if there are none. More than a message can name are asked
    /// for as one run, and what is there of it comes again. Returns how many blocks come.
    pub fn accept(&mut self, request: u16, missing: &[Run]) -> u64 {
        let Some(object) = self.objects.get_mut(&request) else { return 0 };
        let mut runs = missing.to_vec();
        if let (true, Some(last)) = (runs.len() > MAX_RUNS, missing.last()) {
            let first = runs[MAX_RUNS - 1].first;
            runs.truncate(MAX_RUNS - 1);
            runs.push(Run { first, count: last.first + last.count - first });
        }
        let wanted = if runs.is_empty() {
            BlockSet::default()
        } else {
            BlockSet::within(&runs, object.layout.blocks()).unwrap_or_default()
        };
        let blocks = wanted.len();
        object.wanted = Some(wanted);
        if !object.hold() {
            self.end("no memory is left for what has to come".into());
            return blocks;
        }
        self.control.push_back(control::Receiver::Accepted { request, runs });
        blocks
    }

    /// An object is not taken, or not any more.
    pub fn refuse(&mut self, request: u16, why: Refusal, detail: String) {
        if self.forget(request) {
            self.answer(request, why, detail);
        }
    }

    fn answer(&mut self, request: u16, why: Refusal, detail: String) {
        self.control.push_back(control::Receiver::Refused { request, why, detail });
    }

    /// All of an object is where it belongs.
    pub fn stored(&mut self, request: u16) {
        if self.forget(request) {
            self.control.push_back(control::Receiver::Stored { request });
        }
    }

    /// Whether there was such an object.
    fn forget(&mut self, request: u16) -> bool {
        let held_bytes = &mut self.held_bytes;
        self.blocks.retain(|block| {
            let keep = block.request != request;
            *held_bytes -= if keep { 0 } else { block.bytes };
            keep
        });
        self.pieces.forget(request);
        self.objects.remove(&request).is_some()
    }

    /// The next message for the control channel.
    pub fn poll_control(&mut self) -> Option<control::Receiver> {
        self.control.pop_front()
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// A datagram from the sender's address that named this connection and is no signal, with what its IP header bore of ECN.
    /// Returns the symbol if it is of use.
    pub fn handle_datagram<'a>(
        &'a mut self,
        now: Time,
        ecn: Codepoint,
        datagram: &'a mut [u8],
    ) -> Option<Arrival<'a>> {
        if self.ended {
            return None;
        }
        let bytes = datagram.len();
        let Opened { kind, number, body } = self.packets.open(&[Kind::Symbol, Kind::Piece], datagram)?;
        if kind == Kind::Piece {
            return self.on_piece(now, number, bytes, body, ecn);
        }
        let Ok((symbol, payload)) = Symbol::parse(body) else { return self.packets.unexpected() };
        if !self.packets.admit(number) {
            return None;
        }
        self.heard = now;
        self.on_datagram(now, number, bytes, &symbol, ecn);
        let enough = self.on_symbol(now, symbol, payload.len())?;
        let Symbol { request, block, index, .. } = symbol;
        Some(Arrival { request, block, index, enough, payload })
    }

    /// A part of a symbol, for which the path is too narrow. Returns the symbol if it is whole by that, and of use.
    fn on_piece(
        &mut self,
        now: Time,
        number: u64,
        bytes: usize,
        body: &[u8],
        ecn: Codepoint,
    ) -> Option<Arrival<'_>> {
        let Ok((piece, payload)) = Piece::parse(body) else { return self.packets.unexpected() };
        if !self.packets.admit(number) {
            return None;
        }
        self.heard = now;
        self.counters.pieces += 1;
        self.on_datagram(now, number, bytes, &piece.symbol, ecn);
        let Symbol { request, block, index, .. } = piece.symbol;
        let symbol_bytes = self.objects.get(&request).map_or(0, |object| object.layout.symbol_bytes());
        if !self.is_fresh(&piece.symbol) {
            // That it is of no use is told as of a whole one.
            self.on_symbol(now, piece.symbol, symbol_bytes);
            return None;
        }
        match self.pieces.add(&piece, payload, symbol_bytes, &self.config.state, &mut self.whole) {
            Added::Whole => {}
            Added::Kept => return None,
            Added::Wrong => return self.packets.unexpected(),
            Added::NoRoom => {
                self.counters.no_room += 1;
                return None;
            }
        }
        let enough = self.on_symbol(now, piece.symbol, symbol_bytes)?;
        Some(Arrival { request, block, index, enough, payload: &self.whole })
    }

    /// Whether a symbol is of use, unless there is no room for its block.
    fn is_fresh(&self, symbol: &Symbol) -> bool {
        let Symbol { request, block: number, index, .. } = *symbol;
        let Some(object) = self.objects.get(&request) else { return false };
        let wanted = object.wanted.as_ref().is_some_and(|wanted| wanted.contains(number));
        let block = self.blocks.iter().find(|b| b.request == request && b.number == number);
        let inside = wanted && index < symbol_cap(object.layout.k(number));
        inside && block.is_none_or(|block| !block.has(index))
    }

    /// A symbol has come, whose payload has so many bytes. Whether there are enough of its block; `None` if it is of no use.
    fn on_symbol(&mut self, now: Time, symbol: Symbol, payload_bytes: usize) -> Option<bool> {
        let Symbol { request, block: number, index, .. } = symbol;
        let Some(object) = self.objects.get_mut(&request) else {
            // Of an object that was stored, or refused: its sender has not heard of that yet.
            self.counters.late += 1;
            return None;
        };
        let (layout, Some(wanted)) = (object.layout, &object.wanted) else {
            return self.packets.unexpected();
        };
        if number >= layout.blocks() || payload_bytes != layout.symbol_bytes() {
            return self.packets.unexpected();
        }
        let k = layout.k(number);
        if index >= symbol_cap(k) {
            return self.packets.unexpected();
        }
        if !wanted.contains(number) {
            self.counters.late += 1;
            self.acknowledge(now, request, number);
            return None;
        }
        let at = match self.blocks.iter().position(|b| b.request == request && b.number == number) {
            Some(at) => at,
            None => {
                let bytes = layout.block_bytes(number) as u64;
                let full = self.held_bytes > 0 && self.held_bytes + bytes > self.config.window_bytes;
                if full || self.blocks.len() >= self.config.max_blocks {
                    return self.packets.unexpected();
                }
                // Its sender repeats it, as what was lost, until others are done.
                if !object.begun {
                    object.least_bytes += layout.rows_bytes();
                    object.begun = true;
                }
                let room =
                    object.hold().then(|| self.config.budget.take(layout.decoder_bytes(object.code, number)));
                let Some(held) = room.flatten() else {
                    self.counters.no_room += 1;
                    return None;
                };
                self.held_bytes += bytes;
                self.blocks.push_back(Block::new(request, number, &layout, held));
                self.blocks.len() - 1
            }
        };
        let block = &mut self.blocks[at];
        if block.has(index) {
            // Sent again for the sake of the report that it brings.
            self.counters.late += 1;
            return None;
        }
        block.add(index);
        let enough = block.needs() == 0;
        self.counters.useful += 1;
        Some(enough)
    }

    /// A block is decoded, verified and kept.
    pub fn complete(&mut self, now: Time, request: u16, block: u32) {
        let Some(object) = self.objects.get_mut(&request) else { return };
        let Some(wanted) = &mut object.wanted else { return };
        if wanted.remove(block) {
            object.hashed.remove(&block);
            let scattered = wanted.runs().len() > MAX_RUNS + self.config.max_blocks || !object.hold();
            if let Some(at) = self.blocks.iter().position(|b| b.request == request && b.number == block) {
                self.held_bytes -= self.blocks[at].bytes;
                self.blocks.remove(at);
            }
            self.acknowledge(now, request, block);
            if scattered {
                // No sender that works through what is missing leaves so many gaps: they are this receiver's memory.
                self.end("blocks came in no order".into());
            }
        }
    }

    /// When [`Receiver::poll_transmit`] or [`Receiver::handle_timeout`] has something to do without any input.
    pub fn poll_timeout(&self) -> Option<Time> {
        let silence = self.waits().then(|| self.heard + self.config.silence);
        silence.into_iter().chain(self.report_at).min().filter(|_| !self.ended)
    }

    /// Whether something is to come.
    fn waits(&self) -> bool {
        // A sender that has nothing to send any more says goodbye.
        !self.greeted
            || self.objects.is_empty()
            || self.objects.values().any(|o| o.wanted.as_ref().is_some_and(|w| !w.is_empty()))
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.waits() && now.since(self.heard) >= self.config.silence {
            let silence = self.config.silence.as_secs_f64();
            self.end(format!("nothing was heard of the sender for {silence} s"));
        }
    }

    /// The connection is to end, for a reason of this side's.
    pub fn end(&mut self, reason: String) {
        if !self.ended {
            self.control.push_back(control::Receiver::Bye { reason: reason.clone() });
        }
        self.finish(reason);
    }

    fn finish(&mut self, reason: String) {
        if !std::mem::replace(&mut self.ended, true) {
            let complete = self.objects.is_empty();
            self.events.push_back(ReceiverEvent::Ended { reason, complete });
            // They are others' to take from now on.
            self.blocks.clear();
            self.objects.clear();
        }
    }

    /// Bytes of blocks that its sender may have under way.
    pub fn window_bytes(&self) -> u64 {
        self.config.window_bytes
    }

    /// When something authentic came last; when it began, before the first.
    pub fn heard(&self) -> Time {
        self.heard
    }

    /// Counters since the beginning.
    pub fn counters(&self) -> ReceiverCounters {
        let Dropped { unexpected, forged, replayed } = self.packets.dropped();
        let Counts { ect, ce, .. } = self.counts;
        ReceiverCounters { ect, ce, unexpected, forged, replayed, ..self.counters }
    }

    /// Bytes of a datagram with a symbol of `symbol_bytes` on this connection.
    pub fn datagram_bytes(&self, symbol_bytes: u16) -> usize {
        self.packets.symbol_datagram_bytes(symbol_bytes)
    }
}

//! The sending end: objects are offered, and their blocks sent through a sliding window (the paper's section 4.5).

mod block;
mod interface;
mod objects;
mod report;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use wire::control::{self, MAX_PATH_BYTES, Offer, Parameters};

use self::block::{Block, Symbols};
pub use self::interface::{SenderConfig, SenderCounters, SenderEvent, Transmit};
use self::objects::Objects;
use self::timers::FIRST_PROBE;
use super::rate::{Guide, Rate};
use crate::coding::Prepared;
use crate::loss::LossMeter;
use crate::object::{Cut, Layout, Object, cuts};
use crate::pacer::{FRAME_BYTES, Pacer};
use crate::packets::{Dropped, Packets};
use crate::path_mtu::PathMtu;
use crate::pieces::{InPieces, Shape};
use crate::protect::Protection;
use crate::{Time, ecn, tfrc};

/// Round trips that a block may take which comes short again and again, and blocks beside those that the path holds.
const WINDOW_ROUND_TRIPS: f64 = 6.0;
const WINDOW_BLOCKS: usize = 4;
/// What a report waits for at the receiver, and both ends for their processors.
const DELAYS: Duration = Duration::from_millis(25);
/// One connection to a receiver.
pub struct Sender {
    config: SenderConfig,
    packets: Packets,
    path: PathMtu,
    /// What the path carried when that was looked at last.
    carried: u16,
    /// A symbol of which some pieces have not been sent.
    in_pieces: Option<InPieces>,
    /// Of what is under way: from which number on datagrams have which length.
    lengths: VecDeque<(u64, usize)>,
    /// Bytes of blocks that the receiver lets be under way; `None` until it has said hello.
    window_bytes: Option<u64>,
    rate: Rate,
    guide: Guide,
    pacer: Pacer,
    /// The first block that was loaded, if encoding is off.
    first: Option<Arc<[u8]>>,
    loss: LossMeter,
    marking: ecn::Marking,
    rtt: Duration,
    /// The number of the newest report.
    reported: Option<u64>,
    /// Symbols that have come, by all reports.
    counted: u64,
    heard: Time,
    /// When the last symbol went, and after how long a probe follows.
    sent: Time,
    probe: Duration,
    objects: Objects,
    /// The window, the oldest block first.
    blocks: Vec<Block>,
    /// Blocks have left it that were not acknowledged.
    freed: bool,
    /// Without early stop: the block that was sent last.
    turn: usize,
    control: VecDeque<control::Sender>,
    events: VecDeque<SenderEvent>,
    counters: SenderCounters,
    ended: bool,
}

impl Sender {
    /// A connection whose signalling has taken `rtt` there and back.
    pub fn new(
        config: SenderConfig,
        now: Time,
        connection: u32,
        protection: Protection,
        rtt: Duration,
    ) -> Self {
        let packets = Packets::new(connection, protection);
        let segment_bytes = packets.symbol_datagram_bytes(config.symbol_bytes);
        let longest = u16::try_from(segment_bytes).unwrap_or(u16::MAX);
        let options = tfrc::Options {
            least_timeout: config.least_timeout,
            least_rto: tfrc::LINUX_RTO,
            ..tfrc::Options::default()
        };
        let start = tfrc::Start::Rtt(rtt);
        let tfrc = tfrc::Sender::with_options(now, segment_bytes as u32, start, options);
        let rate = Rate::new(config.rate, tfrc, segment_bytes, FRAME_BYTES);
        let hello = control::Sender::Hello { version: wire::VERSION };
        Sender {
            packets,
            path: PathMtu::known(now, longest),
            carried: longest,
            in_pieces: None,
            lengths: VecDeque::from([(0, segment_bytes)]),
            window_bytes: None,
            guide: rate.guide(now),
            rate,
            pacer: Pacer::new(now, config.make_up),
            first: None,
            loss: LossMeter::default(),
            marking: ecn::Marking::new(config.ecn),
            rtt,
            reported: None,
            counted: 0,
            heard: now,
            sent: now,
            probe: FIRST_PROBE,
            objects: Objects::default(),
            blocks: Vec::new(),
            freed: false,
            turn: 0,
            control: VecDeque::from([hello]),
            events: VecDeque::new(),
            counters: SenderCounters::default(),
            ended: false,
            config,
        }
    }

    /// The same, over a path of which this is known.
    pub(super) fn on_path(self, path: PathMtu) -> Self {
        Sender { carried: path.size(), path, ..self }
    }

    pub(super) fn path(&self) -> &PathMtu {
        &self.path
    }

    pub(super) fn path_mut(&mut self) -> &mut PathMtu {
        &mut self.path
    }

    /// A probe was answered, or its time is over.
    pub(super) fn note_path(&mut self) {
        let before = std::mem::replace(&mut self.carried, self.path.size());
        if self.carried < before {
            // What was too long is lost, which tells nothing of shorter ones.
            self.loss.forgive(self.packets.next_number(), self.counted);
            // The receiver says what it lacks when something comes.
            self.probe = Duration::ZERO;
        }
    }

    fn shape(&self, symbol_bytes: u16) -> Shape {
        Shape::of(symbol_bytes, self.carried, self.packets.tag_bytes() > 0)
    }

    /// The longest symbols that the path carries whole, and how many of them a block has; the shortest if it carries none.
    fn cut_for_path(&self) -> (u16, u16) {
        let SenderConfig { symbol_bytes, block_symbols, fitted, .. } = self.config;
        let passes = |(bytes, _): &(u16, u16)| self.shape(*bytes).pieces == 1;
        let fit = || {
            cuts(symbol_bytes, block_symbols)
                .find(passes)
                .or_else(|| cuts(symbol_bytes, block_symbols).last())
        };
        fit().filter(|_| fitted).unwrap_or((symbol_bytes, block_symbols))
    }

    /// Offers an object. Returns its name; `None` if as many are on their way as may be, or the connection has ended.
    ///
    /// # Errors
    /// What is wrong with the object, for a person.
    pub fn offer(&mut self, path: &str, object: &Object) -> Result<Option<u16>, String> {
        let (code, (symbol_bytes, block_symbols)) = (self.config.code, self.cut_for_path());
        if path.len() > MAX_PATH_BYTES {
            return Err(format!("a path has at most {MAX_PATH_BYTES} bytes"));
        }
        let layout = Layout::new(symbol_bytes, block_symbols, object.size).ok_or_else(|| {
            format!("{block_symbols} symbols of {symbol_bytes} bytes, {} bytes", object.size)
        })?;
        if self.ended || self.objects.len() >= self.config.max_objects {
            return Ok(None);
        }
        let (cut, seed, last_seed) =
            Cut::choose(layout, code, self.config.seed).map_err(|e| e.to_string())?;
        let Some(request) = self.objects.add(cut) else { return Ok(None) };
        let Object { size, version, modified_ns, mode } = *object;
        let parameters = Parameters { request, size, version, modified_ns, mode, seed, last_seed };
        let path = path.to_owned();
        let offer = Offer { path, parameters, symbol_bytes, block_symbols, code };
        self.control.push_back(control::Sender::Offer(offer));
        Ok(Some(request))
    }

    /// The object will not come: it has changed, or cannot be read.
    pub fn withdraw(&mut self, request: u16, detail: String) {
        if self.forget(request) {
            self.control.push_back(control::Sender::Withdraw { request, detail });
        }
    }

    /// So much may be sent from now on, in bit/s of whole Ethernet frames.
    pub fn tell_rate(&mut self, now: Time, bps: f64) {
        self.rate.tell(now, bps);
        self.note_guide(now);
    }

    /// The rate that was told last still counts.
    pub fn confirm_rate(&mut self, now: Time) {
        self.rate.confirm(now);
        self.note_guide(now);
    }

    fn note_guide(&mut self, now: Time) {
        let guide = self.rate.guide(now);
        if std::mem::replace(&mut self.guide, guide) != guide {
            self.events.push_back(SenderEvent::Guided(guide));
        }
    }

    /// A message of the control channel.
    pub fn handle_control(&mut self, now: Time, message: control::Receiver) {
        if self.ended {
            return;
        }
        self.heard = now;
        match message {
            control::Receiver::Welcome { version, .. } if version != wire::VERSION => {
                self.end(format!("the receiver speaks version {version}, not {}", wire::VERSION));
            }
            control::Receiver::Welcome { window_bytes, .. } => {
                if self.window_bytes.replace(window_bytes).is_some() {
                    self.end("the receiver has welcomed us twice".into());
                }
            }
            control::Receiver::Accepted { request, runs } => self.on_accepted(now, request, &runs),
            control::Receiver::Refused { request, why, detail } => {
                if self.forget(request) {
                    self.events.push_back(SenderEvent::Refused { request, why, detail });
                }
            }
            control::Receiver::Stored { request } => {
                if self.forget(request) {
                    self.events.push_back(SenderEvent::Stored { request });
                }
            }
            control::Receiver::Ceiling { bps } => self.rate.cap(bps),
            control::Receiver::Bye { reason } => self.end(format!("the receiver says: {reason}")),
        }
    }

    fn on_accepted(&mut self, now: Time, request: u16, runs: &[control::Run]) {
        match self.objects.accept(request, runs) {
            Ok(Some(bytes)) => {
                self.events.push_back(SenderEvent::Accepted { request, bytes });
                self.open(now);
            }
            // Of an object that was withdrawn in the meantime.
            Ok(None) => {}
            Err(what) => self.end(format!("the receiver {what}")),
        }
    }

    /// Blocks that may be under way at the present rate.
    fn window_blocks(&self, now: Time) -> usize {
        let automatic = || {
            let block_bytes = usize::from(self.config.symbol_bytes) * usize::from(self.config.block_symbols);
            let seconds = WINDOW_ROUND_TRIPS * self.rtt.as_secs_f64() + DELAYS.as_secs_f64();
            (self.rate.rate(now) * seconds / block_bytes as f64) as usize + WINDOW_BLOCKS
        };
        self.config.window_blocks.unwrap_or_else(automatic)
    }

    /// Begins the blocks that the window has room for.
    fn open(&mut self, now: Time) {
        let Some(window_bytes) = self.window_bytes else { return };
        let most_bytes = usize::try_from(window_bytes).unwrap_or(usize::MAX).min(self.config.max_held_bytes);
        let window = self.window_blocks(now).max(1);
        let mut held: usize = self.blocks.iter().map(|block| block.bytes).sum();
        while self.blocks.len() < window
            && let Some((request, number)) = self.objects.next()
            && let Some(cut) = self.objects.cut(request)
        {
            let layout = cut.layout();
            let (bytes, offset) = (layout.block_bytes(number), layout.offset(number));
            let block = Block::new(request, number, layout);
            if held > 0 && held + bytes > most_bytes {
                break;
            }
            held += bytes;
            self.blocks.push(block);
            self.events.push_back(SenderEvent::Load { request, block: number, offset, bytes });
            self.objects.begin();
        }
    }

    /// Whether no block is left to begin.
    fn is_last(&self) -> bool {
        self.objects.next().is_none()
    }

    /// The bytes of a block that [`SenderEvent::Load`] asked for.
    pub fn provide(&mut self, request: u16, block: u32, bytes: Arc<[u8]>) {
        let Some(cut) = self.objects.cut(request) else { return };
        match cut.prepare_copy(block, &bytes) {
            Ok(prepared) if self.config.encode => self.provide_prepared(request, block, prepared),
            Ok(Prepared { hash, .. }) => {
                let symbols = Symbols::Plain(self.first.get_or_insert(bytes).clone());
                self.begin(request, block, symbols, hash);
            }
            Err(detail) => self.withdraw(request, detail),
        }
    }

    /// How an object is cut: by it, [`Cut::prepare`] prepares blocks that [`SenderEvent::Load`] asked for, in another thread
    /// perhaps. Then [`Sender::provide_prepared`]. `None`: nothing is encoded, and [`Sender::provide`] takes what was asked for.
    pub fn cut(&self, request: u16) -> Option<Cut> {
        self.objects.cut(request).filter(|_| self.config.encode).cloned()
    }

    /// A block that [`SenderEvent::Load`] asked for.
    pub fn provide_prepared(&mut self, request: u16, block: u32, prepared: Prepared) {
        let Prepared { encoder, hash, .. } = prepared;
        self.begin(request, block, Symbols::Coded(encoder), hash);
    }

    /// A block can be sent.
    fn begin(&mut self, request: u16, number: u32, symbols: Symbols, hash: control::Hash) {
        let last = self.is_last();
        let named = |b: &Block| b.request == request && b.number == number;
        let Some(at) = self.blocks.iter().position(named) else { return };
        let meter = self.meter(self.blocks[at].symbol_bytes);
        let block = &mut self.blocks[at];
        block.symbols = Some(symbols);
        let k = u64::from(block.k);
        let redundant = (k as f64 * self.config.redundancy).ceil() as u64;
        let symbols = if self.config.early_stop || !self.config.acknowledgements {
            meter.to_send(k + redundant, 0, last)
        } else {
            u64::from(block.left())
        };
        block.allow(symbols);
        block.first_pass = (k + redundant).min(block.allowance.into()) as u16;
        self.control.push_back(control::Sender::BlockHash { request, block: number, hash });
    }

    /// The loss of symbols of this length.
    fn meter(&self, symbol_bytes: u16) -> LossMeter {
        match self.shape(symbol_bytes).pieces {
            1 => self.loss.clone(),
            pieces => self.loss.of_pieces(pieces),
        }
    }

    /// Whether there was such an object.
    fn forget(&mut self, request: u16) -> bool {
        self.blocks.retain(|block| block.request != request);
        self.freed = true;
        self.objects.remove(request)
    }

    /// The next message for the control channel.
    pub fn poll_control(&mut self) -> Option<control::Sender> {
        self.control.pop_front()
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    /// When something authentic came last; when it began, before the first.
    pub fn heard(&self) -> Time {
        self.heard
    }

    /// Whether [`Sender::poll_event`] has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Says goodbye: nothing more is sent.
    pub fn close(&mut self, reason: &str) {
        if !self.ended {
            self.control.push_back(control::Sender::Bye { reason: reason.to_owned() });
        }
        self.ended = true;
    }

    fn end(&mut self, reason: String) {
        if !std::mem::replace(&mut self.ended, true) {
            self.control.push_back(control::Sender::Bye { reason: reason.clone() });
            self.events.push_back(SenderEvent::Ended { reason });
        }
    }

    /// Counters since the beginning.
    pub fn counters(&self) -> SenderCounters {
        let Dropped { unexpected, forged, replayed } = self.packets.dropped();
        let (ect, ce, ecn) = (self.marking.marked(), self.marking.ce(), self.marking.state());
        SenderCounters { ect, ce, ecn, unexpected, forged, replayed, ..self.counters }
    }

    /// Whose rate is used, and what it is, in bit/s of symbols' datagrams.
    pub fn rate(&self, now: Time) -> (Guide, f64) {
        (self.guide, 8.0 * self.rate.rate(now))
    }

    /// The share of symbols that is lost.
    pub fn loss(&self) -> f64 {
        self.loss.loss()
    }

    /// The smoothed round trip.
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Objects that were offered and are not stored.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }
}

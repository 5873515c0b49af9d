//! The thread that decodes: symbols in, verified blocks out to their sinks.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use codec::Progress;
use polling::Poller;
use proto::BlockSet;
use proto::coding::Decoder;
use proto::object::Cut;
use wire::control::{Hash, Parameters};

use crate::sink::{JobId, Sink};

/// So much is kept back until there are enough symbols of a block to decode it: each time that the decoding thread is
/// woken costs as much as some symbols.
const KEPT_BACK_BYTES: usize = 256 << 10;
/// Decoders kept for blocks to come.
const SPARE: usize = 64;

/// What the thread is told.
pub(crate) enum Order {
    /// The parameters of a job have come.
    Begin { job: JobId, parameters: Parameters, cut: Cut, sink: Box<dyn Sink> },
    /// What a block is.
    Hash { job: JobId, block: u32, hash: Hash },
    /// Symbols.
    Symbols(Batch),
    /// All blocks of a job are there: its sink is done.
    Finish { job: JobId },
    /// Nothing more of it.
    Forget { job: JobId },
}

/// What it answers.
pub(crate) enum Answer {
    /// A block needs so many symbols in all.
    Needs { job: JobId, block: u32, symbols: u16 },
    /// A block is decoded, verified and with its sink.
    Complete { job: JobId, block: u32, bytes: usize },
    /// A job's sink is done.
    Finished { job: JobId },
    /// A job cannot be finished; why.
    Failed { job: JobId, why: String },
}

/// Symbols that came together.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    symbols: Vec<(JobId, u32, u16, Range<usize>)>,
}

impl Batch {
    pub(crate) fn push(&mut self, job: JobId, block: u32, index: u16, payload: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.symbols.push((job, block, index, begin..self.bytes.len()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }
}

/// The thread's other end.
pub(crate) struct Decoding {
    orders: Option<Sender<Order>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Decoding {
    /// Without `decode` it only finds out which symbols would be enough, and sinks get nothing.
    pub(crate) fn start(poller: Arc<Poller>, decode: bool) -> io::Result<Self> {
        let (orders, ordered) = channel();
        let (answered, answers) = channel();
        let thread = thread::Builder::new().name("decoder".into()).spawn(move || {
            let mut worker = Worker { answers: answered, works: HashMap::new(), spare: Vec::new(), decode };
            for order in ordered {
                if worker.carry_out(order) && poller.notify().is_err() {
                    return;
                }
            }
        })?;
        Ok(Decoding { orders: Some(orders), answers, thread: Some(thread) })
    }

    pub(crate) fn order(&self, order: Order) {
        // The thread ends after the last order only.
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }

    /// Orders what was kept back, if there is `enough` of a block or much of all.
    pub(crate) fn hand_over(&self, kept_back: &mut Batch, enough: bool) {
        if enough || kept_back.bytes.len() >= KEPT_BACK_BYTES {
            self.order(Order::Symbols(std::mem::take(kept_back)));
        }
    }

    /// The next answer.
    ///
    /// # Errors
    /// The thread has ended by a panic.
    pub(crate) fn answer(&self) -> io::Result<Option<Answer>> {
        match self.answers.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::Error::other("the decoding thread has ended")),
        }
    }
}

impl Drop for Decoding {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

struct Worker {
    answers: Sender<Answer>,
    works: HashMap<JobId, Work>,
    spare: Vec<Decoder>,
    decode: bool,
}

struct Work {
    cut: Cut,
    sink: Box<dyn Sink>,
    blocks: HashMap<u32, Block>,
    /// Of blocks that are not complete.
    hashes: HashMap<u32, Hash>,
    /// What comes of other blocks is late.
    missing: BlockSet,
}

struct Block {
    decoder: Decoder,
    received: u32,
}

impl Worker {
    /// Whether there is an answer.
    fn carry_out(&mut self, order: Order) -> bool {
        match order {
            Order::Begin { job, parameters, cut, mut sink } => {
                if let Err(e) = sink.begin(&parameters, *cut.layout()) {
                    return self.fail(job, e.to_string());
                }
                let missing = BlockSet::all(cut.layout().blocks());
                let (blocks, hashes) = Default::default();
                self.works.insert(job, Work { cut, sink, blocks, hashes, missing });
                false
            }
            Order::Hash { job, block, hash } => {
                let Some(work) = self.works.get_mut(&job) else { return false };
                work.hashes.insert(block, hash);
                self.verify(job, block)
            }
            Order::Symbols(batch) => {
                let Batch { bytes, symbols } = batch;
                let mut answered = false;
                for (job, block, index, range) in symbols {
                    answered |= self.symbol(job, block, index, &bytes[range]);
                }
                answered
            }
            Order::Finish { job } => {
                let Some(mut work) = self.works.remove(&job) else { return false };
                match work.sink.finish() {
                    Ok(()) => self.answer(Answer::Finished { job }),
                    Err(e) => self.fail(job, e.to_string()),
                }
            }
            Order::Forget { job } => {
                self.works.remove(&job);
                false
            }
        }
    }

    fn symbol(&mut self, job: JobId, block: u32, index: u16, payload: &[u8]) -> bool {
        let Some(work) = self.works.get_mut(&job) else { return false };
        if !work.missing.contains(block) {
            return false;
        }
        if !work.blocks.contains_key(&block) {
            // Which columns can be solved for does not depend on what is in the symbols.
            let symbol_bytes = if self.decode { work.cut.layout().symbol_bytes() } else { 1 };
            let decoder = match work.cut.decoder(block, symbol_bytes, self.spare.pop()) {
                Ok(decoder) => decoder,
                Err(e) => return self.fail(job, e.to_string()),
            };
            work.blocks.insert(block, Block { decoder, received: 0 });
        }
        let Some(Block { decoder, received }) = work.blocks.get_mut(&block) else { return false };
        *received += 1;
        let payload = if self.decode { payload } else { payload.get(..1).unwrap_or_default() };
        match decoder.push(index.into(), payload) {
            Ok(Progress::Needs(more)) => {
                if *received < u32::from(work.cut.layout().k(block)) {
                    return false;
                }
                let symbols = (*received + more).min(u16::MAX.into()) as u16;
                self.answer(Answer::Needs { job, block, symbols })
            }
            Ok(Progress::Duplicate) => false,
            Ok(Progress::Complete) => self.verify(job, block),
            Err(e) => self.fail(job, format!("block {block}: {e}")),
        }
    }

    /// Hands a block to its sink, once it is decoded and its hash is known.
    fn verify(&mut self, job: JobId, block: u32) -> bool {
        let Some(work) = self.works.get_mut(&job) else { return false };
        let Some(source) = work.blocks.get(&block).and_then(|b| b.decoder.source()) else { return false };
        let count = work.cut.layout().block_bytes(block);
        if self.decode {
            let Some(hash) = work.hashes.get(&block) else { return false };
            let bytes = &source[..count];
            if blake3::hash(bytes) != *hash {
                return self.fail(job, format!("block {block} is not what the server said it would be"));
            }
            if let Err(e) = work.sink.block(work.cut.layout().offset(block), bytes) {
                return self.fail(job, e.to_string());
            }
        }
        work.hashes.remove(&block);
        work.missing.remove(block);
        if let Some(Block { decoder, .. }) = work.blocks.remove(&block).filter(|_| self.spare.len() < SPARE) {
            self.spare.push(decoder);
        }
        self.answer(Answer::Complete { job, block, bytes: count })
    }

    fn answer(&self, answer: Answer) -> bool {
        self.answers.send(answer).is_ok()
    }

    fn fail(&mut self, job: JobId, why: String) -> bool {
        self.works.remove(&job);
        self.answer(Answer::Failed { job, why })
    }
}

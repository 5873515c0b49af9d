//! The thread that decodes, and those that verify blocks and hand them to their sinks, which may wait for a disk.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use proto::assembly::{Assembly, Fault, Step};
use proto::coding::Decoder;
use proto::object::{Cut, Layout};
use wire::control::{Hash, Parameters};

use crate::poller::Poller;
use crate::pool::Pool;
use crate::sink::{JobId, Sink};

/// So much is kept back until there are enough symbols of a block to decode it: each time that the decoding thread is
/// woken costs as much as some symbols.
const KEPT_BACK_BYTES: usize = 256 << 10;
/// Orders that wait: who decodes slower than symbols come reads no more of them.
const QUEUED: usize = 64;
/// Bytes of blocks of decoders that are kept for blocks to come.
const SPARE_BYTES: usize = 16 << 20;
/// Threads that hand blocks to sinks, one for a job at a time.
const STORING: usize = 4;

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
    orders: Option<SyncSender<Order>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Decoding {
    /// Without `decode` it only finds out which symbols would be enough, and sinks get nothing.
    pub(crate) fn start(poller: Arc<Poller>, decode: bool) -> io::Result<Self> {
        let (orders, ordered) = sync_channel(QUEUED);
        let (answered, answers) = channel();
        let pool = Pool::start("storing", STORING, 1)?;
        let thread = thread::Builder::new().name("decoder".into()).spawn(move || {
            let (works, spare) = (HashMap::new(), Arc::default());
            let mut worker =
                Worker { answers: answered, poller, answered: false, pool, works, spare, decode };
            for order in ordered {
                worker.carry_out(order);
                if std::mem::take(&mut worker.answered) && worker.poller.notify().is_err() {
                    break;
                }
            }
            // What has been decoded is stored.
            worker.pool.finish();
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
    poller: Arc<Poller>,
    /// Somebody has to be woken.
    answered: bool,
    pool: Pool<JobId>,
    works: HashMap<JobId, Work>,
    spare: Arc<Mutex<Spare>>,
    decode: bool,
}

struct Work {
    assembly: Assembly,
    store: Arc<Mutex<Store>>,
}

/// Decoders that blocks to come may use again.
#[derive(Default)]
struct Spare {
    decoders: Vec<(Decoder, usize)>,
    bytes: usize,
}

impl Spare {
    fn keep(&mut self, decoder: Decoder, bytes: usize) {
        if self.bytes + bytes <= SPARE_BYTES {
            self.bytes += bytes;
            self.decoders.push((decoder, bytes));
        }
    }

    fn take(&mut self) -> Option<Decoder> {
        let (decoder, bytes) = self.decoders.pop()?;
        self.bytes -= bytes;
        Some(decoder)
    }
}

/// A sink, which gets nothing more once it has failed.
struct Store {
    sink: Box<dyn Sink>,
    /// What it begins with, before it gets anything else: threads are woken for that together.
    begins: Option<(Parameters, Layout)>,
    failed: bool,
}

impl Store {
    /// The sink, which has begun.
    fn sink(&mut self) -> Result<&mut dyn Sink, String> {
        if let Some((parameters, layout)) = self.begins.take() {
            self.sink.begin(&parameters, layout).map_err(|e| e.to_string())?;
        }
        Ok(&mut *self.sink)
    }
}

impl Worker {
    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Begin { job, parameters, cut, sink } => {
                let layout = *cut.layout();
                let begins = Some((parameters, layout));
                let store = Arc::new(Mutex::new(Store { sink, begins, failed: false }));
                let assembly = Assembly::new(cut, self.decode);
                self.works.insert(job, Work { assembly, store });
            }
            Order::Hash { job, block, hash } => {
                if let Some(work) = self.works.get_mut(&job) {
                    let step = work.assembly.hash(block, hash);
                    self.take(job, block, step);
                }
            }
            Order::Symbols(batch) => {
                let Batch { bytes, symbols } = batch;
                for (job, block, index, range) in symbols {
                    let Some(work) = self.works.get_mut(&job) else { continue };
                    let spare = || lock(&self.spare).take();
                    let step = work.assembly.symbol(block, index, &bytes[range], spare);
                    self.take(job, block, step);
                }
            }
            Order::Finish { job } => {
                self.store(job, move |sink| {
                    sink.finish().map_err(|e| e.to_string())?;
                    Ok(Answer::Finished { job })
                });
                self.works.remove(&job);
            }
            Order::Forget { job } => {
                self.works.remove(&job);
                self.pool.forget(job);
            }
        }
    }

    /// Answers what has come of a block; one that is whole is handed to its sink.
    fn take(&mut self, job: JobId, block: u32, step: Result<Step, Fault>) {
        let whole = match step {
            Ok(Step::Pending) => return,
            Ok(Step::Needs(symbols)) => return self.answer(Answer::Needs { job, block, symbols }),
            Ok(Step::Whole(whole)) => whole,
            Err(fault) => return self.fail(job, fault.to_string()),
        };
        let bytes = whole.bytes;
        let complete = Answer::Complete { job, block, bytes };
        if !self.decode {
            lock(&self.spare).keep(whole.into_decoder(), bytes);
            return self.answer(complete);
        }
        let spare = self.spare.clone();
        self.store(job, move |sink| {
            sink.block(whole.offset, whole.source()).map_err(|e| e.to_string())?;
            lock(&spare).keep(whole.into_decoder(), bytes);
            Ok(complete)
        });
    }

    /// Has something done with a job's sink, after what was ordered before. What it returns is answered.
    fn store(&self, job: JobId, act: impl FnOnce(&mut dyn Sink) -> Result<Answer, String> + Send + 'static) {
        let Some(work) = self.works.get(&job) else { return };
        let (store, answers, poller) = (work.store.clone(), self.answers.clone(), self.poller.clone());
        self.pool.put(job, move || {
            let mut store = lock(&store);
            if store.failed {
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(|| act(store.sink()?)));
            let answer = done.unwrap_or_else(|_| Err("what takes its blocks has panicked".into()));
            let answer = answer.unwrap_or_else(|why| {
                store.failed = true;
                Answer::Failed { job, why }
            });
            drop(store);
            // Both fail only when nobody waits any more.
            let _ = answers.send(answer);
            let _ = poller.notify();
        });
    }

    fn answer(&mut self, answer: Answer) {
        self.answered |= self.answers.send(answer).is_ok();
    }

    fn fail(&mut self, job: JobId, why: String) {
        self.works.remove(&job);
        self.answer(Answer::Failed { job, why });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A sink that panicked has failed: the panic has been reported where it happened.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use wire::control::{Code, Version};

    use super::*;

    const BLOCK: usize = 640;
    const SYMBOLS: u16 = 20;
    const SOON: Duration = Duration::from_secs(20);

    /// Tells what it gets, and waits before it takes a block until it may.
    struct Slow {
        may: Option<Receiver<()>>,
        got: Sender<Vec<u8>>,
    }

    impl Sink for Slow {
        fn begin(&mut self, _: &Parameters, _: Layout) -> io::Result<()> {
            Ok(())
        }

        fn block(&mut self, _: u64, bytes: &[u8]) -> io::Result<()> {
            if let Some(may) = &self.may {
                may.recv_timeout(SOON).map_err(io::Error::other)?;
            }
            self.got.send(bytes.to_vec()).map_err(|_| io::Error::other("nobody looks"))
        }

        fn finish(&mut self) -> io::Result<()> {
            self.got.send(Vec::new()).map_err(|_| io::Error::other("nobody looks"))
        }
    }

    fn contents(job: u64) -> Vec<u8> {
        (0..BLOCK).map(|n| (n as u64 * 7 + job) as u8).collect()
    }

    /// A job of one block, all of it.
    fn order(decoding: &Decoding, job: u64, sink: impl Sink + 'static) {
        let layout = Layout::new(BLOCK as u16 / SYMBOLS, SYMBOLS, BLOCK as u64).unwrap();
        let (cut, seed, last_seed) = Cut::choose(layout, Code::Dealt, 1).unwrap();
        let parameters = Parameters {
            request: 0,
            size: BLOCK as u64,
            version: Version([0; 16]),
            modified_ns: 0,
            mode: 0,
            seed,
            last_seed,
        };
        let mut encoder = cut.encoder(0, contents(job).into()).unwrap();
        let hash = *blake3::hash(&contents(job)).as_bytes();
        let job = JobId(job);
        decoding.order(Order::Begin { job, parameters, cut, sink: Box::new(sink) });
        decoding.order(Order::Hash { job, block: 0, hash });
        let mut batch = Batch::default();
        for index in 0..2 * SYMBOLS {
            let mut symbol = vec![0; layout.symbol_bytes()];
            encoder.encode(index.into(), &mut symbol).unwrap();
            batch.push(job, 0, index, &symbol);
        }
        decoding.order(Order::Symbols(batch));
        decoding.order(Order::Finish { job });
    }

    fn finished(decoding: &Decoding) -> u64 {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            match decoding.answer().unwrap() {
                Some(Answer::Finished { job }) => return job.0,
                Some(Answer::Failed { why, .. }) => panic!("{why}"),
                Some(_) => {}
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("nothing was finished");
    }

    #[test]
    fn a_sink_that_waits_holds_up_no_other() {
        let decoding = Decoding::start(Arc::new(Poller::new().unwrap()), true).unwrap();
        let (let_go, may) = channel();
        let (got, gets) = channel();
        order(&decoding, 1, Slow { may: Some(may), got: got.clone() });
        for job in 2..9 {
            order(&decoding, job, Slow { may: None, got: got.clone() });
            assert_eq!(finished(&decoding), job);
            assert_eq!(gets.recv().unwrap(), contents(job));
            assert!(gets.recv().unwrap().is_empty());
        }
        let_go.send(()).unwrap();
        assert_eq!(finished(&decoding), 1);
        assert_eq!(gets.recv().unwrap(), contents(1));
    }

    #[test]
    fn what_has_been_decoded_is_stored_before_the_end() {
        let (got, gets) = channel();
        let decoding = Decoding::start(Arc::new(Poller::new().unwrap()), true).unwrap();
        for job in 0..50 {
            order(&decoding, job, Slow { may: None, got: got.clone() });
        }
        drop((decoding, got));
        assert_eq!(gets.iter().filter(|bytes| !bytes.is_empty()).count(), 50);
    }

    #[test]
    fn a_sink_that_panics_fails_its_job_alone() {
        struct Bad;
        impl Sink for Bad {
            fn begin(&mut self, _: &Parameters, _: Layout) -> io::Result<()> {
                panic!("as it should");
            }
            fn block(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
                unreachable!("it has failed")
            }
            fn finish(&mut self) -> io::Result<()> {
                unreachable!("it has failed")
            }
        }
        let decoding = Decoding::start(Arc::new(Poller::new().unwrap()), true).unwrap();
        order(&decoding, 1, Bad);
        let end = Instant::now() + SOON;
        loop {
            assert!(Instant::now() < end, "nobody was told");
            match decoding.answer().unwrap() {
                Some(Answer::Failed { job, why }) => {
                    assert_eq!(job, JobId(1));
                    assert!(why.contains("panicked"), "{why}");
                    break;
                }
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
        let (got, _gets) = channel();
        order(&decoding, 2, Slow { may: None, got });
        assert_eq!(finished(&decoding), 2);
    }
}

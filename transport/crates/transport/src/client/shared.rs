//! One object whose blocks come from several servers.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::BlockSet;
use proto::object::Layout;
use udp::Sink;
use wire::control::{Parameters, Run, Version};

/// A sink that several requests write to.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<State>>);

struct State {
    sink: Box<dyn Sink>,
    /// What the first request has found.
    begun: Option<Begun>,
    finished: bool,
    /// The sink itself has failed: no other server helps.
    failed: bool,
    bytes: Arc<AtomicU64>,
}

struct Begun {
    layout: Layout,
    version: Version,
    missing: BlockSet,
}

impl Shared {
    pub(super) fn new(sink: Box<dyn Sink>, bytes: Arc<AtomicU64>) -> Self {
        Shared(Arc::new(Mutex::new(State { sink, begun: None, finished: false, failed: false, bytes })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A sink that panicked has failed its request.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All blocks are with the sink, and it is done.
    pub(super) fn is_finished(&self) -> bool {
        self.lock().finished
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.is_poisoned() || self.lock().failed
    }

    /// Bytes of the object, once that is known.
    pub(super) fn size(&self) -> u64 {
        self.lock().begun.as_ref().map_or(0, |begun| begun.layout.size())
    }

    /// Those of these runs that have not come.
    pub(super) fn missing(&self, of: &[Run]) -> Vec<Run> {
        let state = self.lock();
        let Some(begun) = &state.begun else { return of.to_vec() };
        let all = [Run { first: 0, count: u32::MAX }];
        let of = if of.is_empty() { &all } else { of };
        let common = |run: &Run, other: &Run| {
            let first = run.first.max(other.first);
            let end = run.first.saturating_add(run.count).min(other.first.saturating_add(other.count));
            (first < end).then(|| Run { first, count: end - first })
        };
        of.iter()
            .flat_map(|run| begun.missing.runs().iter().filter_map(move |other| common(run, other)))
            .collect()
    }
}

impl State {
    fn noting_failure(&mut self, done: io::Result<()>) -> io::Result<()> {
        self.failed |= done.is_err();
        done
    }
}

impl Sink for Shared {
    fn begin(&mut self, parameters: &Parameters, layout: Layout) -> io::Result<()> {
        let mut state = self.lock();
        if let Some(begun) = &state.begun {
            let same = begun.version == parameters.version && begun.layout == layout;
            return if same {
                Ok(())
            } else {
                Err(io::Error::other("it has changed, or differs between its servers"))
            };
        }
        let done = state.sink.begin(parameters, layout);
        let (version, missing) = (parameters.version, BlockSet::all(layout.blocks()));
        state.begun = Some(Begun { layout, version, missing });
        state.noting_failure(done)
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let State { sink, begun: Some(begun), bytes: through, .. } = &mut *state else {
            return Err(io::Error::other("a block before its object"));
        };
        let block = u32::try_from(offset / begun.layout.offset(1)).map_err(io::Error::other)?;
        // Two servers may have sent it.
        if !begun.missing.remove(block) {
            return Ok(());
        }
        let done = sink.block(offset, bytes);
        through.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        state.noting_failure(done)
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut state = self.lock();
        let whole = state.begun.as_ref().is_some_and(|begun| begun.missing.is_empty());
        if !whole || state.finished || state.failed {
            return Ok(());
        }
        let done = state.sink.finish();
        state.finished = done.is_ok();
        state.noting_failure(done)
    }
}

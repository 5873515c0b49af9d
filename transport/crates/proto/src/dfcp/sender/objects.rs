//! What is being sent: the objects that were offered, and which of their blocks comes next.

use std::collections::{BTreeMap, VecDeque};

use wire::control::Run;

use crate::block_set::BlockSet;
use crate::object::Cut;

/// Objects that were offered and are not stored.
#[derive(Default)]
pub(super) struct Objects {
    known: BTreeMap<u16, Sending>,
    next_name: u16,
    /// Those with blocks that have not begun, in the order in which they were accepted.
    queue: VecDeque<u16>,
}

struct Sending {
    cut: Cut,
    /// What is not with the receiver; `None` until it has answered.
    wanted: Option<BlockSet>,
    unbegun: VecDeque<Run>,
}

impl Objects {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Another one, and what it is called; `None` if there are no more names.
    pub(super) fn add(&mut self, cut: Cut) -> Option<u16> {
        let name =
            (0..=u16::MAX).map(|n| self.next_name.wrapping_add(n)).find(|n| !self.known.contains_key(n))?;
        self.next_name = name.wrapping_add(1);
        self.known.insert(name, Sending { cut, wanted: None, unbegun: VecDeque::new() });
        Some(name)
    }

    pub(super) fn cut(&self, request: u16) -> Option<&Cut> {
        self.known.get(&request).map(|object| &object.cut)
    }

    /// The receiver takes an object, and lacks these blocks of it: none, if it names none. Returns how many bytes that are;
    /// `None` if there is no such object any more.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub(super) fn accept(&mut self, request: u16, runs: &[Run]) -> Result<Option<u64>, String> {
        let Some(object) = self.known.get_mut(&request) else { return Ok(None) };
        if object.wanted.is_some() {
            return Err(format!("has accepted request {request} twice"));
        }
        let layout = object.cut.layout();
        let wanted = if runs.is_empty() {
            BlockSet::default()
        } else {
            BlockSet::within(runs, layout.blocks()).map_err(|detail| format!("asks for {detail}"))?
        };
        let end = |run: &Run| layout.offset(run.first + run.count).min(layout.size());
        let bytes = wanted.runs().iter().map(|run| end(run) - layout.offset(run.first)).sum();
        if !wanted.is_empty() {
            object.unbegun = wanted.runs().to_vec().into();
            self.queue.push_back(request);
        }
        object.wanted = Some(wanted);
        Ok(Some(bytes))
    }

    /// The next block to begin.
    pub(super) fn next(&self) -> Option<(u16, u32)> {
        let request = *self.queue.front()?;
        let run = self.known.get(&request)?.unbegun.front()?;
        Some((request, run.first))
    }

    /// The block of [`Objects::next`] has begun.
    pub(super) fn begin(&mut self) {
        let Some(object) = self.queue.front().and_then(|request| self.known.get_mut(request)) else { return };
        if let Some(run) = object.unbegun.front_mut() {
            (run.first, run.count) = (run.first + 1, run.count - 1);
            if run.count == 0 {
                object.unbegun.pop_front();
            }
        }
        if object.unbegun.is_empty() {
            self.queue.pop_front();
        }
    }

    /// A block is with the receiver. How many bytes it has; `None` if that was known, or it was not wanted.
    pub(super) fn delivered(&mut self, request: u16, block: u32) -> Option<usize> {
        let object = self.known.get_mut(&request)?;
        object.wanted.as_mut()?.remove(block).then(|| object.cut.layout().block_bytes(block))
    }

    /// Whether there was such an object.
    pub(super) fn remove(&mut self, request: u16) -> bool {
        self.queue.retain(|queued| *queued != request);
        self.known.remove(&request).is_some()
    }
}

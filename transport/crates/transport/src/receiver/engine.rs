//! The thread of a receiver.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use proto::object::Layout;
use udp::{JobId, ReceiveUpdate, Receiving, Sink, Taken};
use wire::control::{self, Refusal, Run};

use super::offer::{Offer, Queue};
use crate::engine::Remote;
use crate::error::{Error, Result};

/// How long the thread waits where nothing happens; orders wake it.
const TICK: Duration = Duration::from_secs(1);

/// What becomes of an object that is taken.
pub(super) type Ended = Box<dyn FnOnce(Result<()>) + Send>;

/// What the thread is told.
pub(super) enum Order {
    Take { job: JobId, offer: control::Offer, sink: Box<dyn Sink>, bytes: Arc<AtomicU64>, done: Ended },
    Refuse { job: JobId, refusal: Refusal, why: String },
    Stop,
}

pub(super) struct Engine {
    receiving: Receiving,
    orders: mpsc::Receiver<Order>,
    remote: Remote<Order>,
    queue: Arc<Queue>,
    memory_bytes: u64,
    /// Offers that are neither taken nor refused.
    offered: HashSet<JobId>,
    coming: HashMap<JobId, Coming>,
}

struct Coming {
    name: String,
    bytes: Arc<AtomicU64>,
    done: Ended,
}

impl Engine {
    pub(super) fn new(
        receiving: Receiving,
        orders: mpsc::Receiver<Order>,
        remote: Remote<Order>,
        queue: Arc<Queue>,
        memory_bytes: u64,
    ) -> Self {
        let (offered, coming) = Default::default();
        Engine { receiving, orders, remote, queue, memory_bytes, offered, coming }
    }

    pub(super) fn run(mut self) {
        while self.take_orders() {
            let updates = match self.receiving.wait(TICK) {
                Ok(updates) => updates,
                Err(e) => return self.fail(e.into()),
            };
            for update in updates {
                self.on_update(update);
            }
        }
        self.queue.close(Error::Closed);
        // Senders see the silence otherwise.
        let _ = self.receiving.stop();
    }

    /// The system does not let it go on: whatever is under way fails, and whatever is ordered until the receiver is dropped.
    fn fail(self, why: Error) {
        let Engine { receiving, orders, queue, coming, .. } = self;
        drop(receiving);
        queue.close(why.again());
        for coming in coming.into_values() {
            (coming.done)(Err(why.again()));
        }
        for order in orders {
            match order {
                Order::Take { done, .. } => done(Err(why.again())),
                Order::Refuse { .. } => {}
                Order::Stop => break,
            }
        }
    }

    /// False: it is to stop.
    fn take_orders(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Take { job, offer, sink, bytes, done } => self.take(job, &offer, sink, bytes, done),
                Order::Refuse { job, refusal, why } => {
                    self.offered.remove(&job);
                    self.coming.remove(&job);
                    self.receiving.refuse(job, refusal, why);
                }
                Order::Stop => return false,
            }
        }
        true
    }

    fn take(
        &mut self,
        job: JobId,
        offer: &control::Offer,
        sink: Box<dyn Sink>,
        bytes: Arc<AtomicU64>,
        done: Ended,
    ) {
        let name = offer.path.clone();
        if !self.offered.remove(&job) {
            return done(Err(Error::failed(&name, "its sender has gone, or has withdrawn it")));
        }
        let layout = Layout::new(offer.symbol_bytes, offer.block_symbols, offer.parameters.size);
        let Some(layout) = layout else {
            self.receiving.refuse(job, Refusal::BadParameters, "its cut is out of bounds".into());
            return done(Err(Error::cut(&name)));
        };
        let all = Run { first: 0, count: layout.blocks() };
        let missing = (all.count > 0).then_some(all).into_iter().collect();
        self.coming.insert(job, Coming { name, bytes, done });
        self.receiving.take(job, Taken { missing, sink });
    }

    fn on_update(&mut self, update: ReceiveUpdate) {
        match update {
            ReceiveUpdate::Offered { job, offer, .. } if !is_clean(&offer.path) => {
                let why = "a path must be relative, without \".\" and \"..\"".to_owned();
                self.receiving.refuse(job, Refusal::BadPath, why);
            }
            ReceiveUpdate::Offered { job, from, offer } => {
                self.offered.insert(job);
                let (remote, memory_bytes) = (self.remote.clone(), self.memory_bytes);
                self.queue.put(Offer { job, from, offer, remote, memory_bytes, taken: false });
            }
            ReceiveUpdate::Block { job, bytes } => {
                if let Some(coming) = self.coming.get(&job) {
                    coming.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }
            ReceiveUpdate::Stored { job } => {
                if let Some(coming) = self.coming.remove(&job) {
                    (coming.done)(Ok(()));
                }
            }
            ReceiveUpdate::Failed { job, why } => {
                if self.offered.remove(&job) {
                    self.queue.forget(job);
                }
                if let Some(Coming { name, done, .. }) = self.coming.remove(&job) {
                    done(Err(Error::failed(&name, why)));
                }
            }
            ReceiveUpdate::Connected { .. } | ReceiveUpdate::Disconnected { .. } => {}
        }
    }
}

/// A relative path that stays where it is.
fn is_clean(name: &str) -> bool {
    !name.contains('\0') && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

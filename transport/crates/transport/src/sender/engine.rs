//! The thread of a sender.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use udp::{RateNews, SendUpdate, Sending};

use crate::error::Error;
use crate::source::AnySource;
use crate::transfer::Completer;

/// How long the thread waits where nothing happens; orders wake it.
const TICK: Duration = Duration::from_secs(1);

/// What the thread is told.
pub(super) enum Order {
    Send { id: u64, name: String, source: AnySource, done: Completer<()> },
    Cancel(u64),
    Rate(f64),
    Finish(Completer<()>),
    Stop,
}

pub(super) struct Engine {
    sending: Sending,
    receiver: SocketAddr,
    rate_bps: Option<f64>,
    orders: Receiver<Order>,
    /// What has not been offered yet.
    waiting: VecDeque<Object>,
    going: HashMap<u16, Object>,
    open: bool,
    /// Why there is no connection any more.
    lost: Option<String>,
    finish: Option<Completer<()>>,
}

struct Object {
    id: u64,
    name: String,
    source: AnySource,
    done: Completer<()>,
}

impl Engine {
    pub(super) fn new(
        sending: Sending,
        receiver: SocketAddr,
        rate_bps: Option<f64>,
        orders: Receiver<Order>,
    ) -> Self {
        let (waiting, going) = Default::default();
        Engine { sending, receiver, rate_bps, orders, waiting, going, open: false, lost: None, finish: None }
    }

    pub(super) fn run(mut self) {
        while self.take_orders() {
            self.offer();
            if self.going.is_empty() && self.waiting.is_empty() && self.finish.is_some() {
                break;
            }
            let updates = match self.sending.wait(TICK) {
                Ok(updates) => updates,
                Err(e) => return self.fail(&e.into()),
            };
            for update in updates {
                self.on_update(update);
            }
        }
        let reason = if self.finish.is_some() { "all is sent" } else { "the sender is closed" };
        let released = self.sending.release(reason).map_err(Error::from);
        if let Some(done) = self.finish.take() {
            done.complete(released);
        }
    }

    /// The system does not let it go on: whatever is under way fails, and whatever is ordered until the sender is dropped.
    fn fail(self, why: &Error) {
        let Engine { sending, orders, waiting, going, finish, .. } = self;
        drop(sending);
        let objects = waiting.into_iter().chain(going.into_values()).map(|object| object.done);
        for done in objects.chain(finish) {
            done.complete(Err(why.again()));
        }
        for order in orders {
            match order {
                Order::Send { done, .. } | Order::Finish(done) => done.complete(Err(why.again())),
                Order::Cancel(_) | Order::Rate(_) => {}
                Order::Stop => break,
            }
        }
    }

    /// False: it is to stop.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Send { id, name, source, done }) => {
                    self.waiting.push_back(Object { id, name, source, done });
                }
                Ok(Order::Cancel(id)) => self.cancel(id),
                Ok(Order::Rate(bps)) => {
                    self.rate_bps = Some(bps);
                    if self.open {
                        self.sending.rate_teller().tell(RateNews::Rate(bps));
                    }
                }
                Ok(Order::Finish(done)) => self.finish = Some(done),
                // A sender that is finishing is dropped meanwhile.
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) if self.finish.is_some() => return true,
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn cancel(&mut self, id: u64) {
        self.waiting.retain(|object| object.id != id);
        let request = self.going.iter().find(|(_, object)| object.id == id).map(|(request, _)| *request);
        if let Some(request) = request {
            self.going.remove(&request);
            self.sending.withdraw(request, "the sender has cancelled it");
        }
    }

    fn offer(&mut self) {
        if let Some(why) = &self.lost {
            for object in self.waiting.drain(..) {
                object.done.complete(Err(Error::lost(self.receiver, why)));
            }
        }
        while let Some(object) = self.waiting.pop_front() {
            match self.sending.offer(object.source.clone(), &object.name) {
                Ok(Some(request)) => {
                    self.going.insert(request, object);
                }
                Ok(None) => return self.waiting.push_front(object),
                Err(e) => object.done.complete(Err(Error::failed(&object.name, e))),
            }
        }
    }

    fn on_update(&mut self, update: SendUpdate) {
        match update {
            SendUpdate::Open => {
                self.open = true;
                if let Some(bps) = self.rate_bps {
                    self.sending.rate_teller().tell(RateNews::Rate(bps));
                }
            }
            SendUpdate::Accepted { request, bytes } => {
                if let Some(object) = self.going.get(&request) {
                    let there = object.source.object().size.saturating_sub(bytes);
                    object.done.counter().fetch_add(there, Ordering::Relaxed);
                }
            }
            SendUpdate::Delivered { request, bytes } => {
                if let Some(object) = self.going.get(&request) {
                    object.done.counter().fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }
            SendUpdate::Stored { request } => {
                if let Some(object) = self.going.remove(&request) {
                    object.done.complete(Ok(()));
                }
            }
            SendUpdate::Refused { request, why, detail } => {
                if let Some(object) = self.going.remove(&request) {
                    object.done.complete(Err(Error::refused(&object.name, why, &detail)));
                }
            }
            SendUpdate::Guided(_) => {}
            SendUpdate::Lost { why } => self.lose(why),
        }
    }

    fn lose(&mut self, why: String) {
        for (_, object) in self.going.drain() {
            object.done.complete(Err(Error::lost(self.receiver, &why)));
        }
        self.lost = Some(why);
    }
}

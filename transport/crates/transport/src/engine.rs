//! How an end and the thread that works for it talk to each other.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use crate::error::Result;
use crate::transfer::Transfer;

/// What the work of a thread is told through.
pub(crate) struct Remote<O> {
    orders: mpsc::Sender<O>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl<O> Clone for Remote<O> {
    fn clone(&self) -> Self {
        Remote { orders: self.orders.clone(), wake: self.wake.clone() }
    }
}

impl<O> Remote<O> {
    /// One whose orders wake a thread, and where that finds them.
    pub(crate) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> (Self, mpsc::Receiver<O>) {
        let (orders, ordered) = mpsc::channel();
        (Remote { orders, wake }, ordered)
    }

    /// Gives an order. One that comes too late is dropped: what waits for it ends as closed.
    pub(crate) fn order(&self, order: O) {
        if self.orders.send(order).is_ok() {
            (self.wake)();
        }
    }
}

/// Has `work` done in a thread of its own, and whoever waits for its result go on.
pub(crate) fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Transfer<T> {
    let (transfer, completer) = Transfer::new(|| ());
    match thread::Builder::new().name(name.to_owned()).spawn(move || completer.complete(work())) {
        Ok(_) => transfer,
        Err(e) => Transfer::ended(Err(e.into())),
    }
}

/// Has `work` done in a thread of its own, which sleeps precisely.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        udp::sleep_precisely();
        work()
    })
}

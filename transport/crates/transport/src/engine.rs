//! How an end and the thread that works for it talk to each other.

use std::sync::{Arc, mpsc};
use std::thread;

use crate::error::Result;

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

impl<O: Send + 'static> Remote<O> {
    /// Has `work` done in a thread of its own, which takes orders and may change how precisely it sleeps.
    pub(crate) fn start(
        name: &str,
        wake: Arc<dyn Fn() + Send + Sync>,
        work: impl FnOnce(mpsc::Receiver<O>) + Send + 'static,
    ) -> Result<Self> {
        let (orders, ordered) = mpsc::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            udp::sleep_precisely();
            work(ordered);
        })?;
        Ok(Remote { orders, wake })
    }

    /// Gives an order. One that comes too late is dropped: what waits for it ends as closed.
    pub(crate) fn order(&self, order: O) {
        if self.orders.send(order).is_ok() {
            (self.wake)();
        }
    }
}

//! What a sender would send.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use transport::{Receiver, Refusal, Result};

use crate::files::writer;
use crate::transfer::{Pending, Transfer, Value};

/// An object that a sender would send.
#[pyclass(frozen, module = "weir_transport")]
pub(crate) struct Offer {
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    size: u64,
    #[pyo3(get)]
    sender: String,
    #[pyo3(get)]
    modified_ns: i64,
    #[pyo3(get)]
    mode: u32,
    #[pyo3(get)]
    is_directory: bool,
    /// Until it is taken or refused.
    offer: Mutex<Option<transport::Offer>>,
}

impl Offer {
    pub(crate) fn new(offer: transport::Offer) -> Self {
        Offer {
            name: offer.name().to_owned(),
            size: offer.size(),
            sender: offer.from().to_string(),
            modified_ns: offer.modified_ns(),
            mode: offer.mode(),
            is_directory: offer.is_directory(),
            offer: Mutex::new(Some(offer)),
        }
    }

    fn take(&self) -> PyResult<transport::Offer> {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner).take();
        offer.ok_or_else(|| PyRuntimeError::new_err("the offer has been taken or refused"))
    }
}

/// The next offer of a receiver.
pub(crate) struct Next(pub(crate) Arc<Receiver>);

fn made(offer: transport::Offer) -> Value {
    Value::Object(Box::new(|py| Ok(Py::new(py, Offer::new(offer))?.into_any())))
}

impl Pending for Next {
    fn wait_for(&mut self, patience: Duration) -> Option<Result<Value>> {
        self.0.offer().wait_for(patience).transpose().map(|next| next.map(made))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Value>> {
        Pin::new(&mut self.0.offer()).poll(context).map(|next| next.map(made))
    }

    fn bytes_done(&self) -> u64 {
        0
    }
}

#[pymethods]
impl Offer {
    /// Takes it into memory.
    #[pyo3(name = "into_bytes")]
    fn bytes(&self) -> PyResult<Transfer> {
        Ok(Transfer::of(None, self.take()?.into_bytes(), Value::Bytes))
    }

    /// Takes it into a path, whose file is made anew, or a file object; returns how many bytes it has.
    fn write_to(&self, into: &Bound<'_, PyAny>) -> PyResult<Transfer> {
        let writer = writer(into)?;
        Ok(Transfer::of(None, self.take()?.write_to(writer), Value::Number))
    }

    /// Refuses it; the sender is told why.
    fn refuse(&self, why: &str) -> PyResult<()> {
        self.take()?.refuse(Refusal::Unreadable, why);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("Offer(name={:?}, size={}, sender={:?})", self.name, self.size, self.sender)
    }
}

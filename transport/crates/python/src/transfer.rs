//! What is under way: a thread waits for it, or a task of asyncio does.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use transport::{Entry as Found, Error, Omitted, Result};

use crate::failed;

/// How often a thread that waits looks for signals, as Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// What a transfer has come to.
pub(crate) enum Value {
    Nothing,
    Bytes(Vec<u8>),
    Number(u64),
    Listing(Vec<Found>, Vec<Omitted>),
    /// What has to be made with the interpreter's lock.
    Object(Make),
}

pub(crate) type Make = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Something that ends.
pub(crate) trait Pending: Send {
    fn wait_for(&mut self, patience: Duration) -> Option<Result<Value>>;
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Value>>;
    fn bytes_done(&self) -> u64;
}

struct Mapped<T>(transport::Transfer<T>, fn(T) -> Value);

impl<T: Send> Pending for Mapped<T> {
    fn wait_for(&mut self, patience: Duration) -> Option<Result<Value>> {
        Some(self.0.wait_for(patience)?.map(self.1))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Value>> {
        Pin::new(&mut self.0).poll(context).map(|result| result.map(self.1))
    }

    fn bytes_done(&self) -> u64 {
        self.0.bytes_done()
    }
}

/// A transfer that has been begun. wait() waits for its end in this thread; in a task of asyncio, await does. cancel() gives it up.
#[pyclass(frozen, module = "weir_transport")]
pub(crate) struct Transfer {
    state: Mutex<State>,
    /// The end that works for it: `Client(...).fetch(...)` does not end with the expression.
    _end: Option<Py<PyAny>>,
}

enum State {
    Pending(Box<dyn Pending>),
    Ended(Result<Value>),
    Taken,
}

impl Transfer {
    /// A transfer for which an end works.
    pub(crate) fn of<T: Send + 'static>(
        end: Option<Py<PyAny>>,
        transfer: transport::Transfer<T>,
        value: fn(T) -> Value,
    ) -> Self {
        Transfer::new(end, Mapped(transfer, value))
    }

    pub(crate) fn new(end: Option<Py<PyAny>>, pending: impl Pending + 'static) -> Self {
        Transfer { state: Mutex::new(State::Pending(Box::new(pending))), _end: end }
    }

    /// To be called without the interpreter's lock: a thread that waits holds it for a while.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match py.detach(|| std::mem::replace(&mut *self.lock(), State::Taken)) {
            State::Ended(result) => object(py, result.map_err(failed)?),
            State::Pending(_) | State::Taken => Err(PyRuntimeError::new_err("the result has been taken")),
        }
    }
}

fn object(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::Nothing => py.None(),
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
        Value::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
        Value::Listing(entries, omitted) => {
            let entries: Vec<Entry> = entries.into_iter().map(Entry::from).collect();
            let omitted: Vec<_> = omitted.into_iter().map(|omitted| (omitted.path, omitted.why)).collect();
            (entries, omitted).into_pyobject(py)?.into_any().unbind()
        }
        Value::Object(make) => make(py)?,
    })
}

#[pymethods]
impl Transfer {
    /// Waits until it has ended; after so many seconds TimeoutError, and it goes on.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let until = timeout.map(Duration::try_from_secs_f64).transpose();
        let until = until.map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
        let until = until.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let ended = py.detach(|| {
                let mut state = self.lock();
                let State::Pending(pending) = &mut *state else { return true };
                let Some(result) = pending.wait_for(left.unwrap_or(TICK).min(TICK)) else { return false };
                *state = State::Ended(result);
                true
            });
            if ended {
                return self.result(py);
            }
            if let Err(interrupt) = py.check_signals() {
                self.cancel(py);
                return Err(interrupt);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(PyTimeoutError::new_err("the transfer goes on"));
            }
        }
    }

    /// Gives it up.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| {
            let before = {
                let mut state = self.lock();
                match &*state {
                    State::Pending(_) => std::mem::replace(&mut *state, State::Ended(Err(Error::Closed))),
                    _ => State::Taken,
                }
            };
            drop(before);
        });
    }

    /// Bytes that are through so far.
    #[getter]
    fn bytes_done(&self, py: Python<'_>) -> u64 {
        py.detach(|| match &*self.lock() {
            State::Pending(pending) => pending.bytes_done(),
            _ => 0,
        })
    }

    /// Whether it has ended; if not, `wake` is called, in any thread, when that is to be asked again.
    fn _poll(&self, py: Python<'_>, wake: Py<PyAny>) -> bool {
        py.detach(|| {
            let mut state = self.lock();
            let State::Pending(pending) = &mut *state else { return true };
            let waker = Waker::from(Arc::new(Callback(wake)));
            match pending.poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => *state = State::Ended(result),
                Poll::Pending => return false,
            }
            true
        })
    }

    fn _result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.result(py)
    }

    /// What annotations say of its result.
    #[classmethod]
    fn __class_getitem__(cls: &Bound<'_, PyType>, _result: &Bound<'_, PyAny>) -> Py<PyType> {
        cls.clone().unbind()
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let finished = slf.py().import("weir_transport._awaiting")?.getattr("finished")?;
        finished.call1((slf,))?.call_method0("__await__")
    }
}

/// Wakes a task of asyncio.
struct Callback(Py<PyAny>);

impl Wake for Callback {
    fn wake(self: Arc<Self>) {
        // Nobody waits any more in an interpreter that is ending.
        let _ = Python::try_attach(|py| {
            if let Err(error) = self.0.call0(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// A file or directory of a listing.
#[pyclass(frozen, get_all, module = "weir_transport")]
pub(crate) struct Entry {
    path: String,
    size: u64,
    modified_ns: i64,
    mode: u32,
}

impl From<Found> for Entry {
    fn from(found: Found) -> Self {
        let Found { path, size, modified_ns, mode } = found;
        Entry { path, size, modified_ns, mode }
    }
}

#[pymethods]
impl Entry {
    fn __repr__(&self) -> String {
        format!("Entry(path={:?}, size={})", self.path, self.size)
    }
}

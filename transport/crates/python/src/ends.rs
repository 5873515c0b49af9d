//! Client, server, sender and receiver.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use transport::{
    AnySource, ClientBuilder, Directory, Error, Fingerprint, Identity, Objects, ReceiverBuilder,
    SenderBuilder, ServerBuilder, Store, Trust, identity_at,
};

use crate::failed;
use crate::files::{source, writer};
use crate::offer::Next;
use crate::transfer::{Transfer, Value};

/// Bytes of a file object without a size that is sent or served.
const SPOOL_BYTES: u64 = 1 << 30;

type Ended<T> = Mutex<Option<T>>;

fn with<T, R>(end: &Ended<T>, act: impl FnOnce(&T) -> R) -> PyResult<R> {
    let end = end.lock().unwrap_or_else(PoisonError::into_inner);
    end.as_ref().map(act).ok_or_else(|| failed(Error::Closed))
}

fn take<T>(end: &Ended<T>) -> Option<T> {
    end.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Fingerprints, or a file of authorities.
#[derive(FromPyObject)]
enum Peers {
    One(String),
    Many(Vec<String>),
    Authorities(PathBuf),
}

impl Peers {
    fn trust(self) -> PyResult<Trust> {
        let fingerprint = |text: String| text.parse::<Fingerprint>().map_err(|e| failed(e.into()));
        Ok(match self {
            Peers::One(one) => fingerprint(one)?.into(),
            Peers::Many(many) => many.into_iter().map(fingerprint).collect::<PyResult<Vec<_>>>()?.into(),
            Peers::Authorities(path) => Trust::Authorities(path),
        })
    }
}

fn identity(path: Option<PathBuf>) -> PyResult<Option<Identity>> {
    path.map(|path| identity_at(path).map_err(failed)).transpose()
}

fn trust(peers: Option<Peers>) -> PyResult<Option<Trust>> {
    peers.map(Peers::trust).transpose()
}

/// A builder with what was given, if it was.
fn given<B, V>(builder: B, value: Option<V>, set: impl FnOnce(B, V) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

fn chosen<B>(builder: B, choice: bool, set: impl FnOnce(B) -> B) -> B {
    given(builder, choice.then_some(()), |builder, ()| set(builder))
}

/// What a transfer keeps alive.
fn owner<T: pyo3::PyClass>(end: &Bound<'_, T>) -> Option<Py<PyAny>> {
    Some(end.clone().into_any().unbind())
}

/// The fingerprint of the identity in a PEM file, which is made if there is none.
#[pyfunction]
pub(crate) fn fingerprint(path: PathBuf) -> PyResult<String> {
    Ok(identity_at(path).map_err(failed)?.fingerprint().to_string())
}

/// Fetches objects from servers, over LTTP.
#[pyclass(frozen, module = "weir_transport")]
pub(crate) struct Client(Ended<transport::Client>);

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (*servers, trust = None, identity = None, insecure = false, memory_limit = None))]
    fn new(
        py: Python<'_>,
        servers: Vec<String>,
        trust: Option<Peers>,
        identity: Option<PathBuf>,
        insecure: bool,
        memory_limit: Option<u64>,
    ) -> PyResult<Self> {
        let builder = transport::Client::builder();
        let builder = given(builder, self::trust(trust)?, ClientBuilder::trust);
        let builder = given(builder, self::identity(identity)?, ClientBuilder::identity);
        let builder = chosen(builder, insecure, ClientBuilder::insecure);
        let builder = given(builder, memory_limit, ClientBuilder::memory_limit);
        let client = py.detach(|| builder.connect(servers)).map_err(failed)?;
        Ok(Client(Mutex::new(Some(client))))
    }

    /// Fetches an object into memory.
    fn fetch(slf: &Bound<'_, Self>, path: &str) -> PyResult<Transfer> {
        with(&slf.get().0, |client| Transfer::of(owner(slf), client.fetch(path), Value::Bytes))
    }

    /// Fetches an object into a path, whose file is made anew, or a file object; returns how many bytes it has.
    fn fetch_to(slf: &Bound<'_, Self>, path: &str, into: &Bound<'_, PyAny>) -> PyResult<Transfer> {
        let writer = writer(into)?;
        with(&slf.get().0, |client| Transfer::of(owner(slf), client.fetch_to(path, writer), Value::Number))
    }

    /// Everything below a path: entries, and pairs of what cannot be fetched and why.
    #[pyo3(signature = (path = "."))]
    fn list(slf: &Bound<'_, Self>, path: &str) -> PyResult<Transfer> {
        let value = |(entries, omitted)| Value::Listing(entries, omitted);
        with(&slf.get().0, |client| Transfer::of(owner(slf), client.list(path), value))
    }

    /// Ends all that is under way.
    fn close(&self) {
        drop(take(&self.0));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(&self, _type: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close();
    }
}

/// Serves a directory, or objects by name, over LTTP.
#[pyclass(frozen, module = "weir_transport")]
pub(crate) struct Server {
    server: Ended<transport::Server>,
    objects: Option<Arc<Objects>>,
    #[pyo3(get)]
    address: String,
    #[pyo3(get)]
    fingerprint: Option<String>,
}

impl Server {
    fn objects(&self) -> PyResult<&Objects> {
        let what = "a server of a directory serves what is there: put files into it";
        self.objects.as_deref().ok_or_else(|| PyValueError::new_err(what))
    }
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (address = "[::]:4860", *, directory = None, identity = None, clients = None, insecure = false))]
    fn new(
        py: Python<'_>,
        address: &str,
        directory: Option<PathBuf>,
        identity: Option<PathBuf>,
        clients: Option<Peers>,
        insecure: bool,
    ) -> PyResult<Self> {
        let builder = transport::Server::builder();
        let builder = given(builder, self::identity(identity)?, ServerBuilder::identity);
        let builder = given(builder, trust(clients)?, ServerBuilder::clients);
        let builder = chosen(builder, insecure, ServerBuilder::insecure);
        let objects = directory.is_none().then(|| Arc::new(Objects::new()));
        let store: Arc<dyn Store> = match (&objects, directory) {
            (Some(objects), _) => objects.clone(),
            (None, directory) => Arc::new(Directory::open(&directory.unwrap_or_default())?),
        };
        let server = py.detach(|| builder.bind(address, store)).map_err(failed)?;
        let (address, fingerprint) = (server.address().to_string(), server.fingerprint());
        let fingerprint = fingerprint.map(|f| f.to_string());
        Ok(Server { server: Mutex::new(Some(server)), objects, address, fingerprint })
    }

    /// Serves bytes, a path, or what has read(), under a name. What is read may have most_bytes.
    #[pyo3(signature = (name, content, *, most_bytes = SPOOL_BYTES))]
    fn insert(&self, name: &str, content: &Bound<'_, PyAny>, most_bytes: u64) -> PyResult<()> {
        let source: AnySource = source(content, None, most_bytes)?;
        self.objects()?.insert(name, source);
        Ok(())
    }

    /// Serves it no more; whether it was served.
    fn remove(&self, name: &str) -> PyResult<bool> {
        Ok(self.objects()?.remove(name).is_some())
    }

    /// Says goodbye to its clients and stops.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| take(&self.server).map(transport::Server::stop)).transpose().map(|_| ()).map_err(failed)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }
}

/// Sends objects to one receiver, over DFCP.
#[pyclass(frozen, module = "weir_transport")]
pub(crate) struct Sender(Ended<transport::Sender>);

#[pymethods]
impl Sender {
    #[new]
    #[pyo3(signature = (receiver, *, trust = None, identity = None, insecure = false, rate = None))]
    fn new(
        py: Python<'_>,
        receiver: &str,
        trust: Option<Peers>,
        identity: Option<PathBuf>,
        insecure: bool,
        rate: Option<f64>,
    ) -> PyResult<Self> {
        let builder = transport::Sender::builder();
        let builder = given(builder, self::trust(trust)?, SenderBuilder::trust);
        let builder = given(builder, self::identity(identity)?, SenderBuilder::identity);
        let builder = chosen(builder, insecure, SenderBuilder::insecure);
        let builder = given(builder, rate, SenderBuilder::rate);
        let sender = py.detach(|| builder.connect(receiver)).map_err(failed)?;
        Ok(Sender(Mutex::new(Some(sender))))
    }

    /// Sends bytes, a path, or what has read(), under a name: size bytes while they are read, else all of it, once it has been read.
    #[pyo3(signature = (name, content, *, size = None, most_bytes = SPOOL_BYTES))]
    fn send(
        slf: &Bound<'_, Self>,
        name: &str,
        content: &Bound<'_, PyAny>,
        size: Option<u64>,
        most_bytes: u64,
    ) -> PyResult<Transfer> {
        let source: AnySource = source(content, size, most_bytes)?;
        with(&slf.get().0, |sender| Transfer::of(owner(slf), sender.send(name, source), |()| Value::Nothing))
    }

    /// Sends at this rate from now on: bit/s of whole Ethernet frames.
    fn set_rate(&self, rate: f64) -> PyResult<()> {
        with(&self.0, |sender| sender.set_rate(rate))
    }

    /// Tells the receiver that nothing more comes, once all that was sent is there or has failed.
    fn finish(&self) -> PyResult<Transfer> {
        let sender = take(&self.0).ok_or_else(|| failed(Error::Closed))?;
        Ok(Transfer::of(None, sender.finish(), |()| Value::Nothing))
    }

    /// Ends all that is under way.
    fn close(&self) {
        drop(take(&self.0));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        failure: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let finishing = take(&slf.get().0).filter(|_| failure.is_none());
        if let Some(sender) = finishing {
            Bound::new(slf.py(), Transfer::of(None, sender.finish(), |()| Value::Nothing))?
                .call_method0("wait")?;
        }
        Ok(())
    }
}

/// Receives objects from senders, over DFCP.
#[pyclass(frozen, module = "weir_transport")]
pub(crate) struct Receiver {
    receiver: Ended<Arc<transport::Receiver>>,
    #[pyo3(get)]
    address: String,
    #[pyo3(get)]
    fingerprint: Option<String>,
}

#[pymethods]
impl Receiver {
    #[new]
    #[pyo3(signature = (
        address = "[::]:4861", *, clients = None, anyone = false, identity = None, insecure = false, memory_limit = None,
    ))]
    fn new(
        py: Python<'_>,
        address: &str,
        clients: Option<Peers>,
        anyone: bool,
        identity: Option<PathBuf>,
        insecure: bool,
        memory_limit: Option<u64>,
    ) -> PyResult<Self> {
        let builder = transport::Receiver::builder();
        let builder = given(builder, trust(clients)?, ReceiverBuilder::clients);
        let builder = chosen(builder, anyone, ReceiverBuilder::anyone);
        let builder = given(builder, self::identity(identity)?, ReceiverBuilder::identity);
        let builder = chosen(builder, insecure, ReceiverBuilder::insecure);
        let builder = given(builder, memory_limit, ReceiverBuilder::memory_limit);
        let receiver = py.detach(|| builder.bind(address)).map_err(failed)?;
        let (address, fingerprint) = (receiver.address().to_string(), receiver.fingerprint());
        let fingerprint = fingerprint.map(|f| f.to_string());
        Ok(Receiver { receiver: Mutex::new(Some(Arc::new(receiver))), address, fingerprint })
    }

    /// The next object that somebody would send.
    fn offer(slf: &Bound<'_, Self>) -> PyResult<Transfer> {
        with(&slf.get().receiver, |receiver| Transfer::new(owner(slf), Next(receiver.clone())))
    }

    /// Ends all that is under way.
    fn close(&self) {
        drop(take(&self.receiver));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(&self, _type: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close();
    }
}

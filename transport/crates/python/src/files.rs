//! Python's bytes, paths and file objects as sources and sinks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use transport::{AnySource, IntoSource, reader, spool};

use crate::failed;

/// A file object.
struct FileObject(Py<PyAny>);

fn gone() -> io::Error {
    io::Error::other("the interpreter is ending")
}

impl Read for FileObject {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = Python::try_attach(|py| {
            let read = self.0.call_method1(py, "read", (bytes.len(),))?;
            let read = read.bind(py);
            let data = read.extract::<PyBuffer<u8>>()?.to_vec(py)?;
            let place = bytes.get_mut(..data.len());
            place
                .ok_or_else(|| io::Error::other("read() gave more than it was asked for"))?
                .copy_from_slice(&data);
            Ok::<_, PyErr>(data.len())
        });
        Ok(read.ok_or_else(gone)??)
    }
}

impl Write for FileObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = Python::try_attach(|py| {
            let written = self.0.call_method1(py, "write", (PyBytes::new(py, bytes),))?;
            let written: Option<usize> = written.extract(py)?;
            Ok::<_, PyErr>(written.unwrap_or(bytes.len()).min(bytes.len()))
        });
        Ok(written.ok_or_else(gone)??)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = Python::try_attach(|py| {
            if self.0.bind(py).hasattr("flush")? {
                self.0.call_method0(py, "flush")?;
            }
            Ok::<_, PyErr>(())
        });
        Ok(flushed.ok_or_else(gone)??)
    }
}

/// Bytes, a path, or a file object that is read: the next `size` bytes while they are sent, or all of it first.
pub(crate) fn source(content: &Bound<'_, PyAny>, size: Option<u64>, most_bytes: u64) -> PyResult<AnySource> {
    let py = content.py();
    if content.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("text is not bytes: encode() it, or give a pathlib.Path to a file"));
    }
    if content.hasattr("read")? {
        let file = FileObject(content.clone().unbind());
        let made = py.detach(|| match size {
            Some(size) => reader(file, size),
            None => spool(file, most_bytes),
        });
        return made.map_err(failed);
    }
    if content.hasattr("__fspath__")? {
        let path: PathBuf = content.extract()?;
        return py.detach(|| path.into_source()).map_err(failed);
    }
    let bytes = content.extract::<PyBuffer<u8>>().map_err(|_| {
        PyTypeError::new_err("an object is made of bytes, a pathlib.Path, or what has read()")
    })?;
    bytes.to_vec(py)?.into_source().map_err(failed)
}

/// A path, whose file is made anew, or a file object.
pub(crate) fn writer(into: &Bound<'_, PyAny>) -> PyResult<Box<dyn Write + Send>> {
    if into.hasattr("write")? {
        return Ok(Box::new(FileObject(into.clone().unbind())));
    }
    let path: PathBuf = into
        .extract()
        .map_err(|_| PyTypeError::new_err("an object goes into a path, or into what has write()"))?;
    Ok(Box::new(into.py().detach(|| File::create(path))?))
}

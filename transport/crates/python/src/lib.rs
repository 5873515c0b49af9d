//! The coded transports in Python, and their codec. What waits lets other Python threads run.

mod codec;
mod ends;
mod files;
mod offer;
mod transfer;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use transport::Error;

pyo3::create_exception!(weir_transport, TransportError, PyException, "Something was not transferred.");
pyo3::create_exception!(
    weir_transport,
    LostError,
    TransportError,
    "The connection to a peer is gone, or never was."
);
pyo3::create_exception!(
    weir_transport,
    RefusedError,
    TransportError,
    "The peer does not give, or take, an object."
);

fn failed(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Lost { .. } => LostError::new_err(text),
        Error::Refused { .. } => RefusedError::new_err(text),
        Error::System(error) => error.into(),
        Error::Setup(_) | Error::Tls(_) => pyo3::exceptions::PyValueError::new_err(text),
        _ => TransportError::new_err(text),
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    codec::add_to(module)?;
    let py = module.py();
    module.add("TransportError", py.get_type::<TransportError>())?;
    module.add("LostError", py.get_type::<LostError>())?;
    module.add("RefusedError", py.get_type::<RefusedError>())?;
    module.add_class::<transfer::Transfer>()?;
    module.add_class::<transfer::Entry>()?;
    module.add_class::<offer::Offer>()?;
    module.add_class::<ends::Client>()?;
    module.add_class::<ends::Server>()?;
    module.add_class::<ends::Sender>()?;
    module.add_class::<ends::Receiver>()?;
    module.add_function(wrap_pyfunction!(ends::fingerprint, module)?)
}

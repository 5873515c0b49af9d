//! The codec, for experiments. Work that takes time lets other Python threads run.

use std::sync::Arc;

use codec::overhead::{Strategy, extra_symbols};
use codec::{Draw, Error, Progress, Random, RobustSoliton};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pyo3::create_exception!(
    weir_transport,
    CodecError,
    PyValueError,
    "A request outside the limits of the codec."
);

fn refused(error: Error) -> PyErr {
    CodecError::new_err(error.to_string())
}

fn draw_named(name: &str) -> PyResult<Draw> {
    match name {
        "dealt" => Ok(Draw::Dealt),
        "independent" => Ok(Draw::Independent),
        "raptor" => Ok(Draw::Raptor),
        _ => Err(CodecError::new_err(format!("a draw is 'dealt', 'independent' or 'raptor', not '{name}'"))),
    }
}

fn strategy_named(name: &str) -> PyResult<Strategy> {
    match name {
        "rank" => Ok(Strategy::Rank),
        "improved" => Ok(Strategy::Improved),
        "standard" => Ok(Strategy::Standard),
        _ => {
            let message = format!("a strategy is 'rank', 'improved' or 'standard', not '{name}'");
            Err(CodecError::new_err(message))
        }
    }
}

/// Which source symbols each coded symbol of a block is the XOR of.
#[pyclass(frozen, module = "weir_transport")]
struct Rows(codec::Rows);

#[pymethods]
impl Rows {
    #[new]
    #[pyo3(signature = (k, *, draw = "dealt", seed = 0))]
    fn new(k: u16, draw: &str, seed: u64) -> PyResult<Self> {
        codec::Rows::new(k, draw_named(draw)?, seed).map(Rows).map_err(refused)
    }

    fn row(&self, index: u32) -> PyResult<Vec<u16>> {
        self.0.checked(index).map(<[u16]>::to_vec).map_err(refused)
    }

    #[getter]
    fn k(&self) -> u16 {
        self.0.k()
    }

    #[getter]
    fn draw(&self) -> &'static str {
        match self.0.draw() {
            Draw::Dealt => "dealt",
            Draw::Independent => "independent",
            Draw::Raptor => "raptor",
        }
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed()
    }

    #[getter]
    fn max_symbols(&self) -> u32 {
        self.0.max_symbols()
    }
}

/// Coded symbols of one block, whose source counts as followed by zeros.
#[pyclass(module = "weir_transport")]
struct Encoder(codec::Encoder);

#[pymethods]
impl Encoder {
    #[new]
    fn new(source: &[u8], symbol_bytes: usize, rows: &Rows) -> PyResult<Self> {
        codec::Encoder::new(Arc::from(source), symbol_bytes, rows.0.clone()).map(Encoder).map_err(refused)
    }

    fn encode<'py>(&mut self, py: Python<'py>, index: u32) -> PyResult<Bound<'py, PyBytes>> {
        let encoder = &mut self.0;
        PyBytes::new_with(py, encoder.symbol_bytes(), |out| {
            py.detach(|| encoder.encode(index, out)).map_err(refused)
        })
    }

    fn encode_many<'py>(
        &mut self,
        py: Python<'py>,
        first: u32,
        count: u32,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let end = first.saturating_add(count);
        let limit = self.0.rows().max_symbols();
        // Before memory is taken for them all.
        if end > limit {
            return Err(refused(Error::Index { index: end - 1, last: limit - 1 }));
        }
        (first..end).map(|index| self.encode(py, index)).collect()
    }
}

/// A block from any coded symbols whose rows have rank k.
#[pyclass(module = "weir_transport")]
struct Decoder(codec::Decoder);

#[pymethods]
impl Decoder {
    #[new]
    fn new(symbol_bytes: usize, rows: &Rows) -> PyResult<Self> {
        codec::Decoder::new(symbol_bytes, rows.0.clone()).map(Decoder).map_err(refused)
    }

    /// How many more symbols are needed at least; 0 when the block is complete.
    fn push(&mut self, py: Python<'_>, index: u32, payload: &[u8]) -> PyResult<u32> {
        let decoder = &mut self.0;
        match py.detach(|| decoder.push(index, payload)).map_err(refused)? {
            Progress::Complete => Ok(0),
            Progress::Needs(missing) => Ok(missing),
            Progress::Duplicate => Ok(decoder.needs()),
        }
    }

    fn reset(&mut self, rows: &Rows) {
        self.0.reset(rows.0.clone());
    }

    #[getter]
    fn needs(&self) -> u32 {
        self.0.needs()
    }

    #[getter]
    fn complete(&self) -> bool {
        self.0.source().is_some()
    }

    fn source<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.source().map(|source| PyBytes::new(py, source))
    }
}

/// The first seed from start on whose first k rows are independent.
#[pyfunction]
#[pyo3(signature = (k, *, draw = "dealt", start = 0))]
fn choose_seed(py: Python<'_>, k: u16, draw: &str, start: u64) -> PyResult<u64> {
    let draw = draw_named(draw)?;
    Ok(py.detach(|| codec::choose_seed(k, draw, start)))
}

/// The robust soliton distribution: the probabilities of the degrees 1 to k (LTTP, Eq. 1-3).
#[pyfunction]
#[pyo3(signature = (k, c = codec::soliton::PAPER_C, delta = codec::soliton::PAPER_DELTA))]
fn soliton(k: u16, c: f64, delta: f64) -> PyResult<Vec<f64>> {
    RobustSoliton::new(k, c, delta).map(|soliton| soliton.pmf().to_vec()).map_err(refused)
}

/// For each trial, how many symbols beyond k arrive until the block is complete.
#[pyfunction]
#[pyo3(signature = (k, trials, *, draw = "dealt", strategy = "rank", loss = 0.0, seed = 0))]
fn overhead(
    py: Python<'_>,
    k: u16,
    trials: u32,
    draw: &str,
    strategy: &str,
    loss: f64,
    seed: u64,
) -> PyResult<Vec<u32>> {
    let (draw, strategy) = (draw_named(draw)?, strategy_named(strategy)?);
    let mut random = Random::new(seed);
    let seeds = (0..trials).map(move |_| random.next());
    py.detach(|| extra_symbols(k, draw, strategy, loss, seeds)).map_err(refused)
}

/// Adds it to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CodecError", module.py().get_type::<CodecError>())?;
    module.add("kernel", codec::xor::Kernel::best().name())?;
    module.add_class::<Rows>()?;
    module.add_class::<Encoder>()?;
    module.add_class::<Decoder>()?;
    module.add_function(wrap_pyfunction!(choose_seed, module)?)?;
    module.add_function(wrap_pyfunction!(soliton, module)?)?;
    module.add_function(wrap_pyfunction!(overhead, module)?)
}

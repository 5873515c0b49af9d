//! Reception overhead by trial: how many coded symbols beyond its own number a block takes.
//!
//! For experiments, benchmarks and the bindings. Nothing here moves data.

use crate::paper::{ImprovedDecoder, StandardDecoder};
use crate::solver::Solver;
use crate::{Code, Error, Family, Progress, Random};

/// What decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Peeling with inactivation, ours: a block is complete as soon as its rows have rank k.
    Rank,
    /// The paper's improved decoder (Algorithm 2).
    Improved,
    /// The paper's standard decoder (Algorithm 1).
    Standard,
}

/// For each seed a block whose coded symbols are lost with probability `loss` each: how many more than `k` arrive
/// until it is complete. If all that a block has arrived and did not suffice, all of them count.
///
/// # Errors
/// `k` outside the codec's limits; `loss` not in [0, 1); a decoder of the paper's for a code that it does not know.
pub fn extra_symbols(
    k: u16,
    family: impl Into<Family>,
    strategy: Strategy,
    loss: f64,
    seeds: impl IntoIterator<Item = u64>,
) -> Result<Vec<u32>, Error> {
    if !(0.0..1.0).contains(&loss) {
        return Err(Error::Loss(loss));
    }
    let lost_below = (loss * 4_294_967_296.0) as u64;
    let code = Code::new(k, family)?;
    let mut solver = Solver::new(k.into(), 1)?;
    let trial = |seed| {
        let rows = code.rows(seed);
        let mut losses = Random::of(!seed, 0);
        let arrive = (0..rows.max_symbols()).filter(|_| u64::from(losses.bits()) >= lost_below);
        let received = match strategy {
            Strategy::Rank => {
                solver.reset(rows.columns().into());
                for constraint in rows.constraints() {
                    solver.push(constraint, None)?;
                }
                until_complete(arrive, |index| solver.push(rows.row(index), None))?
            }
            Strategy::Improved => {
                let mut decoder = ImprovedDecoder::new(1, rows.clone())?;
                until_complete(arrive, |index| decoder.push(index, &[0]))?
            }
            Strategy::Standard => {
                let mut decoder = StandardDecoder::new(1, rows.clone())?;
                until_complete(arrive, |index| decoder.push(index, &[0]))?
            }
        };
        Ok(received.saturating_sub(k.into()))
    };
    seeds.into_iter().map(trial).collect()
}

fn until_complete(
    arrive: impl Iterator<Item = u32>,
    mut push: impl FnMut(u32) -> Result<Progress, Error>,
) -> Result<u32, Error> {
    let mut received = 0;
    for index in arrive {
        received += 1;
        if push(index)? == Progress::Complete {
            break;
        }
    }
    Ok(received)
}

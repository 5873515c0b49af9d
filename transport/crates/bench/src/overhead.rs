//! Reception overhead of the LT code, over seeds drawn at random.

use codec::overhead::{Strategy, extra_symbols};
use codec::{Draw, Random, choose_seed};

use crate::report::Report;

/// What is measured under which name. Ours has none: dealt neighbours, inactivation.
const CODES: [(&str, Draw, Strategy); 5] = [
    ("", Draw::Dealt, Strategy::Rank),
    ("_independent_rank", Draw::Independent, Strategy::Rank),
    ("_independent_peel", Draw::Independent, Strategy::Improved),
    ("_dealt_peel", Draw::Dealt, Strategy::Improved),
    ("_raptor", Draw::Raptor, Strategy::Rank),
];

const LOSSES: [(&str, f64); 2] = [("", 0.0), ("_loss20", 0.2)];

/// Measures all codes, with and without loss.
pub fn measure(k: u16, trials: usize, seed: u64, report: &mut Report) {
    report.figure(&format!("overhead_trials_k{k}"), trials as f64);
    let seeds = |trials| {
        let mut random = Random::of(seed, k.into());
        (0..trials).map(move |_| random.next())
    };
    for (code, draw, strategy) in CODES {
        for (lossy, loss) in LOSSES {
            let extra = extra_symbols(k, draw, strategy, loss, seeds(trials)).expect("within the limits");
            figures(k, extra, &format!("k{k}{code}{lossy}"), report);
        }
    }
    // The search for a seed whose first k rows are independent costs many trials.
    for (lossy, loss) in LOSSES {
        let chosen = seeds(trials / 10).map(|start| choose_seed(k, Draw::Dealt, start));
        let extra = extra_symbols(k, Draw::Dealt, Strategy::Rank, loss, chosen).expect("within the limits");
        figures(k, extra, &format!("k{k}_chosen_seed{lossy}"), report);
    }
}

fn figures(k: u16, mut extra: Vec<u32>, suffix: &str, report: &mut Report) {
    extra.sort_unstable();
    let percent = |symbols: f64| 100.0 * symbols / f64::from(k);
    let mean = extra.iter().map(|&n| f64::from(n)).sum::<f64>() / extra.len() as f64;
    let p99 = extra[(extra.len() * 99).div_ceil(100) - 1];
    report.figure(&format!("overhead_mean_pct_{suffix}"), percent(mean));
    report.figure(&format!("overhead_p99_pct_{suffix}"), percent(p99.into()));
}

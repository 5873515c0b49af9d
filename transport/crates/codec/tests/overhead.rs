//! How many symbols a block needs beyond its own number, symbols lost or not. The bounds are those that the
//! project promises (10,000 trials a figure in `make bench-codec`); here are fewer trials.

use weir_codec::overhead::{Strategy, extra_symbols};
use weir_codec::{Decoder, Draw, Error, Family, Progress, Rows, Soliton, choose_seed};

fn mean_percent(k: u16, draw: Draw, strategy: Strategy, loss: f64, trials: u64) -> f64 {
    let extra = extra_symbols(k, draw, strategy, loss, 0..trials).unwrap();
    100.0 * f64::from(extra.iter().sum::<u32>()) / (trials as f64 * f64::from(k))
}

#[test]
fn dealt_rows_need_few_symbols_more_than_the_block_has() {
    for (k, bound) in [(64, 6.0), (128, 3.0), (256, 1.6)] {
        for loss in [0.0, 0.2] {
            let mean = mean_percent(k, Draw::Dealt, Strategy::Rank, loss, 3000);
            assert!(mean <= bound, "k = {k}, loss {loss}: {mean:.2} % more");
        }
    }
}

#[test]
fn raptor_rows_need_fewer_than_three_symbols_more() {
    for k in [10, 64, 256, 1024] {
        for loss in [0.0, 0.2] {
            let extra = extra_symbols(k, Draw::Raptor, Strategy::Rank, loss, 0..300).unwrap();
            let mean = f64::from(extra.iter().sum::<u32>()) / 300.0;
            assert!(mean < 3.0, "k = {k}, loss {loss}: {mean:.2} more");
        }
    }
}

#[test]
fn the_papers_decoders_know_no_precode() {
    assert!(extra_symbols(64, Draw::Raptor, Strategy::Improved, 0.0, [0]).is_err());
}

#[test]
fn independent_rows_need_more_and_peeling_alone_many_more() {
    for (k, rank, peel) in [(64, 10.0, 38.0), (128, 6.6, 34.5), (256, 3.9, 31.7)] {
        let mean = mean_percent(k, Draw::Independent, Strategy::Rank, 0.0, 1000);
        assert!((mean - rank).abs() < 1.5, "k = {k}: {mean:.2} % more by rank");
        let mean = mean_percent(k, Draw::Independent, Strategy::Improved, 0.0, 300);
        assert!((mean - peel).abs() < 4.0, "k = {k}: {mean:.2} % more by peeling");
    }
}

#[test]
fn chosen_seeds_need_none_without_loss() {
    let seeds = (0..20).map(|n| choose_seed(64, Draw::Dealt, 1000 * n));
    let extra = extra_symbols(64, Draw::Dealt, Strategy::Rank, 0.0, seeds).unwrap();
    assert!(extra.iter().all(|&n| n == 0), "{extra:?}");
}

#[test]
fn a_loss_that_is_none_is_refused() {
    for loss in [-0.1, 1.0, f64::NAN] {
        let error = extra_symbols(8, Draw::Dealt, Strategy::Rank, loss, [0]).unwrap_err();
        assert!(matches!(error, Error::Loss(_)));
    }
}

#[test]
fn with_any_parameters_that_may_be_asked_for_blocks_are_decoded_and_none_refused() {
    for draw in [Draw::Independent, Draw::Dealt] {
        for (c, delta) in
            [0.01, 0.05, 0.2, 1.0, 2.0].into_iter().flat_map(|c| [0.1, 0.5, 1.0].map(|delta| (c, delta)))
        {
            for (k, seeds) in [(8, 20), (64, 20), (256, 20), (1024, 3), (4096, 1)] {
                let soliton = Soliton::new(c, delta).unwrap();
                for seed in 0..seeds {
                    let rows = Rows::new(k, Family { draw, soliton }, seed).unwrap();
                    let mut decoder = Decoder::new(1, rows.clone()).unwrap();
                    let whole = (0..rows.max_symbols()).any(|index| {
                        let progress = decoder.push(index, &[0]);
                        progress.unwrap_or_else(|e| panic!("{draw:?}, c {c}, delta {delta}, k {k}: {e}"))
                            == Progress::Complete
                    });
                    assert!(whole || draw == Draw::Independent, "{draw:?}, c {c}, delta {delta}, k {k}");
                }
            }
        }
    }
}

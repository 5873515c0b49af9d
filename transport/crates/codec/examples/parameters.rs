//! Prints the table of README.md: symbols beyond k that blocks need, for some parameters c and delta.

use weir_codec::overhead::{Strategy, extra_symbols};
use weir_codec::{Draw, Family, Soliton};

fn main() {
    for (c, delta) in [(0.2, 0.7), (0.05, 0.5), (0.1, 0.1), (0.5, 0.5), (1.0, 0.9)] {
        let soliton = Soliton::new(c, delta).expect("within the bounds");
        print!("| {c}, {delta}");
        for (draw, strategy) in [
            (Draw::Dealt, Strategy::Rank),
            (Draw::Independent, Strategy::Rank),
            (Draw::Independent, Strategy::Improved),
        ] {
            let mut cells = Vec::new();
            for k in [64_u16, 128, 256] {
                let extra = extra_symbols(k, Family { draw, soliton }, strategy, 0.0, 0..1000);
                let extra = extra.expect("within the bounds");
                let mean = f64::from(extra.iter().sum::<u32>()) / 1000.0;
                cells.push(format!("{:.1}", 100.0 * mean / f64::from(k)));
            }
            print!(" | {}", cells.join(" / "));
        }
        println!(" |");
    }
}

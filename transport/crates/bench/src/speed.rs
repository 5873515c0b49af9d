//! Speed of all codecs on the same block, in turns, so that a slow minute of the machine falls on all of them.

use std::time::Duration;

use crate::report::Report;
use crate::subjects;

/// Blocks in a row that one codec works on before it is the next one's turn. The first of them, which finds the
/// caches full of another's data, is not counted.
pub const TURN: usize = 12;

/// Measures every codec over so many turns.
pub fn measure(k: u16, symbol_bytes: usize, turns: usize, seed: u64, report: &mut Report) {
    let mut subjects = subjects::all(k, symbol_bytes, seed);
    let mut times: Vec<[Vec<Duration>; 2]> = subjects.iter().map(|_| Default::default()).collect();
    // Large blocks take long enough to be measured well in fewer turns.
    let turns = (turns * 256 / usize::from(k).max(256)).max(3);
    for _ in 0..turns {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            times[0].extend((0..TURN).map(|_| subject.encode()).skip(1));
            times[1].extend((0..TURN).map(|_| subject.decode()).skip(1));
        }
    }
    let bytes = usize::from(k) * symbol_bytes;
    let mut speeds = Vec::new();
    for (subject, [encode, decode]) in subjects.iter().zip(times) {
        let [encode, decode] = [encode, decode].map(|times| bytes as f64 / median(times).as_secs_f64() / 1e9);
        let name = subject.name();
        let (prefix, variant) =
            name.split_once('/').map_or((name, String::new()), |(p, v)| (p, format!("_{v}")));
        report.figure(&format!("{prefix}_encode{variant}_gb_s_k{k}"), encode);
        report.figure(&format!("{prefix}_decode{variant}_gb_s_k{k}"), decode);
        speeds.push((name, encode, decode));
    }
    let of = |wanted: &str| speeds.iter().find(|(name, ..)| *name == wanted).copied();
    for (prefix, ours, cold) in [("", "lt", "lt/cold"), ("raptor_", "raptor", "raptor/cold")] {
        let (Some(ours), Some(cold)) = (of(ours), of(cold)) else { continue };
        for peer in ["raptorq", "raptor_code", "reed_solomon_simd"] {
            let Some(peer) = of(peer) else { continue };
            report.figure(&format!("{prefix}encode_ratio_vs_{}_k{k}", peer.0), ours.1 / peer.1);
            report.figure(&format!("{prefix}decode_ratio_vs_{}_k{k}", peer.0), ours.2 / peer.2);
            report.figure(&format!("{prefix}decode_cold_ratio_vs_{}_k{k}", peer.0), cold.2 / peer.2);
        }
    }
}

/// The one in the middle.
pub fn median(mut times: Vec<Duration>) -> Duration {
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

//! What hostile peers, or others on the path, may do by probes and pieces of LTTP: nobody is made to send more than he was sent,
//! to remember more than a few symbols, or to believe of the path what does not come from the peer.

mod peers;

use std::time::Duration;

use peers::{Bench, CONNECTION, SERVER, Victim, client_address, fetch, modest};
use proptest::prelude::*;
use weir_proto::lttp::ServerConfig;
use wire::control::{self, Fetch};
use wire::packet::{Header, Kind, Probe};

const MS: Duration = Duration::from_millis(1);
/// Of datagrams of 1,442 bytes.
const LONG_SYMBOL: u16 = 1400;

/// A client of symbols in long datagrams that has said hello by a short one.
fn narrow(secure: bool) -> Bench {
    let mut bench = Bench::new(ServerConfig::default(), secure).proven();
    bench.object_bytes = 50_000;
    bench.say(control::Client::Fetch(Fetch { symbol_bytes: LONG_SYMBOL, ..fetch(0) }));
    bench
}

fn long_bytes(bench: &Bench) -> u16 {
    1426 + if bench.seal.is_on() { 16 } else { 0 }
}

fn victim(secure: bool) -> Victim {
    let mut victim = Victim::new(modest(), secure);
    assert_eq!(victim.client.fetch(SERVER, "a".into(), Vec::new(), None), Some(0));
    victim.work();
    victim.parameters(0, 8_000);
    victim
}

#[test]
fn a_path_that_is_not_proven_is_not_believed_in_and_probed() {
    for secure in [true, false] {
        let mut bench = narrow(secure);
        assert_eq!(bench.server.path_bytes(), 512);
        assert_eq!(bench.server.counters().symbols, 4);
        assert_eq!(bench.server.counters().pieces, 12, "in datagrams of 512 bytes at most");
        let long = long_bytes(&bench);
        assert_eq!(bench.probes, [long.into(), 512]);
        let answer = bench.answer(long);
        bench.hear(client_address(), answer);
        assert_eq!(bench.server.path_bytes(), long);
    }
}

#[test]
fn a_proven_path_is_not_probed() {
    let mut bench = Bench::new(ServerConfig::default(), true).greeted();
    let hello = bench.hello(1442 - 11 - 16);
    bench.hear(client_address(), hello);
    bench.say(control::Client::Fetch(Fetch { symbol_bytes: LONG_SYMBOL, ..fetch(0) }));
    bench.wait(MS);
    let counters = bench.server.counters();
    assert_eq!((counters.symbols, counters.pieces, bench.probes.len()), (4, 0, 0));
}

#[test]
fn answers_that_are_forged_replayed_or_of_what_was_not_asked_change_nothing() {
    let mut bench = narrow(true);
    let long = long_bytes(&bench);
    let genuine = bench.answer(long);
    let mut forged = genuine.clone();
    *forged.last_mut().unwrap() ^= 1;
    bench.hear(client_address(), forged);
    let mut clear = Vec::new();
    Header { kind: Kind::Probe, connection: CONNECTION, number: 7 }.emit(&mut clear);
    Probe { bytes: long }.emit(&mut clear);
    bench.hear(client_address(), clear);
    // With the keys of the data channel, whose numbers are others.
    let mut other = Vec::new();
    Header { kind: Kind::Probe, connection: CONNECTION, number: 8 }.emit(&mut other);
    Probe { bytes: long }.emit(&mut other);
    bench.seal.seal(8, &mut other, 0);
    bench.hear(client_address(), other);
    assert_eq!(bench.server.counters().forged, 3);
    bench.hear("10.0.0.1:5001".parse().unwrap(), genuine.clone());
    assert_eq!(bench.server.counters().unexpected, 1);
    for never_asked in [long + 1, u16::MAX, 1300, 0] {
        let answer = bench.answer(never_asked);
        bench.hear(client_address(), answer);
    }
    let short = bench.sealed(Kind::Probe, &[5]);
    bench.hear(client_address(), short);
    assert_eq!(bench.server.counters().unexpected, 2);
    assert_eq!(bench.server.path_bytes(), 512);
    bench.hear(client_address(), genuine.clone());
    assert_eq!(bench.server.path_bytes(), long);
    bench.hear(client_address(), genuine);
    assert_eq!(bench.server.counters().replayed, 1);
}

#[test]
fn a_client_that_answers_no_probe_is_sent_few() {
    let mut bench = narrow(true);
    for _ in 0..9_900 {
        bench.wait(MS);
    }
    assert_eq!(bench.ended(), None);
    assert!(bench.probes.len() < 60, "{} probes", bench.probes.len());
    // Without requests there are none at all.
    bench.say(control::Client::Cancel { request: 0 });
    let before = bench.probes.len();
    for _ in 0..100 {
        bench.wait(1_000 * MS);
    }
    assert_eq!((bench.probes.len(), bench.ended()), (before, None));
}

#[test]
fn a_client_that_answers_short_probes_alone_ends_the_search() {
    let mut bench = narrow(true);
    for _ in 0..2_000 {
        bench.wait(MS);
        for bytes in std::mem::take(&mut bench.probes) {
            if bytes <= 512 {
                let answer = bench.answer(bytes as u16);
                bench.hear(client_address(), answer);
            }
        }
    }
    let probes = bench.sent_datagrams;
    assert!(probes < 100, "{probes} datagrams");
    assert_eq!(bench.server.path_bytes(), 512);
}

#[test]
fn a_probe_is_answered_once_by_no_more_bytes_than_it_has() {
    for secure in [true, false] {
        let mut victim = victim(secure);
        for bytes in [0, 3, 500, 1_400, 60_000] {
            let (answers, sent) = (victim.answers, victim.sent_bytes);
            let probe = victim.probe(bytes);
            assert_eq!(victim.answers, answers + 1);
            assert!(victim.sent_bytes - sent <= probe.len().min(29));
            victim.raw(probe);
            assert_eq!(victim.answers, answers + 1, "replayed");
        }
        let replayed = victim.client.report(SERVER).unwrap().replayed;
        assert_eq!(replayed, 5);
    }
    // Nor is one that is forged, or in clear.
    let mut victim = victim(true);
    let mut forged = victim.probe(100);
    let answers = victim.answers;
    forged[40] ^= 1;
    victim.raw(forged);
    let mut clear = Vec::new();
    Header { kind: Kind::Probe, connection: CONNECTION, number: 9 }.emit(&mut clear);
    clear.resize(1_000, 0);
    victim.raw(clear);
    assert_eq!((victim.answers, victim.client.report(SERVER).unwrap().forged), (answers, 2));
}

#[test]
fn probes_do_not_use_up_what_a_block_may_have() {
    let mut victim = victim(true);
    // They come faster than any server sends them, and nothing else does.
    for _ in 0..1_000 {
        victim.now = victim.now + MS;
        victim.probe(1_000);
    }
    let report = victim.client.report(SERVER).unwrap();
    assert!(report.given_up < 100, "{report:?}");
}

#[test]
fn pieces_that_are_forged_replayed_or_none_are_dropped_and_counted() {
    let mut victim = victim(true);
    let first = victim.piece((0, 0, 0), (0, 2), 50);
    victim.raw(first.clone());
    let mut forged = first;
    forged[30] ^= 1;
    victim.raw(forged);
    let report = victim.client.report(SERVER).unwrap();
    assert_eq!((report.replayed, report.forged, report.pieces), (1, 1, 1), "{report:?}");
    // Of a symbol of another length, of a single piece, beyond its number, of too many, and none at all.
    victim.piece((0, 0, 1), (0, 2), 49);
    victim.piece((0, 0, 1), (0, 1), 100);
    victim.piece((0, 0, 1), (2, 2), 50);
    victim.piece((0, 0, 1), (0, 33), 4);
    victim.sealed(Kind::Piece, &[0; 16]);
    assert_eq!(victim.client.report(SERVER).unwrap().unexpected, 5);
    assert_eq!(victim.useful, 0);
    victim.piece((0, 0, 0), (1, 2), 50);
    assert_eq!(victim.useful, 1);
    // Whole, but beyond the credit, and of a request that there is not.
    for (request, index) in [(0, 60_000), (9, 0)] {
        victim.piece((request, 0, index), (0, 2), 50);
        victim.piece((request, 0, index), (1, 2), 50);
    }
    let report = victim.client.report(SERVER).unwrap();
    assert_eq!((victim.useful, report.unexpected, report.late), (1, 6, 1), "{report:?}");
}

#[test]
fn halves_of_ever_other_symbols_are_forgotten_but_for_a_few() {
    let mut victim = victim(true);
    for index in 0..8 {
        victim.piece((0, 0, index), (0, 2), 50);
    }
    for index in 0..8 {
        victim.piece((0, 1, index), (0, 2), 50);
    }
    for index in 0..8 {
        victim.piece((0, 0, index), (1, 2), 50);
    }
    assert_eq!(victim.useful, 0);
}

#[test]
fn a_request_shares_no_pieces_with_one_that_had_its_number_before() {
    let mut victim = victim(true);
    victim.piece((0, 0, 0), (0, 2), 50);
    victim.client.cancel(SERVER, 0);
    // Numbers come again after 65,536 requests.
    let client = &mut victim.client;
    while let Some(request @ 1..) = client.fetch(SERVER, "a".into(), Vec::new(), None) {
        client.cancel(SERVER, request);
    }
    victim.work();
    victim.parameters(0, 10_000);
    victim.piece((0, 0, 0), (1, 2), 50);
    assert_eq!(victim.useful, 0);
    victim.piece((0, 0, 0), (0, 2), 50);
    assert_eq!(victim.useful, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a client answers, and however it counts: no probe is longer than the symbols that it asked for, and what it is sent
    /// of them in a second is bounded.
    #[test]
    fn no_client_is_sent_many_probes(
        answers in prop::collection::vec((prop_oneof![Just(512_u16), Just(1200), Just(1442), 0..1500_u16], 0..50_u32), 1..100),
    ) {
        let mut bench = narrow(true);
        for (bytes, wait) in answers {
            let answer = bench.answer(bytes);
            bench.hear(client_address(), answer);
            bench.wait(wait * MS);
            let feedback = bench.feedback(Vec::new());
            bench.hear(client_address(), feedback);
        }
        prop_assert!(bench.probes.iter().all(|bytes| *bytes <= 1442));
        // Each of the answers brings about a round at most, and so does each wait.
        prop_assert!(bench.probes.len() <= 1_000, "{}", bench.probes.len());
    }
}

//! What a hostile client, or anyone on its path, may do to a server: it never panics, holds no more than its limits, sends
//! nothing to an address that is not proven, and drops and counts what it did not ask for.

mod peers;

use std::time::Duration;

use peers::{Bench, CONNECTION, TOKEN, ToServer, client_address, fetch};
use proptest::prelude::*;
use weir_proto::lttp::{ServerConfig, ServerEvent};
use weir_proto::object::Layout;
use weir_proto::{Budget, Time};
use wire::control::{self, Code, Fetch, Pacing, Refusal, Run, Tuned, Version};
use wire::packet::{Credit, Feedback, Header, Kind};

const MS: Duration = Duration::from_millis(1);

#[test]
fn no_byte_of_data_goes_before_the_hello_of_the_data_channel() {
    for secure in [true, false] {
        let mut bench = Bench::new(ServerConfig::default(), secure).greeted();
        for request in 0..20 {
            bench.say(control::Client::Fetch(fetch(request)));
        }
        let credit = Credit { request: 0, block: 0, want: 20 };
        let feedback = bench.feedback(vec![credit]);
        bench.hear(client_address(), feedback);
        bench.wait(100 * MS);
        assert_eq!(bench.sent_bytes, 0);
        assert_eq!(bench.server.counters().unexpected, 1);
        let hello = bench.hello(200);
        bench.hear(client_address(), hello);
        bench.wait(100 * MS);
        assert!(bench.sent_bytes > 0);
    }
}

#[test]
fn a_hello_is_answered_by_no_more_bytes_than_it_has() {
    for secure in [true, false] {
        for bytes in [16, 17, 22, 40, 1_000] {
            let mut bench = Bench::new(ServerConfig::default(), secure).greeted();
            let mut heard = 0;
            for _ in 0..50 {
                let hello = bench.hello(bytes);
                heard += hello.len() as u64;
                bench.hear(client_address(), hello);
                assert!(bench.sent_bytes <= heard, "{} bytes for {heard}", bench.sent_bytes);
            }
            assert_eq!(bench.sent_datagrams, 50);
        }
    }
}

#[test]
fn a_hello_from_another_host_or_with_another_token_opens_nothing() {
    for secure in [true, false] {
        let mut bench = Bench::new(ServerConfig::default(), secure).greeted();
        bench.say(control::Client::Fetch(fetch(0)));
        let hello = bench.hello(100);
        bench.hear("10.0.0.2:5000".parse().unwrap(), hello);
        let wrong = bench.sealed(Kind::Hello, &[8; 100]);
        bench.hear(client_address(), wrong);
        let short = bench.sealed(Kind::Hello, &TOKEN[..15]);
        bench.hear(client_address(), short);
        bench.wait(100 * MS);
        assert_eq!((bench.sent_bytes, bench.server.peer()), (0, None));
        assert_eq!(bench.server.counters().unexpected, 3);
    }
}

#[test]
fn forged_and_replayed_feedback_is_dropped_and_counted() {
    let mut bench = Bench::new(ServerConfig::default(), true).proven();
    bench.say(control::Client::Fetch(Fetch { pacing: Pacing::Client { first: 0 }, ..fetch(0) }));
    let sent = bench.sent_datagrams;
    let credit = |want| vec![Credit { request: 0, block: 0, want }];
    let mut genuine = bench.feedback(credit(2));
    let mut forged = genuine.clone();
    *forged.last_mut().unwrap() ^= 1;
    bench.hear(client_address(), forged);
    // In clear, as if there were no protection.
    let mut clear = Vec::new();
    Header { kind: Kind::Feedback, connection: CONNECTION, number: 50 }.emit(&mut clear);
    Feedback { credits: credit(8), ..Feedback::default() }.emit(&mut clear);
    bench.hear(client_address(), clear);
    assert_eq!(bench.server.counters().forged, 2);
    bench.hear(client_address(), genuine.clone());
    bench.wait(100 * MS);
    assert_eq!(bench.sent_datagrams, sent + 2);
    for _ in 0..10 {
        bench.hear(client_address(), genuine.clone());
    }
    assert_eq!(bench.server.counters().replayed, 10);
    // From another address, even a genuine one is not the peer's.
    genuine = bench.feedback(credit(8));
    bench.hear("10.0.0.1:5001".parse().unwrap(), genuine);
    bench.wait(100 * MS);
    assert_eq!(bench.sent_datagrams, sent + 2);
    assert_eq!(bench.server.counters().unexpected, 1);
}

#[test]
fn a_replayed_hello_does_not_turn_the_data_to_another_port() {
    let mut bench = Bench::new(ServerConfig::default(), true).greeted();
    let hello = bench.hello(100);
    bench.hear(client_address(), hello.clone());
    let sent = bench.sent_bytes;
    bench.hear("10.0.0.1:9".parse().unwrap(), hello);
    assert_eq!(bench.server.peer(), Some(client_address()));
    assert_eq!(bench.sent_bytes, sent);
    assert_eq!(bench.server.counters().replayed, 1);
}

#[test]
fn what_is_said_before_hello_and_a_second_hello_end_the_connection() {
    for message in [
        control::Client::Fetch(fetch(0)),
        control::Client::List { request: 0, path: "a".into() },
        control::Client::Hello { version: 200 },
    ] {
        let mut bench = Bench::new(ServerConfig::default(), true);
        bench.say(message);
        assert!(bench.ended().is_some());
        assert!(!bench.events.iter().any(|e| matches!(e, ServerEvent::Open(_) | ServerEvent::List { .. })));
    }
    let mut bench = Bench::new(ServerConfig::default(), true).greeted();
    bench.say(control::Client::Hello { version: wire::VERSION });
    assert_eq!(bench.ended(), Some("a second hello"));
    // An ended connection does nothing any more.
    bench.say(control::Client::Fetch(fetch(0)));
    assert!(!bench.events.iter().any(|e| matches!(e, ServerEvent::Open(_))));
    assert_eq!(bench.server.poll_timeout(), None);
}

#[test]
fn requests_out_of_bounds_are_refused_before_anything_is_opened() {
    let many = |count| (0..count).map(|n| Run { first: 2 * n, count: 1 }).collect::<Vec<_>>();
    for bad in [
        Fetch { symbol_bytes: 15, ..fetch(0) },
        Fetch { symbol_bytes: 9_000, ..fetch(0) },
        Fetch { block_symbols: 0, ..fetch(0) },
        Fetch { block_symbols: 8_193, ..fetch(0) },
        Fetch { symbol_bytes: 8_960, block_symbols: 8_192, ..fetch(0) },
        Fetch { path: "x".repeat(4_097), ..fetch(0) },
        Fetch { runs: many(1_025), ..fetch(0) },
    ] {
        let mut bench = Bench::new(ServerConfig::default(), true).proven();
        bench.say(control::Client::Fetch(bad));
        assert_eq!(bench.refusals(), [Refusal::BadParameters]);
        assert!(!bench.events.iter().any(|e| matches!(e, ServerEvent::Open(_))));
    }
}

#[test]
fn requests_and_blocks_are_held_within_the_limits() {
    let config = ServerConfig { max_requests: 5, max_blocks: 3, ..ServerConfig::default() };
    let mut bench = Bench::new(config, true).proven();
    bench.object_bytes = 1 << 30;
    for request in 0..20 {
        bench.say(control::Client::Fetch(fetch(request)));
    }
    assert_eq!(bench.refusals(), [Refusal::Busy; 15]);
    for block in 0..200 {
        let credits = (0..5).map(|request| Credit { request, block, want: 8 }).collect();
        let feedback = bench.feedback(credits);
        bench.hear(client_address(), feedback);
    }
    let loads = bench.events.iter().filter(|e| matches!(e, ServerEvent::Load { .. })).count();
    assert_eq!(loads, 15);
}

#[test]
fn bytes_of_blocks_are_held_within_the_limits_of_one_connection_and_of_all() {
    let block = Layout::new(100, 8, 1 << 30).unwrap().encoder_bytes(Code::Dealt, 0);
    let budget = Budget::new(18 * block);
    let config =
        ServerConfig { max_held_bytes: 12 * block, budget: budget.clone(), ..ServerConfig::default() };
    for pacing in [Pacing::Client { first: 0 }, Pacing::Tfrc] {
        let mut loads = 0;
        let mut benches = [(); 3].map(|()| Bench::new(config.clone(), true).proven());
        for bench in &mut benches {
            bench.object_bytes = 1 << 30;
            for request in 0..3 {
                bench.say(control::Client::Fetch(Fetch { block_symbols: 8, pacing, ..fetch(request) }));
            }
            for block in 0..50 {
                let credits = (0..3).map(|request| Credit { request, block, want: 8 }).collect();
                let feedback = bench.feedback(credits);
                bench.hear(client_address(), feedback);
            }
            let of_one = bench.events.iter().filter(|e| matches!(e, ServerEvent::Load { .. })).count();
            assert!(of_one <= 12, "{pacing:?}: {of_one}");
            loads += of_one;
            assert!(budget.taken() <= budget.most());
        }
        assert!((12..=18).contains(&loads), "{pacing:?}: {loads}");
        drop(benches);
        assert_eq!(budget.taken(), 0, "{pacing:?}");
    }
    let mut bench = Bench::new(config, true).proven();
    bench.object_bytes = 1 << 30;
    bench.say(control::Client::Fetch(Fetch { block_symbols: 8_000, ..fetch(0) }));
    assert_eq!(bench.refusals(), [Refusal::BadParameters], "no block of it could ever be held");
}

#[test]
fn requests_and_open_files_are_bounded_for_all_connections() {
    let (budget, files) = (Budget::new(1 << 20), Budget::new(100));
    let config = ServerConfig { state: budget.clone(), files: files.clone(), ..ServerConfig::default() };
    let mut benches = [(); 4].map(|()| Bench::new(config.clone(), true).proven());
    for bench in &mut benches {
        for request in 0..60 {
            bench.say(control::Client::Fetch(Fetch { path: "x".repeat(4_000), ..fetch(request) }));
        }
        assert!(files.taken() <= 100 && budget.taken() <= budget.most());
    }
    assert!(files.taken() > 60);
    let refusals: Vec<_> = benches.iter().flat_map(Bench::refusals).collect();
    assert_eq!(refusals, vec![Refusal::Busy; 240 - files.taken()]);
    drop(benches);
    assert_eq!((files.taken(), budget.taken()), (0, 0));
}

#[test]
fn what_waits_for_room_is_begun_when_another_connection_leaves_some() {
    let block = Layout::new(100, 8, 1 << 30).unwrap().encoder_bytes(Code::Dealt, 0);
    let budget = Budget::new(block);
    let config = ServerConfig { budget: budget.clone(), ..ServerConfig::default() };
    let held = budget.take(block).unwrap();
    let mut bench = Bench::new(config, true).proven();
    bench.say(control::Client::Fetch(Fetch { block_symbols: 8, pacing: Pacing::Tfrc, ..fetch(0) }));
    let loads = |bench: &Bench| bench.events.iter().any(|e| matches!(e, ServerEvent::Load { .. }));
    assert!(!loads(&bench));
    drop(held);
    // By its own timer, as a driver wakes it, long before its client's silence ends the connection.
    let at = bench.server.poll_timeout().unwrap();
    assert!(at.since(bench.now) <= Duration::from_millis(20), "{at:?}");
    bench.wait(at.since(bench.now));
    assert!(loads(&bench));
}

#[test]
fn a_client_that_completes_blocks_in_no_order_is_refused_before_it_costs_memory() {
    let mut bench = Bench::new(ServerConfig::default(), true).proven();
    bench.object_bytes = 1 << 33;
    bench.say(control::Client::Fetch(Fetch { symbol_bytes: 1_000, block_symbols: 1, ..fetch(0) }));
    for n in 0..10_000 {
        bench.say(control::Client::Done { request: 0, block: 8_000_000 + 2 * n });
        if !bench.refusals().is_empty() {
            assert!(n < 3_000);
            return;
        }
    }
    panic!("ten thousand gaps are remembered");
}

#[test]
fn credits_for_what_was_never_asked_are_nothing() {
    let mut bench = Bench::new(ServerConfig::default(), true).proven();
    let runs = vec![Run { first: 2, count: 1 }];
    bench.say(control::Client::Fetch(Fetch { runs, pacing: Pacing::Client { first: 0 }, ..fetch(0) }));
    let sent = bench.sent_datagrams;
    let credits = [(0, 0), (0, 1), (0, 3), (0, u32::MAX), (1, 2), (u16::MAX, 0)]
        .map(|(request, block)| Credit { request, block, want: 99 });
    let feedback = bench.feedback(credits.to_vec());
    bench.hear(client_address(), feedback);
    bench.wait(100 * MS);
    assert_eq!(bench.sent_datagrams, sent);
    // And for what was asked: no more than a block may have.
    let credit = Credit { request: 0, block: 2, want: u16::MAX };
    let feedback = bench.feedback(vec![credit]);
    bench.hear(client_address(), feedback);
    (0..9_000).for_each(|_| bench.wait(MS));
    assert_eq!(bench.sent_datagrams - sent, 4 * 8 + 64);
    assert_eq!(bench.refusals(), [Refusal::SymbolCap]);
}

#[test]
fn a_server_ends_what_is_silent_and_sends_nothing_any_more() {
    let mut bench = Bench::new(ServerConfig::default(), true).proven();
    bench.object_bytes = 1 << 30;
    bench.say(control::Client::Fetch(Fetch { pacing: Pacing::Tfrc, block_symbols: 8_000, ..fetch(0) }));
    while bench.ended().is_none() {
        let at = bench.server.poll_timeout().expect("a server with requests has a timeout");
        let step = at.since(bench.now).max(Duration::from_nanos(1));
        bench.wait(step);
        assert!(bench.now <= Time::ZERO + Duration::from_secs(11));
    }
    let sent = bench.sent_bytes;
    bench.wait(Duration::from_secs(100));
    let feedback = bench.feedback(vec![Credit { request: 0, block: 0, want: 9 }]);
    bench.hear(client_address(), feedback);
    let hello = bench.hello(1_000);
    bench.hear(client_address(), hello);
    assert_eq!(bench.sent_bytes, sent);
}

#[test]
fn bursts_fit_what_one_call_can_send_at_any_rate() {
    for symbol_bytes in [16, 1_024, 1_448, 8_960] {
        let config = ServerConfig { start_bytes_per_s: Some(1e12), ..ServerConfig::default() };
        let mut bench = Bench::new(config, true).proven();
        bench.object_bytes = 10_000_000;
        bench.say(control::Client::Fetch(Fetch {
            symbol_bytes,
            block_symbols: 512,
            pacing: Pacing::Tfrc,
            ..fetch(0)
        }));
        bench.wait(MS);
        assert!(bench.sent_datagrams > 1);
    }
}

/// Anything that a client may say, sensible or not.
fn client_message() -> impl Strategy<Value = control::Client> {
    let pacing = prop_oneof![Just(Pacing::Tfrc), any::<u16>().prop_map(|first| Pacing::Client { first })];
    let tuned = prop_oneof![(any::<u32>(), any::<u32>()), (9_000..11_000_u32, 0..1_100_000_u32)];
    let tuned = (any::<bool>(), tuned).prop_map(|(dealt, (c_millionths, delta_millionths))| {
        Code::Tuned(Tuned { dealt, c_millionths, delta_millionths })
    });
    let code = prop_oneof![
        Just(Code::Dealt),
        Just(Code::Independent),
        Just(Code::Raptor),
        Just(Code::RaptorQ),
        tuned
    ];
    let run =
        (0..40_u32, prop_oneof![0..9_u32, Just(u32::MAX)]).prop_map(|(first, count)| Run { first, count });
    let version = prop_oneof![Just(None), Just(Some(Version([1; 16]))), Just(Some(Version([2; 16])))];
    let runs = prop::collection::vec(run, 0..4);
    let fetch = (
        0..4_u16,
        prop_oneof![Just(100_u16), any::<u16>()],
        prop_oneof![9 => 1..20_u16, 1 => Just(500)],
        code,
        pacing,
        runs,
        version,
    )
        .prop_map(|(request, symbol_bytes, block_symbols, code, pacing, runs, version)| {
            control::Client::Fetch(Fetch {
                request,
                path: "a".into(),
                symbol_bytes,
                block_symbols,
                code,
                pacing,
                runs,
                version,
            })
        });
    prop_oneof![
        1 => Just(control::Client::Hello { version: wire::VERSION }),
        1 => (0..4_u16).prop_map(|request| control::Client::List { request, path: "..".into() }),
        8 => fetch,
        8 => (0..4_u16, 0..60_u32).prop_map(|(request, block)| control::Client::Done { request, block }),
        2 => (0..4_u16).prop_map(|request| control::Client::Cancel { request }),
    ]
}

fn credits() -> impl Strategy<Value = Vec<Credit>> {
    let credit = (0..4_u16, prop_oneof![0..60_u32, any::<u32>()], any::<u16>())
        .prop_map(|(request, block, want)| Credit { request, block, want });
    prop::collection::vec(credit, 0..10)
}

fn to_server() -> impl Strategy<Value = ToServer> {
    let feedback = (
        prop::option::of(prop_oneof![0..100_000_000_u64, Just((1 << 48) - 2)]),
        0.0..1.0_f64,
        any::<u32>(),
        any::<u32>(),
        prop_oneof![8 => 0..3_u64, 1 => 0..1_u64 << 48],
        0..1_u64 << 48,
        credits(),
    )
        .prop_map(|(x_recv, loss_event_rate, echo_us, delay_us, highest, received, credits)| {
            ToServer::Feedback { x_recv, loss_event_rate, echo_us, delay_us, highest, received, credits }
        });
    let bytes = || prop::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        4 => client_message().prop_map(ToServer::Say),
        4 => feedback,
        1 => (0..1_500_usize).prop_map(ToServer::Hello),
        2 => prop_oneof![Just(512), Just(1200), any::<u16>()].prop_map(ToServer::Answer),
        1 => bytes().prop_map(ToServer::Raw),
        2 => (1..7_u8, prop_oneof![0..100_u64, 0..1_u64 << 48], bytes()).prop_map(|(k, n, b)| ToServer::Sealed(k, n, b)),
        3 => (0..20_000_000_000_u64).prop_map(ToServer::Wait),
        3 => (0..2_000_000_u64).prop_map(ToServer::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_server_survives_whatever_a_client_does(
        secure: bool,
        object_bytes in prop_oneof![0..50_000_u64, any::<u64>()],
        steps in prop::collection::vec(to_server(), 0..60),
    ) {
        let config = ServerConfig { max_held_bytes: 1 << 20, max_blocks: 4, ..ServerConfig::default() };
        let mut bench = Bench::new(config, secure).proven();
        bench.object_bytes = object_bytes;
        for step in steps {
            bench.apply(step);
        }
    }
}

//! LTTP in virtual time: every byte arrives whatever the network does, and both ends stop when the other is gone.

mod common;

use std::time::Duration;

use common::{Bed, MS, SECOND, bytes, lossy, ms, path};
use proptest::prelude::*;
use proto::coding::{Method, lt_code};
use proto::lttp::{ClientConfig, Lost, ServerConfig};
use weir_sim::lttp::{ClientNode, Outcome, ServerNode};
use weir_sim::{Faults, Loss, Network, Spike, Star, StarConfig, Time};
use wire::control::{Code, Refusal, Run, Tuned};

/// The paper's mode: nobody but TFRC limits what is under way.
fn paper() -> ClientConfig {
    ClientConfig { credits: false, code: Code::Independent, ..ClientConfig::default() }
}

/// The same with the paper's decoder.
fn algorithm_2() -> ClientConfig {
    ClientConfig { method: Method::Peeling, ..paper() }
}

fn both() -> [ClientConfig; 2] {
    [ClientConfig::default(), paper()]
}

/// Blocks of 8 symbols of 100 bytes.
fn small(config: ClientConfig) -> ClientConfig {
    ClientConfig { symbol_bytes: 100, block_symbols: 8, ..config }
}

#[test]
fn objects_of_any_length_arrive() {
    let sizes = vec![0, 1, 99, 100, 101, 799, 800, 801, 1600, 1601, 80_000, 80_001];
    for client in both() {
        for secret in [None, common::SECRET] {
            let client = small(client.clone());
            let mut run = Bed { client, secret, sizes: sizes.clone(), ..Bed::default() }.build();
            run.deliver(SECOND);
            run.settled();
        }
    }
}

#[test]
fn a_whole_block_without_loss_takes_exactly_its_k_symbols() {
    let mut run = Bed { sizes: vec![256 * 1024 * 4], ..Bed::default() }.build();
    run.deliver(SECOND);
    run.settled();
    let report = run.client().report(0);
    assert_eq!((report.useful, report.missing, report.given_up), (1024, 0, 0), "{report:?}");
    assert_eq!(run.server(0).counters(run.client).symbols, 1024);
}

#[test]
fn an_object_alone_fills_the_link() {
    let mut run = Bed { sizes: vec![10_000_000], ..Bed::default() }.build();
    let end = run.deliver(2 * SECOND);
    let goodput = 8.0 * 10_000_000.0 / end.since(Time::ZERO).as_secs_f64();
    assert!(goodput > 0.88e8, "{goodput}");
    assert_eq!(run.network.link(run.port).counters(end).dropped, 0);
}

#[test]
fn a_cap_of_the_rate_is_kept_and_used_by_all_servers_together() {
    for (max_bps, servers) in [(2e7, 1), (2e7, 4), (1e6, 2)] {
        let client = ClientConfig { max_bps: Some(max_bps), ..ClientConfig::default() };
        let size = (max_bps / 8.0) as usize;
        let mut run = Bed { client, sizes: vec![size], servers, ..Bed::default() }.build();
        let seconds = run.deliver(20 * SECOND).since(Time::ZERO).as_secs_f64();
        let used = 8.0 * (size * servers) as f64 / seconds / max_bps;
        assert!((0.85..1.0).contains(&used), "{max_bps}, {servers}: {used}");
    }
}

#[test]
fn hundreds_of_requests_at_once_are_all_answered() {
    for client in both() {
        let mut run = Bed { client, sizes: vec![3_000; 200], servers: 3, ..Bed::default() }.build();
        run.deliver(10 * SECOND);
        run.settled();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any loss pattern below the cap (4k + 64 symbols a block) delivers every byte, in both directions.
    #[test]
    fn any_loss_pattern_below_the_cap_delivers_every_byte(
        seed: u64,
        fail in 0.0..0.3_f64,
        recover in 0.05..1.0_f64,
        good in 0.0..0.2_f64,
        back in 0.0..0.5_f64,
        duplicate in 0.0..0.2_f64,
        reorder in 0.0..0.3_f64,
        credits: bool,
        symbol_bytes in 16_u16..1200,
        block_symbols in 1_u16..300,
        sizes in prop::collection::vec(0_usize..60_000, 1..4),
        servers in 1_usize..4,
    ) {
        // More than half of all symbols lost for long is beyond what a block may have.
        prop_assume!(fail / (fail + recover) * 0.9 + good < 0.45);
        // And a block of few symbols may meet one burst with all of them: its cap leaves 64 for that.
        prop_assume!(recover > 0.15);
        let client = ClientConfig { symbol_bytes, block_symbols, ..if credits { ClientConfig::default() } else { paper() } };
        let mut run = Bed { seed, client, sizes, servers, ..Bed::default() }.build();
        run.there(|| Faults {
            loss: Loss::Bursts { fail, recover, good, bad: 0.9 },
            duplicate,
            reorder,
            reorder_by: 5 * MS,
            ..Faults::default()
        });
        run.back(|| Faults { loss: Loss::Independent(back), duplicate, reorder, reorder_by: 5 * MS, ..Faults::default() });
        run.deliver(600 * SECOND);
    }
}

#[test]
fn every_single_loss_of_a_small_fetch_is_survived() {
    // One object of three blocks: each datagram in turn, of each direction, and each pair of neighbours.
    for client in both() {
        for first in 0..60 {
            for length in [1, 2, 5] {
                for data in [true, false] {
                    let client = small(client.clone());
                    let mut run = Bed { client, sizes: vec![2_000], ..Bed::default() }.build();
                    let lost =
                        || Faults { loss: Loss::of_numbers(first..first + length), ..Faults::default() };
                    if data {
                        run.there(lost)
                    } else {
                        run.back(lost)
                    };
                    run.deliver(5 * SECOND);
                }
            }
        }
    }
}

#[test]
fn corrupted_datagrams_are_dropped_and_counted_where_they_are_protected() {
    for client in both() {
        let mut run = Bed { client, ..Bed::default() }.build();
        let corrupt = || Faults { corrupt: 0.05, ..Faults::default() };
        run.there(corrupt).back(corrupt);
        run.deliver(60 * SECOND);
        let (there, back) = run.links[0];
        let now = run.network.now();
        let report = run.client().report(0);
        let refused = report.forged + report.unexpected;
        assert_eq!(refused, run.network.link(there).counters(now).corrupted, "{report:?}");
        assert!(refused > 0);
        // What is still under way when the client is done is not counted yet.
        run.network.run_for(SECOND);
        let counters = run.server(0).counters(run.client);
        let corrupted = run.network.link(back).counters(now).corrupted;
        assert_eq!(counters.forged + counters.unexpected, corrupted, "{counters:?}");
    }
}

#[test]
fn corruption_without_protection_is_found_by_the_hash_of_the_block() {
    let mut corrupt = 0;
    for seed in 0..40 {
        let sizes = vec![3_000; 30];
        let mut run = Bed { seed, secret: None, sizes, ..Bed::default() }.build();
        let damaged = || Faults { corrupt: 0.03, ..Faults::default() };
        run.there(damaged).back(damaged);
        run.finish(120 * SECOND);
        for (fetched, expected) in run.client().all().iter().zip(&run.expected) {
            match fetched.outcome() {
                Outcome::Complete(_) => {
                    assert!(fetched.bytes() == expected, "seed {seed}: wrong bytes were kept")
                }
                Outcome::Corrupt(_) => corrupt += 1,
                other => panic!("seed {seed}: {other:?}, {:?}", run.client().lost(0)),
            }
        }
    }
    assert!(corrupt > 0);
}

#[test]
fn late_datagrams_and_pauses_cost_no_byte() {
    for client in both() {
        let mut run = Bed { client, sizes: vec![2_000_000], ..Bed::default() }.build();
        let spikes = || Faults {
            spikes: [20, 70, 150].map(|at| Spike { during: ms(at)..ms(at + 10), delay: 40 * MS }).to_vec(),
            ..Faults::default()
        };
        run.there(spikes).back(spikes);
        run.deliver(5 * SECOND);
    }
}

#[test]
fn a_path_that_is_down_for_seconds_is_gone_on_with() {
    for block_symbols in [4, 64, 256] {
        for client in both() {
            for outage in [100, 1_000, 3_000, 8_000] {
                let client = ClientConfig { block_symbols, ..client.clone() };
                let paper = !client.credits;
                if paper && block_symbols < 64 {
                    // In the paper's mode a server sends blindly until TFRC's timer stops it, and that alone uses up
                    // what a block of a few symbols may have.
                    continue;
                }
                let mut run = Bed { client, sizes: vec![1_000_000], ..Bed::default() }.build();
                let down = || Faults { down: vec![ms(20)..ms(20 + outage)], ..Faults::default() };
                run.there(down).back(down);
                let end = run.deliver(60 * SECOND);
                let late = end.since(ms(20 + outage));
                let limit = Duration::from_millis(if paper { 500 + outage } else { 1_500 + outage });
                assert!(
                    late < limit,
                    "{block_symbols} symbols, {outage} ms, paper {paper}: {late:?} after its end"
                );
            }
        }
    }
}

#[test]
fn one_direction_that_is_down_for_seconds_is_gone_on_with() {
    for client in both() {
        for data in [true, false] {
            let client = ClientConfig { block_symbols: 64, ..client.clone() };
            let mut run = Bed { client, sizes: vec![1_000_000], ..Bed::default() }.build();
            let down = || Faults { down: vec![ms(20)..ms(4_020)], ..Faults::default() };
            if data {
                run.there(down)
            } else {
                run.back(down)
            };
            run.deliver(60 * SECOND);
        }
    }
}

#[test]
fn a_stalled_control_channel_delays_and_loses_nothing() {
    for client in both() {
        for begin in [0, 1, 5, 30] {
            let mut run = Bed { client: client.clone(), sizes: vec![500_000; 3], ..Bed::default() }.build();
            let (server, client) = (run.servers[0], run.client);
            run.network.stall_pipe(server, client, ms(begin)..ms(begin + 700));
            run.network.stall_pipe(client, server, ms(begin)..ms(begin + 1_100));
            run.deliver(20 * SECOND);
            run.network.run_for(2 * SECOND);
            run.settled();
        }
    }
}

#[test]
fn a_terminating_signal_that_is_lost_for_a_while_costs_symbols_up_to_the_cap_and_no_byte() {
    let client = ClientConfig { block_symbols: 64, ..paper() };
    let mut run = Bed { client, sizes: vec![64 * 1024], ..Bed::default() }.build();
    let (server, client) = (run.servers[0], run.client);
    // Both ways of the signal: the control channel stands still, and feedback is lost.
    run.network.stall_pipe(client, server, ms(3)..ms(700));
    run.back(|| Faults { down: vec![ms(3)..ms(700)], ..Faults::default() });
    run.deliver(5 * SECOND);
    run.settled();
    let sent = run.server(0).counters(run.client).symbols;
    assert!((65..=4 * 64 + 64).contains(&sent), "{sent}");
}

#[test]
fn a_server_that_vanishes_is_lost_after_the_silence() {
    for client in both() {
        for at in [0, 3, 40] {
            let client = ClientConfig { silence: 3 * SECOND, ..client.clone() };
            let mut run = Bed { client, sizes: vec![5_000_000], ..Bed::default() }.build();
            run.network.run_for(at * MS);
            run.network.vanish(run.servers[0]);
            let end = run.finish(10 * SECOND);
            assert_eq!(run.client().fetched(0).outcome(), &Outcome::Lost);
            let lost = run.client().lost(0).expect("it is lost");
            assert!(matches!(lost, Lost::Silent(_)), "{lost:?}");
            let after = end.since(ms(at.into()));
            assert!((2 * SECOND..=4 * SECOND).contains(&after), "{after:?}");
            // And nothing is said to it any more.
            let said = run.network.flow(run.client, run.servers[0]).sent;
            run.network.run_for(30 * SECOND);
            assert_eq!(run.network.flow(run.client, run.servers[0]).sent, said);
        }
    }
}

#[test]
fn a_client_that_vanishes_is_sent_nothing_after_the_silence() {
    for client in both() {
        let server = ServerConfig { silence: 3 * SECOND, ..ServerConfig::default() };
        let mut run = Bed { client, server, sizes: vec![5_000_000], ..Bed::default() }.build();
        run.network.run_for(40 * MS);
        run.network.vanish(run.client);
        run.network.run_for(4 * SECOND);
        let served = run.server(0).served(run.client);
        let (ended, _) = served.ended.expect("the server has ended it");
        assert!(ended.since(ms(40)) <= 3 * SECOND + 10 * MS, "{ended:?}");
        assert!(served.sent <= Some(ended));
        let sent = run.network.flow(run.servers[0], run.client).sent;
        run.network.run_for(60 * SECOND);
        assert_eq!(run.network.flow(run.servers[0], run.client).sent, sent);
    }
}

#[test]
fn a_data_channel_that_never_passes_is_told_from_a_silent_server() {
    for back in [true, false] {
        let mut run = Bed::default().build();
        if back {
            run.back(|| lossy(1.0))
        } else {
            run.there(|| lossy(1.0))
        };
        run.finish(60 * SECOND);
        assert!(matches!(run.client().lost(0), Some(Lost::NoData)), "{:?}", run.client().lost(0));
    }
}

#[test]
fn one_server_that_vanishes_holds_no_other_up() {
    let mut run = Bed { sizes: vec![1_000_000], servers: 4, ..Bed::default() }.build();
    run.network.run_for(30 * MS);
    run.network.vanish(run.servers[1]);
    let client = run.client;
    let rest = |n: &Network| {
        let complete = |number: &usize| {
            matches!(n.node::<ClientNode>(client).fetched(*number).outcome(), Outcome::Complete(_))
        };
        [0, 2, 3].iter().all(complete)
    };
    assert!(run.network.run_until(ms(700), rest), "the others are not done after {:?}", run.network.now());
    run.finish(20 * SECOND);
    assert_eq!(run.client().fetched(1).outcome(), &Outcome::Lost);
}

#[test]
fn runs_of_blocks_bring_those_and_no_others() {
    for client in both() {
        let client = small(client);
        let mut run = Bed { client, sizes: vec![8_050], ..Bed::default() }.build();
        run.deliver(SECOND);
        let version = run.client().fetched(0).version();
        // Of 11 blocks: 1, 2, 5, and from 8 to the end.
        let wanted = [(1, 2), (5, 1), (8, u32::MAX)].map(|(first, count)| Run { first, count });
        let number = run.network.visit(run.client, |client: &mut ClientNode, _| {
            client.fetch(0, &path(0), wanted.to_vec(), version)
        });
        run.finish(SECOND);
        let fetched = run.client().fetched(number);
        assert!(matches!(fetched.outcome(), Outcome::Complete(_)));
        for (block, (is, whole)) in fetched.bytes().chunks(800).zip(run.expected[0].chunks(800)).enumerate() {
            let asked = [1, 2, 5, 8, 9, 10].contains(&block);
            assert_eq!(is == whole, asked, "block {block}");
        }
    }
}

#[test]
fn what_cannot_be_served_is_refused_and_the_rest_goes_on() {
    for client in both() {
        let mut run = Bed { client: small(client), sizes: vec![40_000], ..Bed::default() }.build();
        let (none, changed, beyond, disorder) =
            run.network.visit(run.client, |client: &mut ClientNode, _| {
                let other = Some(wire::control::Version([9; 16]));
                let beyond = vec![Run { first: 500, count: 1 }];
                let disorder = vec![Run { first: 5, count: 5 }, Run { first: 3, count: 1 }];
                (
                    client.fetch(0, "nothing", Vec::new(), None),
                    client.fetch(0, &path(0), Vec::new(), other),
                    client.fetch(0, &path(0), beyond, None),
                    client.fetch(0, &path(0), disorder, None),
                )
            });
        run.deliver(SECOND);
        run.network.run_for(SECOND);
        for (number, why) in [
            (none, Refusal::NotFound),
            (changed, Refusal::Changed),
            (beyond, Refusal::BadParameters),
            (disorder, Refusal::BadParameters),
        ] {
            assert_eq!(run.client().fetched(number).outcome(), &Outcome::Refused(why));
        }
    }
}

#[test]
fn what_is_given_up_stops_and_frees_the_window_for_the_rest() {
    for client in both() {
        let mut run = Bed { client, sizes: vec![20_000_000, 200_000], ..Bed::default() }.build();
        run.network.run_for(50 * MS);
        run.network.visit(run.client, |client: &mut ClientNode, _| client.cancel(0));
        let end = run.finish(5 * SECOND);
        assert!(matches!(run.client().fetched(1).outcome(), Outcome::Complete(_)));
        assert!(end < ms(250), "{end:?}");
        run.network.run_for(SECOND);
        let served = run.server(0).served(run.client);
        assert_eq!((served.complete, served.abandoned), (1, 1));
        let sent = run.network.flow(run.servers[0], run.client).sent;
        run.network.run_for(10 * SECOND);
        assert_eq!(run.network.flow(run.servers[0], run.client).sent, sent);
    }
}

#[test]
fn a_block_that_no_symbols_suffice_for_is_refused_at_the_cap() {
    for client in both() {
        // Every symbol of one block of one object is lost for good, and nothing else.
        let client = ClientConfig { block_symbols: 8, ..client };
        let mut run =
            Bed { client, secret: None, sizes: vec![100_000, 10_000_000], ..Bed::default() }.build();
        run.there(|| Faults {
            loss: Loss::Script(Box::new(|_, datagram| {
                let symbol = wire::packet::Symbol::parse(&datagram.payload[wire::packet::HEADER_BYTES..]);
                symbol.is_ok_and(|(symbol, _)| (symbol.request, symbol.block) == (0, 3))
                    && datagram.payload[0] & 15 == 1
            })),
            ..Faults::default()
        });
        run.finish(60 * SECOND);
        assert_eq!(run.client().fetched(0).outcome(), &Outcome::Refused(Refusal::SymbolCap));
        // Nothing is left over: what comes next is served.
        let number = run.network.visit(run.client, |client: &mut ClientNode, _| {
            client.fetch(0, &path(0), vec![Run { first: 4, count: 5 }], None)
        });
        run.finish(SECOND);
        assert!(matches!(run.client().fetched(number).outcome(), Outcome::Complete(_)));
    }
}

#[test]
fn a_server_closed_by_its_side_is_lost_at_once() {
    let mut run = Bed { sizes: vec![5_000_000], ..Bed::default() }.build();
    run.network.run_for(40 * MS);
    run.network.cut_pipe(run.servers[0], run.client);
    let end = run.finish(SECOND);
    assert!(end < ms(41), "{end:?}");
    assert!(matches!(run.client().lost(0), Some(Lost::Bye(_))));
    let sent = run.network.flow(run.servers[0], run.client).sent;
    run.network.run_for(SECOND);
    assert!(run.network.flow(run.servers[0], run.client).sent <= sent + 64, "the server goes on");
}

#[test]
fn what_is_under_way_from_all_servers_together_stays_within_one_window() {
    let mut run = Bed { sizes: vec![400_000], servers: 12, ..Bed::default() }.build();
    run.network.trace_queue(run.port, MS / 10);
    run.deliver(5 * SECOND);
    let most = run.network.link(run.port).counters(run.network.now()).most_queued_bytes;
    assert!(most <= ClientConfig::default().window_floor_bytes as u64, "{most}");
    // Each had its turn: none ended long before the others.
    let ends: Vec<Time> = (0..12)
        .map(|number| match run.client().fetched(number).outcome() {
            Outcome::Complete(at) => *at,
            other => panic!("{other:?}"),
        })
        .collect();
    let (first, last) = (*ends.iter().min().unwrap(), *ends.iter().max().unwrap());
    assert!(last.since(first) < last.since(Time::ZERO) / 5, "{ends:?}");
}

#[test]
fn two_clients_of_one_server_do_not_meet() {
    let mut network = Network::new(5);
    let star = Star::new(&mut network, StarConfig::default());
    let server =
        network.add(ServerNode::new(ServerConfig::default(), common::SECRET).with("a", bytes(1, 300_000)));
    let clients = [(); 2].map(|()| {
        let client =
            network.add(ClientNode::new(ClientConfig::default(), common::SECRET, &[server]).with("a"));
        star.attach(&mut network, server, client);
        client
    });
    network.run_for(SECOND);
    for client in clients {
        let client: &ClientNode = network.node(client);
        assert!(matches!(client.fetched(0).outcome(), Outcome::Complete(_)));
        assert!(client.fetched(0).bytes() == bytes(1, 300_000));
    }
}

#[test]
fn with_algorithm_2_all_arrives_and_takes_a_third_more_symbols() {
    // Blocks of 64 KB; the codec's own table has 38 % for k = 64, and what is under way when a block is complete is more.
    let client = ClientConfig { block_symbols: 64, ..algorithm_2() };
    for loss in [0.0, 0.05] {
        let mut run = Bed { client: client.clone(), sizes: vec![64 << 14], ..Bed::default() }.build();
        run.there(|| lossy(loss));
        run.deliver(10 * SECOND);
        run.settled();
        let useful = run.client().report(0).useful as f64;
        assert!((1.28..1.48).contains(&(useful / 1024.0)), "{useful}");
    }
}

#[test]
fn with_credits_algorithm_2_asks_for_what_it_lacks_in_few_round_trips() {
    let client = ClientConfig { method: Method::Peeling, code: Code::Independent, ..ClientConfig::default() };
    let mut run = Bed { client, sizes: vec![2_000_000], ..Bed::default() }.build();
    let end = run.deliver(10 * SECOND);
    run.settled();
    // 2 MB and a third more at 100 Mb/s take 0.22 s.
    assert!(end < ms(400), "{end:?}");
}

#[test]
fn other_parameters_of_the_code_serve_as_well() {
    for (dealt, c, delta) in [(true, 0.05, 0.5), (false, 0.1, 0.1), (true, 1.0, 0.9), (false, 2.0, 0.5)] {
        for method in [Method::Complete, Method::Peeling] {
            let client = ClientConfig {
                code: lt_code(dealt, c, delta).unwrap(),
                method,
                ..small(ClientConfig::default())
            };
            let mut run = Bed { client, sizes: vec![20_000, 33_333], ..Bed::default() }.build();
            run.there(|| lossy(0.05));
            run.deliver(20 * SECOND);
            run.settled();
        }
    }
}

#[test]
fn parameters_out_of_bounds_are_refused_by_the_server() {
    for (c_millionths, delta_millionths) in [(0, 700_000), (200_000, 0), (10_000_001, 1), (200_000, u32::MAX)]
    {
        let code = Code::Tuned(Tuned { dealt: true, c_millionths, delta_millionths });
        let client = ClientConfig { code, ..ClientConfig::default() };
        let mut run = Bed { client, ..Bed::default() }.build();
        run.finish(SECOND);
        assert_eq!(*run.client().fetched(0).outcome(), Outcome::Refused(Refusal::BadParameters));
    }
}

//! What a hostile server, or anyone on its path, may do to a client: it never panics, remembers no more than its limits, and
//! drops and counts what it did not ask for.

mod peers;

use std::time::Duration;

use peers::{SERVER, TOKEN, ToClient, Victim, modest};
use proptest::prelude::*;
use weir_proto::Time;
use weir_proto::lttp::{Client, ClientConfig, ClientEvent, Lost};
use weir_proto::protect::Protection;
use wire::control::{self, Run};
use wire::packet::Kind;

#[test]
fn forged_replayed_and_unasked_symbols_are_dropped_and_counted() {
    let mut victim = Victim::new(modest(), true);
    assert_eq!(victim.client.fetch(SERVER, "a".into(), Vec::new(), None), Some(0));
    victim.work();
    victim.parameters(0, 8_000);
    let genuine = victim.symbol(0, 0, 0, 100);
    assert_eq!(victim.useful, 1);
    victim.raw(genuine.clone());
    let mut forged = genuine;
    forged[30] ^= 1;
    victim.raw(forged);
    let report = victim.client.report(SERVER).unwrap();
    assert_eq!((report.replayed, report.forged), (1, 1), "{report:?}");
    // Of another length, of a block beyond the end, of another request, beyond the credit, and no symbol at all.
    victim.symbol(0, 0, 1, 99);
    victim.symbol(0, 4_000, 0, 100);
    victim.symbol(9, 0, 0, 100);
    victim.symbol(0, 0, 60_000, 100);
    victim.sealed(Kind::Symbol, &[1, 2, 3]);
    victim.sealed(Kind::Feedback, &[0; 43]);
    assert_eq!(victim.useful, 1);
    let report = victim.client.report(SERVER).unwrap();
    assert_eq!(report.useful + report.late + report.unexpected, 7, "{report:?}");
}

#[test]
fn a_server_that_repeats_symbols_for_ever_brings_no_more_than_a_block_may_have() {
    let mut victim = Victim::new(modest(), true);
    victim.client.fetch(SERVER, "a".into(), Vec::new(), None);
    victim.work();
    // The parameters never come: a driver keeps what comes until then.
    for _ in 0..5_000 {
        victim.symbol(0, 0, 0, 100);
    }
    assert_eq!(victim.useful, 4 * 8 + 64);
}

#[test]
fn symbols_beyond_what_a_small_object_has_do_not_upset_what_is_asked_for() {
    let mut victim = Victim::new(ClientConfig { block_symbols: 300, ..modest() }, true);
    victim.client.fetch(SERVER, "a".into(), Vec::new(), None);
    victim.work();
    // Within the first credit, as long as the object is not known; and then it has one symbol.
    (0..300).for_each(|index| {
        victim.symbol(0, 0, index, 100);
    });
    victim.parameters(0, 50);
    victim.client.needs(SERVER, 0, 0, 500);
    victim.wait(Duration::from_secs(1));
    victim.client.complete(SERVER, 0, 0);
    victim.wait(Duration::from_secs(20));
    assert_eq!(victim.lost(), None);
}

#[test]
fn hashes_that_nobody_waits_for_are_not_passed_on() {
    let mut victim = Victim::new(modest(), true);
    victim.client.fetch(SERVER, "a".into(), Vec::new(), None);
    victim.work();
    victim.parameters(0, u64::from(u32::MAX));
    for block in 0..10_000 {
        for request in 0..3 {
            victim.hear(control::Server::BlockHash { request, block, hash: [0; 32] });
            victim.hear(control::Server::BlockHash { request, block, hash: [1; 32] });
        }
    }
    let hashes = victim.events.iter().filter(|e| matches!(e, ClientEvent::BlockHash { .. })).count();
    assert!(hashes <= modest().max_blocks, "{hashes}");
}

#[test]
fn a_server_that_breaks_the_protocol_is_lost() {
    let welcome = |connection| control::Server::Welcome { version: wire::VERSION, connection, token: TOKEN };
    let mut victim = Victim::new(modest(), true);
    victim.hear(welcome(5));
    assert!(matches!(victim.lost(), Some(Lost::Protocol(_))));

    let mut victim = Victim::new(modest(), true);
    victim.client.fetch(SERVER, "a".into(), Vec::new(), None);
    victim.work();
    victim.parameters(0, 1_000);
    victim.parameters(0, 2_000);
    assert!(matches!(victim.lost(), Some(Lost::Protocol(_))));
    assert_eq!(victim.client.fetch(SERVER, "b".into(), Vec::new(), None), None);

    let mut client = Client::new(modest());
    client.add_server(Time::ZERO);
    client.opened(Time::ZERO, SERVER, Protection::insecure());
    client.handle_control(
        Time::ZERO,
        SERVER,
        control::Server::Welcome { version: 9, connection: 0, token: TOKEN },
    );
    assert_eq!(client.poll_event(), Some(ClientEvent::Lost { server: SERVER, reason: Lost::Version(9) }));
}

fn to_client() -> impl Strategy<Value = ToClient> {
    let run =
        (0..30_u32, prop_oneof![0..9_u32, Just(u32::MAX)]).prop_map(|(first, count)| Run { first, count });
    let bytes = || prop::collection::vec(any::<u8>(), 0..80);
    let block = || prop_oneof![9 => 0..40_u32, 1 => any::<u32>()];
    let symbol = || {
        (
            0..3_u16,
            block(),
            prop_oneof![9 => 0..40_u16, 1 => any::<u16>()],
            prop_oneof![9 => Just(100_usize), 1 => 0..300_usize],
        )
    };
    prop_oneof![
        2 => prop::collection::vec(run, 0..3).prop_map(ToClient::Fetch),
        1 => (0..3_u16).prop_map(ToClient::Cancel),
        3 => (0..3_u16, block()).prop_map(|(r, b)| ToClient::Complete(r, b)),
        2 => (0..3_u16, block(), any::<u16>()).prop_map(|(r, b, n)| ToClient::Needs(r, b, n)),
        3 => (0..3_u16, prop_oneof![0..40_000_u64, any::<u64>()]).prop_map(|(r, s)| ToClient::Parameters(r, s)),
        2 => (0..3_u16, block()).prop_map(|(r, b)| ToClient::Hash(r, b)),
        1 => (0..3_u16).prop_map(ToClient::Refused),
        20 => symbol().prop_map(|(request, block, index, payload_bytes)| ToClient::Symbol { request, block, index, payload_bytes }),
        8 => (symbol(), 0..8_u8, prop_oneof![8 => 2..4_u8, 1 => 0..40_u8])
            .prop_map(|((request, block, index, payload_bytes), piece, of)| {
                let payload_bytes = if payload_bytes == 100 { 100_usize.div_ceil(of.max(1).into()) } else { payload_bytes };
                ToClient::Piece { request, block, index, piece: piece % of.max(1), of, payload_bytes }
            }),
        2 => (0..1_500_usize).prop_map(ToClient::Probe),
        1 => bytes().prop_map(ToClient::Raw),
        2 => (1..7_u8, prop_oneof![0..100_u64, 0..1_u64 << 48], bytes()).prop_map(|(k, n, b)| ToClient::Sealed(k, n, b)),
        2 => (0..3_000_000_000_u64).prop_map(ToClient::Wait),
        4 => (0..20_000_000_u64).prop_map(ToClient::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_client_survives_whatever_a_server_does(
        secure: bool,
        credits: bool,
        steps in prop::collection::vec(to_client(), 0..150),
    ) {
        let mut victim = Victim::new(ClientConfig { credits, ..modest() }, secure);
        for step in steps {
            victim.apply(step);
        }
        // Whatever was done: a client that is told nothing more comes to its end, and does not spin.
        let (mut steps, end) = (0, victim.now + Duration::from_secs(15));
        while let Some(at) = victim.client.poll_timeout().filter(|at| *at < end) {
            let step = at.since(victim.now);
            victim.wait(step);
            steps += 1;
            prop_assert!(steps < 1_000);
        }
    }
}

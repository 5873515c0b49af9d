//! Ends of DFCP whose peers do whatever they like: nothing panics, nothing grows beyond its bounds, nothing is sent that
//! was not asked for.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_proto::dfcp::{
    RateConfig, Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent, Transmit,
};
use weir_proto::ecn::Codepoint;
use weir_proto::object::{Object, symbol_cap};
use weir_proto::protect::Protection;
use weir_proto::{Budget, Time};
use wire::control::{self, Code, Offer, Parameters, Refusal, Run, Version};
use wire::packet::{Header, Kind, MAX_NUMBER, MAX_PIECES, Need, Needs, Piece, Report, Symbol};

const CONNECTION: u32 = 9;
const BLOCK_SYMBOLS: u16 = 8;
const SYMBOL_BYTES: u16 = 32;
const SIZE: u64 = 1_000;
/// How often the symbols of a block are sent to a receiver that needs fewer and fewer.
const MOST_ROUNDS: u64 = 16;

fn run() -> impl Strategy<Value = Run> {
    (0_u32..9, prop_oneof![0_u32..9, Just(u32::MAX)]).prop_map(|(first, count)| Run { first, count })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![Just(Refusal::Busy), Just(Refusal::BadPath), Just(Refusal::Unreadable)]
}

#[derive(Clone, Debug)]
enum ToSender {
    Say(control::Receiver),
    Report(Report),
    Raw(Vec<u8>),
    Wait(u64),
}

fn to_sender() -> impl Strategy<Value = ToSender> {
    let request = 0_u16..4;
    let message = prop_oneof![
        (1_u8..3, any::<u64>())
            .prop_map(|(version, window_bytes)| control::Receiver::Welcome { version, window_bytes }),
        (request.clone(), prop::collection::vec(run(), 0..4))
            .prop_map(|(request, runs)| control::Receiver::Accepted { request, runs }),
        (request.clone(), refusal()).prop_map(|(request, why)| control::Receiver::Refused {
            request,
            why,
            detail: String::new()
        }),
        request.clone().prop_map(|request| control::Receiver::Stored { request }),
        any::<u64>().prop_map(|bps| control::Receiver::Ceiling { bps }),
    ];
    let needs = prop_oneof![Just(Needs::Nothing), (0_u16..200).prop_map(Needs::Symbols)];
    let need = (request, 0_u32..9, needs).prop_map(|(request, block, needs)| Need { request, block, needs });
    let report = (
        any::<(u32, u32, u64)>(),
        0.0..1.0_f64,
        0_u64..400,
        [0_u64..400, 0..400, 0..400],
        prop::collection::vec(need, 0..6),
    )
        .prop_map(
            |((echo_us, delay_us, x_recv), loss_event_rate, highest, [received, ect, ce], needs)| Report {
                echo_us,
                delay_us,
                x_recv: x_recv % MAX_NUMBER,
                loss_event_rate,
                highest,
                received,
                ect,
                ce,
                needs,
            },
        );
    prop_oneof![
        2 => message.prop_map(ToSender::Say),
        4 => report.prop_map(ToSender::Report),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(ToSender::Raw),
        3 => (0_u64..2_000_000_000).prop_map(ToSender::Wait),
    ]
}

fn datagram(kind: Kind, number: u64, emit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    Header { kind, connection: CONNECTION, number }.emit(&mut bytes);
    emit(&mut bytes);
    bytes
}

fn sender() -> Sender {
    let config = SenderConfig {
        symbol_bytes: SYMBOL_BYTES,
        block_symbols: BLOCK_SYMBOLS,
        rate: RateConfig { expiry: None, ..SenderConfig::default().rate },
        max_held_bytes: 600,
        ..SenderConfig::default()
    };
    let rtt = Duration::from_millis(1);
    let mut sender = Sender::new(config, Time::ZERO, CONNECTION, Protection::insecure(), rtt);
    sender.tell_rate(Time::ZERO, 10e6);
    let object = Object { size: SIZE, version: Version([1; 16]), modified_ns: 0, mode: 0 };
    for _ in 0..3 {
        assert!(sender.offer("a", &object).unwrap().is_some());
    }
    sender
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sender_withstands_its_receiver(steps in prop::collection::vec(to_sender(), 0..120)) {
        let mut sender = sender();
        let mut now = Time::ZERO;
        let (mut number, mut held, mut sent) = (0, Vec::new(), 0_u64);
        for step in steps {
            match step {
                ToSender::Say(message) => sender.handle_control(now, message),
                ToSender::Report(report) => {
                    let mut bytes = datagram(Kind::Report, number, |out| report.emit(out));
                    number += 1;
                    sender.handle_datagram(now, &mut bytes);
                }
                ToSender::Raw(mut bytes) => sender.handle_datagram(now, &mut bytes),
                ToSender::Wait(ns) => now = now + Duration::from_nanos(ns),
            }
            sender.handle_timeout(now);
            while let Some(event) = sender.poll_event() {
                if let SenderEvent::Load { request, block, offset, bytes } = event {
                    prop_assert!(offset + bytes as u64 <= SIZE);
                    held.push((request, block));
                    sender.provide(request, block, Arc::from(vec![7; bytes]));
                }
            }
            while sender.poll_control().is_some() {}
            let mut buffer = Vec::new();
            for _ in 0..50 {
                let Some(Transmit { segment_bytes, .. }) = sender.poll_transmit(now, &mut buffer, 4) else { break };
                sent += (buffer.len() / segment_bytes) as u64;
                prop_assert_eq!(buffer.len() % segment_bytes, 0);
                buffer.clear();
                now = now + Duration::from_micros(50);
            }
            let _ = sender.poll_timeout(now);
        }
        // Whatever it is asked for: the cap of each block that it was let begin, in each of its rounds, and probes now and then.
        let cap = MOST_ROUNDS * u64::from(symbol_cap(BLOCK_SYMBOLS));
        let probes = now.as_nanos() / 20_000_000 + 4;
        prop_assert!(sent <= held.len() as u64 * cap + probes, "{sent} of {} blocks", held.len());
    }
}

#[derive(Clone, Debug)]
enum ToReceiver {
    Say(control::Sender),
    Piece {
        number: u64,
        piece: Piece,
        bytes: usize,
    },
    Symbol {
        number: u64,
        symbol: Symbol,
        bytes: usize,
    },
    Raw(Vec<u8>),
    Wait(u64),
    /// The driver has decoded a block, or wants more of it.
    Driver {
        complete: bool,
        request: u16,
        block: u32,
        symbols: u16,
    },
    Stored(u16),
}

fn offer() -> impl Strategy<Value = Offer> {
    (0_u16..4, prop_oneof![0_u64..3_000, any::<u64>()], any::<(u64, u64)>(), 0_u16..70, 0_u16..40).prop_map(
        |(request, size, (seed, last_seed), symbol_bytes, block_symbols)| Offer {
            path: "a".into(),
            parameters: Parameters {
                request,
                size,
                version: Version([0; 16]),
                modified_ns: 0,
                mode: 0,
                seed,
                last_seed,
            },
            symbol_bytes,
            block_symbols,
            code: Code::Raptor,
        },
    )
}

fn to_receiver() -> impl Strategy<Value = ToReceiver> {
    let request = 0_u16..4;
    let message = prop_oneof![
        (1_u8..2).prop_map(|version| control::Sender::Hello { version }),
        offer().prop_map(control::Sender::Offer),
        (request.clone(), 0_u32..20).prop_map(|(request, block)| control::Sender::BlockHash {
            request,
            block,
            hash: [0; 32]
        }),
        request.clone().prop_map(|request| control::Sender::Withdraw { request, detail: String::new() }),
    ];
    let symbol = (request.clone(), 0_u32..20, 0_u16..400, any::<(u32, u32)>()).prop_map(
        |(request, block, index, (sent_us, rtt_us))| Symbol { request, block, index, sent_us, rtt_us },
    );
    let number = prop_oneof![8 => 0_u64..2_000, 1 => 0..MAX_NUMBER];
    prop_oneof![
        2 => message.prop_map(ToReceiver::Say),
        8 => (number.clone(), symbol.clone(), 0_u8..MAX_PIECES, 0_u8..4, 0_usize..70)
            .prop_map(|(number, symbol, piece, of, bytes)| ToReceiver::Piece {
                number, piece: Piece { symbol, piece: piece % (of + 1), of }, bytes
            }),
        8 => (number, symbol, 0_usize..70)
            .prop_map(|(number, symbol, bytes)| ToReceiver::Symbol { number, symbol, bytes }),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(ToReceiver::Raw),
        2 => (0_u64..2_000_000_000).prop_map(ToReceiver::Wait),
        2 => (any::<bool>(), request.clone(), 0_u32..20, any::<u16>()).prop_map(
            |(complete, request, block, symbols)| ToReceiver::Driver { complete, request, block, symbols }),
        1 => request.prop_map(ToReceiver::Stored),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_receiver_withstands_its_sender(steps in prop::collection::vec(to_receiver(), 0..200)) {
        let config = ReceiverConfig {
            window_bytes: 4_000,
            max_blocks: 3,
            least_block_bytes: 0,
            max_objects: 2,
            ..ReceiverConfig::default()
        };
        let mut receiver = Receiver::new(config, Time::ZERO, CONNECTION, Protection::insecure());
        let mut now = Time::ZERO;
        receiver.handle_control(now, control::Sender::Hello { version: wire::VERSION });
        let mut came = 0;
        for step in steps {
            match step {
                ToReceiver::Say(message) => receiver.handle_control(now, message),
                ToReceiver::Symbol { number, symbol, bytes } => {
                    let mut datagram = datagram(Kind::Symbol, number, |out| {
                        symbol.emit(out);
                        out.resize(out.len() + bytes, 1);
                    });
                    came += 1;
                    if let Some(arrival) = receiver.handle_datagram(now, Codepoint::NotEct, &mut datagram) {
                        prop_assert_eq!(arrival.payload.len(), bytes);
                        prop_assert!(arrival.index < symbol_cap(40));
                    }
                }
                ToReceiver::Piece { number, piece, bytes } => {
                    let mut datagram = datagram(Kind::Piece, number, |out| {
                        piece.emit(out);
                        out.resize(out.len() + bytes, 1);
                    });
                    came += 1;
                    if let Some(arrival) = receiver.handle_datagram(now, Codepoint::NotEct, &mut datagram) {
                        prop_assert!(arrival.payload.len() <= bytes * usize::from(piece.of));
                        prop_assert!(arrival.payload.iter().all(|byte| *byte == 1));
                        prop_assert!(arrival.index < symbol_cap(40));
                    }
                }
                ToReceiver::Raw(mut bytes) => {
                    prop_assert!(receiver.handle_datagram(now, Codepoint::Ce, &mut bytes).is_none());
                }
                ToReceiver::Wait(ns) => now = now + Duration::from_nanos(ns),
                ToReceiver::Driver { complete: true, request, block, .. } => {
                    receiver.complete(now, request, block);
                }
                ToReceiver::Driver { request, block, symbols, .. } => {
                    receiver.needs(now, request, block, symbols);
                }
                ToReceiver::Stored(request) => receiver.stored(request),
            }
            receiver.handle_timeout(now);
            while let Some(event) = receiver.poll_event() {
                if let ReceiverEvent::Offer(offer) = event {
                    let request = offer.parameters.request;
                    receiver.accept(request, &[Run { first: 0, count: u32::MAX }]);
                }
            }
            while receiver.poll_control().is_some() {}
            let mut buffer = Vec::new();
            for _ in 0..3 {
                if !receiver.poll_transmit(now, &mut buffer) {
                    break;
                }
                // No more than a frame, whatever there is to tell.
                prop_assert!(buffer.len() < 1_400);
                let report = Report::parse(&buffer[wire::packet::HEADER_BYTES..]).unwrap();
                prop_assert!(report.received <= report.highest + 1);
                buffer.clear();
            }
            let _ = receiver.poll_timeout();
        }
        let seen = receiver.counters();
        prop_assert!(seen.useful + seen.late <= came);
    }
}

/// An offer of an object of so many bytes, in blocks of `k` symbols.
fn offered(request: u16, size: u64, k: u16) -> control::Sender {
    let parameters = Parameters {
        request,
        size,
        version: Version([0; 16]),
        modified_ns: 0,
        mode: 0,
        seed: 0,
        last_seed: 0,
    };
    control::Sender::Offer(Offer {
        path: "a".into(),
        parameters,
        symbol_bytes: 1_024,
        block_symbols: k,
        code: Code::Raptor,
    })
}

fn greeted(config: ReceiverConfig) -> Receiver {
    let mut receiver = Receiver::new(config, Time::ZERO, CONNECTION, Protection::insecure());
    receiver.handle_control(Time::ZERO, control::Sender::Hello { version: wire::VERSION });
    assert!(matches!(receiver.poll_control(), Some(control::Receiver::Welcome { .. })));
    receiver
}

fn end_of(receiver: &mut Receiver) -> Option<String> {
    std::iter::from_fn(|| receiver.poll_event()).find_map(|event| match event {
        ReceiverEvent::Ended { reason, .. } => Some(reason),
        _ => None,
    })
}

#[test]
fn objects_that_are_refused_leave_nothing_behind() {
    let mut receiver = greeted(ReceiverConfig { max_blocks: 8, ..ReceiverConfig::default() });
    for request in 0..100 {
        receiver.handle_control(Time::ZERO, offered(request, 1 << 20, 16));
        receiver.accept(request, &[Run { first: 0, count: u32::MAX }]);
        for block in 0..5 {
            let hash = control::Sender::BlockHash { request, block, hash: [0; 32] };
            // A hash that comes twice is the same hash.
            receiver.handle_control(Time::ZERO, hash.clone());
            receiver.handle_control(Time::ZERO, hash);
        }
        receiver.refuse(request, Refusal::Unreadable, "the disk is full".into());
        assert_eq!(end_of(&mut receiver), None, "after {request}");
    }
}

#[test]
fn blocks_that_cost_more_than_they_bring_are_refused() {
    let mut receiver = greeted(ReceiverConfig::default());
    receiver.handle_control(Time::ZERO, offered(0, 1 << 20, 1));
    assert!(matches!(
        receiver.poll_control(),
        Some(control::Receiver::Refused { why: Refusal::BadParameters, .. })
    ));
    // An object of one block may be as small as it is.
    receiver.handle_control(Time::ZERO, offered(1, 100, 1));
    assert!(matches!(receiver.poll_event(), Some(ReceiverEvent::Offer(_))));
}

#[test]
fn a_sender_that_scatters_its_blocks_is_stopped() {
    let mut receiver = greeted(ReceiverConfig { max_blocks: 8, ..ReceiverConfig::default() });
    receiver.handle_control(Time::ZERO, offered(0, 1 << 30, 16));
    receiver.accept(0, &[Run { first: 0, count: u32::MAX }]);
    assert!(matches!(receiver.poll_event(), Some(ReceiverEvent::Offer(_))));
    let mut ended = None;
    for block in (0..10_000).step_by(2) {
        receiver.complete(Time::ZERO, 0, block);
        ended = end_of(&mut receiver);
        if ended.is_some() {
            assert!((1_000..3_000).contains(&block), "{block}");
            break;
        }
    }
    assert_eq!(ended.as_deref(), Some("blocks came in no order"));
}

fn symbol(request: u16, block: u32, index: u16, number: u64) -> Vec<u8> {
    let symbol = Symbol { request, block, index, sent_us: 0, rtt_us: 0 };
    datagram(Kind::Symbol, number, |out| {
        symbol.emit(out);
        out.resize(out.len() + 1_024, 7);
    })
}

#[test]
fn blocks_and_objects_of_all_senders_are_held_within_the_budget() {
    let budget = Budget::new(8 << 20);
    let objects = Budget::new(30);
    let shared = || ReceiverConfig {
        budget: budget.share(),
        state: budget.share(),
        objects: objects.clone(),
        max_objects: 20,
        ..ReceiverConfig::default()
    };
    let mut receivers: Vec<Receiver> = (0..20).map(|_| greeted(shared())).collect();
    let mut refused = 0;
    for receiver in &mut receivers {
        let mut number = 0;
        for request in 0..20 {
            receiver.handle_control(Time::ZERO, offered(request, 1 << 30, 64));
            receiver.accept(request, &[Run { first: 0, count: u32::MAX }]);
            for block in 0..40 {
                receiver.handle_datagram(
                    Time::ZERO,
                    Codepoint::NotEct,
                    &mut symbol(request, block, 0, number),
                );
                number += 1;
                let hash = control::Sender::BlockHash { request, block, hash: [0; 32] };
                receiver.handle_control(Time::ZERO, hash);
                assert!(budget.taken() <= budget.most() && objects.taken() <= 30);
            }
        }
        let said = std::iter::from_fn(|| receiver.poll_control());
        refused +=
            said.filter(|s| matches!(s, control::Receiver::Refused { why: Refusal::Busy, .. })).count();
    }
    assert!(refused >= 370, "{refused}");
    assert!(receivers[0].counters().no_room > 0 && end_of(&mut receivers[0]).is_none());
    // There is some left for another host, and a sender that is gone leaves what it had.
    assert!(budget.share().take(1_000).is_some());
    receivers[0].end("it is over".into());
    let left = budget.taken();
    drop(receivers);
    assert!(left < budget.peak());
    assert_eq!((budget.taken(), objects.taken()), (0, 0));
}

#[test]
fn a_block_for_which_there_was_no_memory_comes_when_there_is() {
    let budget = Budget::new(1 << 20);
    let mut receiver = greeted(ReceiverConfig { budget: budget.clone(), ..ReceiverConfig::default() });
    receiver.handle_control(Time::ZERO, offered(0, 1 << 20, 64));
    receiver.accept(0, &[Run { first: 0, count: u32::MAX }]);
    let others = budget.take(budget.most());
    assert!(receiver.handle_datagram(Time::ZERO, Codepoint::NotEct, &mut symbol(0, 0, 0, 0)).is_none());
    drop(others);
    assert!(receiver.handle_datagram(Time::ZERO, Codepoint::NotEct, &mut symbol(0, 0, 0, 1)).is_some());
    assert_eq!(receiver.counters().no_room, 1);
}

fn piece(index: u16, piece: u8, number: u64) -> Vec<u8> {
    let symbol = Symbol { request: 0, block: 0, index, sent_us: 0, rtt_us: 0 };
    datagram(Kind::Piece, number, |out| {
        Piece { symbol, piece, of: 2 }.emit(out);
        out.resize(out.len() + 512, piece);
    })
}

#[test]
fn symbols_in_pieces_take_memory_for_a_few_and_none_that_there_is_not() {
    let state = Budget::new(1 << 20);
    let mut receiver = greeted(ReceiverConfig { state: state.clone(), ..ReceiverConfig::default() });
    receiver.handle_control(Time::ZERO, offered(0, 1 << 20, 64));
    receiver.accept(0, &[Run { first: 0, count: u32::MAX }]);
    let (known, mut number) = (state.taken(), 0..);
    let mut come = |receiver: &mut Receiver, index, which| {
        let mut datagram = piece(index, which, number.next().unwrap());
        let arrival = receiver.handle_datagram(Time::ZERO, Codepoint::NotEct, &mut datagram);
        arrival.map(|arrival| (arrival.index, arrival.payload.to_vec()))
    };
    let others = state.take(state.most() - known);
    assert_eq!((come(&mut receiver, 0, 0), come(&mut receiver, 0, 1)), (None, None));
    assert_eq!(receiver.counters().no_room, 2);
    drop(others);
    // Halves of ever others: few are remembered.
    for index in 0..200 {
        assert_eq!(come(&mut receiver, index, 0), None);
    }
    assert!(state.taken() < known + 16_000, "{}", state.taken() - known);
    assert_eq!(come(&mut receiver, 5, 1), None, "its first half was forgotten");
    let whole = [vec![0; 512], vec![1; 512]].concat();
    assert_eq!(come(&mut receiver, 199, 1), Some((199, whole)));
    assert_eq!(come(&mut receiver, 199, 1), None);
    assert_eq!((receiver.counters().useful, receiver.counters().late), (1, 1));
    drop(receiver);
    assert_eq!(state.taken(), 0);
}

#[test]
fn an_object_shares_no_pieces_with_one_that_had_its_number_before() {
    let mut receiver = greeted(ReceiverConfig::default());
    // Longer symbols, and then the other half of one that would make it whole.
    for (number, symbol_bytes, which) in [(0, 64, 1), (1, 1_024, 1), (2, 1_024, 0)] {
        let control::Sender::Offer(offer) = offered(0, 1 << 16, 64) else { unreachable!() };
        receiver.handle_control(Time::ZERO, control::Sender::Offer(Offer { symbol_bytes, ..offer }));
        receiver.accept(0, &[Run { first: 0, count: u32::MAX }]);
        let symbol = Symbol { request: 0, block: 0, index: 0, sent_us: 0, rtt_us: 0 };
        let mut half = datagram(Kind::Piece, number, |out| {
            Piece { symbol, piece: which, of: 2 }.emit(out);
            out.resize(out.len() + usize::from(symbol_bytes) / 2, 7);
        });
        assert!(receiver.handle_datagram(Time::ZERO, Codepoint::NotEct, &mut half).is_none());
        receiver.refuse(0, Refusal::Busy, String::new());
    }
    assert_eq!((receiver.counters().pieces, end_of(&mut receiver)), (3, None));
}

#[test]
fn a_report_that_comes_late_asks_for_nothing_again() {
    let mut sender = sender();
    let now = Time::ZERO;
    sender.handle_control(now, control::Receiver::Welcome { version: wire::VERSION, window_bytes: 1 << 20 });
    let runs = vec![Run { first: 0, count: 1 }];
    sender.handle_control(now, control::Receiver::Accepted { request: 0, runs });
    while let Some(event) = sender.poll_event() {
        if let SenderEvent::Load { request, block, bytes, .. } = event {
            sender.provide(request, block, Arc::from(vec![7; bytes]));
        }
    }
    let sent = |sender: &mut Sender, now: &mut Time| {
        let mut buffer = Vec::new();
        let mut sent = 0;
        for _ in 0..1_000 {
            *now = *now + Duration::from_millis(1);
            while let Some(Transmit { segment_bytes: bytes, .. }) = sender.poll_transmit(*now, &mut buffer, 4)
            {
                sent += buffer.len() / bytes;
                buffer.clear();
            }
        }
        sent
    };
    let mut now = now;
    let first = sent(&mut sender, &mut now) as u64;
    assert!(first >= u64::from(BLOCK_SYMBOLS), "{first}");
    let report = |sender: &mut Sender, now: Time, number: u64, highest: u64, symbols: u16| {
        let needs = vec![Need { request: 0, block: 0, needs: Needs::Symbols(symbols) }];
        let report = Report {
            echo_us: 0,
            delay_us: 0,
            x_recv: 0,
            loss_event_rate: 0.0,
            highest,
            received: highest + 1,
            ect: 0,
            ce: 0,
            needs,
        };
        let mut bytes = datagram(Kind::Report, number, |out| report.emit(out));
        sender.handle_datagram(now, &mut bytes);
    };
    // The newest says that one is lacking; the one before it, that came later, five.
    report(&mut sender, now, 1, first - 1, 1);
    report(&mut sender, now, 0, 2, 5);
    let again = sent(&mut sender, &mut now);
    assert!((1..=2).contains(&again), "{again}");
}

//! The wire formats, held still: every kind of datagram and every message of the control channel as in `golden.txt`,
//! byte for byte, both ways. A change here is another version of the protocol.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_wire::control::{
    self, Client, Code, Entry, Fetch, Frames, Offer, Omitted, Pacing, Parameters, Receiver, Refusal, Run,
    Sender, Server, Tuned, Version,
};
use weir_wire::packet::{
    Credit, Feedback, Flag, Header, Kind, Need, Needs, Piece, Probe, Report, Signal, Symbol, Welcome,
};

/// Names and bytes; what follows a `#` is for people.
struct Golden(BTreeMap<String, Vec<u8>>);

impl Golden {
    fn read() -> Self {
        let lines = include_str!("golden.txt").lines().filter_map(|line| {
            let (name, hex) = line.split('#').next()?.split_once('=')?;
            Some((name.trim().to_owned(), bytes(hex)))
        });
        Golden(lines.collect())
    }

    /// The bytes of this name, which `emitted` has to be.
    fn check(&mut self, name: &str, emitted: &[u8]) -> Vec<u8> {
        let golden = self.0.remove(name).unwrap_or_default();
        assert_eq!(hex(&golden), hex(emitted), "{name} is {}", hex(emitted));
        golden
    }

    fn message<M: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, name: &str, message: &M) {
        let mut emitted = Vec::new();
        control::emit(message, &mut emitted).unwrap();
        let golden = self.check(name, &emitted);
        let mut frames = Frames::default();
        frames.extend(&golden);
        assert_eq!(frames.message::<M>().unwrap().as_ref(), Some(message), "{name}");
        assert_eq!(frames.message::<M>().unwrap(), None, "{name}");
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn datagrams_are_as_they_were() {
    let mut golden = Golden::read();
    for (name, kind) in [
        ("header.symbol", Kind::Symbol),
        ("header.feedback", Kind::Feedback),
        ("header.hello", Kind::Hello),
        ("header.welcome", Kind::Welcome),
        ("header.signal", Kind::Signal),
        ("header.report", Kind::Report),
        ("header.probe", Kind::Probe),
        ("header.piece", Kind::Piece),
    ] {
        let header = Header { kind, connection: 0x0102_0304, number: 0x0506_0708_090a };
        let mut emitted = Vec::new();
        header.emit(&mut emitted);
        assert_eq!(Header::parse(&golden.check(name, &emitted)), Ok(header));
    }

    let symbol = Symbol {
        request: 0x1122,
        block: 0x3344_5566,
        index: 0x7788,
        sent_us: 0x99aa_bbcc,
        rtt_us: 0x00dd_eeff,
    };
    let mut emitted = Vec::new();
    symbol.emit(&mut emitted);
    emitted.extend_from_slice(b"payload");
    assert_eq!(Symbol::parse(&golden.check("symbol", &emitted)), Ok((symbol, &b"payload"[..])));

    let piece = Piece { symbol, piece: 1, of: 3 };
    let mut emitted = Vec::new();
    piece.emit(&mut emitted);
    emitted.extend_from_slice(b"payload");
    assert_eq!(Piece::parse(&golden.check("piece", &emitted)), Ok((piece, &b"payload"[..])));

    let mut emitted = Vec::new();
    Probe { bytes: 1452 }.emit(&mut emitted);
    assert_eq!(Probe::parse(&golden.check("probe", &emitted)), Ok(Probe { bytes: 1452 }));

    let mut emitted = Vec::new();
    Welcome { hello: 0x0102_0304_0506 }.emit(&mut emitted);
    assert_eq!(Welcome::parse(&golden.check("welcome", &emitted)), Ok(Welcome { hello: 0x0102_0304_0506 }));

    let credit = |request, block, want| Credit { request, block, want };
    for (name, feedback) in [
        ("feedback.first", Feedback { x_recv: None, credits: vec![credit(1, 2, 3)], ..Feedback::default() }),
        (
            "feedback.report",
            Feedback {
                echo_us: 0x0102_0304,
                delay_us: 250,
                x_recv: Some(12_500_000),
                loss_event_rate: 1.0,
                highest: 0x0102_0304_0506,
                received: 7,
                ect: 4,
                ce: 2,
                credits: Vec::new(),
            },
        ),
        (
            "feedback.credits",
            Feedback {
                echo_us: u32::MAX,
                delay_us: 0,
                x_recv: Some(0),
                loss_event_rate: 0.0,
                highest: 0,
                received: 0,
                ect: 0,
                ce: 0,
                credits: vec![credit(0, 0, 0), credit(u16::MAX, u32::MAX, u16::MAX)],
            },
        ),
    ] {
        let mut emitted = Vec::new();
        feedback.emit(&mut emitted);
        assert_eq!(Feedback::parse(&golden.check(name, &emitted)), Ok(feedback), "{name}");
    }
    let need = |request, block, needs| Need { request, block, needs };
    let report = Report {
        echo_us: 0x0102_0304,
        delay_us: 250,
        x_recv: 12_500_000,
        loss_event_rate: 1.0,
        highest: 0x0102_0304_0506,
        received: 7,
        ect: 4,
        ce: 2,
        needs: vec![need(1, 2, Needs::Symbols(3)), need(u16::MAX, u32::MAX, Needs::Nothing)],
    };
    let mut emitted = Vec::new();
    report.emit(&mut emitted);
    assert_eq!(Report::parse(&golden.check("report", &emitted)), Ok(report));
    for (name, flag) in [
        ("signal.none", Flag::None),
        ("signal.open", Flag::Open),
        ("signal.retry", Flag::Retry),
        ("signal.opens", Flag::Opens),
        ("signal.end", Flag::End),
        ("signal.reset", Flag::Reset),
    ] {
        let signal = Signal { flag, offset: 0x0102_0304, acknowledged: 0x0506_0708 };
        let mut emitted = Vec::new();
        signal.emit(&mut emitted);
        emitted.extend_from_slice(b"payload");
        assert_eq!(Signal::parse(&golden.check(name, &emitted)), Ok((signal, &b"payload"[..])));
    }
    // 1/2 is no whole number of 2^32 - 1ths: it comes back as near as that.
    let mut emitted = Vec::new();
    Feedback { x_recv: Some(1), loss_event_rate: 0.5, ..Feedback::default() }.emit(&mut emitted);
    let parsed = Feedback::parse(&golden.check("feedback.half", &emitted)).unwrap();
    assert!((parsed.loss_event_rate - 0.5).abs() < 1e-9);
}

#[test]
fn messages_are_as_they_were() {
    let mut golden = Golden::read();
    golden.message("client.hello", &Client::Hello { version: 1 });
    golden.message("client.list", &Client::List { request: 300, path: "a/b".into() });
    let whole = Fetch {
        request: 1,
        path: "reports/2026.csv".into(),
        symbol_bytes: 1024,
        block_symbols: 256,
        code: Code::Dealt,
        pacing: Pacing::Client { first: 36 },
        runs: Vec::new(),
        version: None,
    };
    golden.message("client.fetch", &Client::Fetch(whole));
    let resumed = Fetch {
        request: u16::MAX,
        path: "x".into(),
        symbol_bytes: 1408,
        block_symbols: 64,
        code: Code::Independent,
        pacing: Pacing::Tfrc,
        runs: vec![Run { first: 3, count: 2 }, Run { first: 9, count: u32::MAX }],
        version: Some(Version([0xab; 16])),
    };
    golden.message("client.fetch.resumed", &Client::Fetch(resumed.clone()));
    let tuned = Tuned { dealt: true, c_millionths: 50_000, delta_millionths: 1_000_000 };
    golden.message("client.fetch.tuned", &Client::Fetch(Fetch { code: Code::Tuned(tuned), ..resumed }));
    golden.message("client.done", &Client::Done { request: 1, block: 1_000_000 });
    golden.message("client.cancel", &Client::Cancel { request: 1 });

    let token = *b"0123456789abcdef";
    golden.message("server.welcome", &Server::Welcome { version: 1, connection: 0xdead_beef, token });
    let entry = Entry { path: "a/b".into(), size: 1 << 40, modified_ns: -1, mode: 0o100_644 };
    let omitted = vec![Omitted { path: "a/\\xff".into(), why: "no".into() }];
    let (request, entries) = (300, vec![entry]);
    golden.message("server.listing", &Server::Listing { request, entries, omitted, last: true });
    let (entries, omitted) = (Vec::new(), Vec::new());
    golden.message("server.listing.part", &Server::Listing { request, entries, omitted, last: false });
    golden.message("server.unlisted", &Server::Unlisted { request: 300, detail: "no".into() });
    golden.message(
        "server.parameters",
        &Server::Parameters(Parameters {
            request: 1,
            size: 65_536,
            version: Version([0xcd; 16]),
            modified_ns: 1_700_000_000_123_456_789,
            mode: 0o755,
            seed: u64::MAX,
            last_seed: 0,
        }),
    );
    golden.message("server.block_hash", &Server::BlockHash { request: 1, block: 128, hash: [0x5a; 32] });
    for (name, why) in [
        ("server.refused.not_found", Refusal::NotFound),
        ("server.refused.bad_path", Refusal::BadPath),
        ("server.refused.bad_parameters", Refusal::BadParameters),
        ("server.refused.changed", Refusal::Changed),
        ("server.refused.unreadable", Refusal::Unreadable),
        ("server.refused.busy", Refusal::Busy),
        ("server.refused.symbol_cap", Refusal::SymbolCap),
        ("server.refused.exists", Refusal::Exists),
        ("server.refused.no_room", Refusal::NoRoom),
    ] {
        golden.message(name, &Server::Refused { request: 1, why, detail: "why".into() });
    }
    golden.message("server.bye", &Server::Bye { reason: "stopping".into() });

    golden.message("sender.hello", &Sender::Hello { version: 1 });
    let offer = Offer {
        path: "a/b".into(),
        parameters: Parameters {
            request: 1,
            size: 65_536,
            version: Version([0xcd; 16]),
            modified_ns: -1,
            mode: 0o755,
            seed: 5,
            last_seed: 0,
        },
        symbol_bytes: 1408,
        block_symbols: 512,
        code: Code::Raptor,
    };
    golden.message("sender.offer", &Sender::Offer(offer.clone()));
    golden.message("sender.offer.raptorq", &Sender::Offer(Offer { code: Code::RaptorQ, ..offer }));
    golden.message("sender.block_hash", &Sender::BlockHash { request: 1, block: 128, hash: [0x5a; 32] });
    golden.message("sender.withdraw", &Sender::Withdraw { request: 1, detail: "why".into() });
    golden.message("sender.bye", &Sender::Bye { reason: "done".into() });
    golden.message("receiver.welcome", &Receiver::Welcome { version: 1, window_bytes: 64 << 20 });
    let runs = vec![Run { first: 3, count: 2 }, Run { first: 9, count: u32::MAX }];
    golden.message("receiver.accepted", &Receiver::Accepted { request: 1, runs });
    let (why, detail) = (Refusal::Busy, "why".into());
    golden.message("receiver.refused", &Receiver::Refused { request: 1, why, detail });
    golden.message("receiver.stored", &Receiver::Stored { request: 1 });
    golden.message("receiver.ceiling", &Receiver::Ceiling { bps: 1_000_000_000 });
    golden.message("receiver.bye", &Receiver::Bye { reason: "done".into() });

    let datagrams = ["header.", "symbol", "welcome", "feedback.", "report", "signal.", "piece", "probe"];
    golden.0.retain(|name, _| !datagrams.iter().any(|kind| name.starts_with(kind)));
    assert!(golden.0.is_empty(), "nobody checks {:?}", golden.0.keys());
}

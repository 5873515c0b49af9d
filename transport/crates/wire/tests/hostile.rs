//! What was emitted is what is parsed, and bytes that nobody emitted neither panic nor cost more than they are long.

use proptest::prelude::*;
use weir_wire::control::{
    self, Client, Code, Entry, Fetch, Frames, MAX_FRAME_BYTES, Malformed, Omitted, Pacing, Parameters,
    Receiver, Refusal, Run, Sender, Server, Tuned, Version,
};
use weir_wire::packet::{
    self, Credit, Feedback, Header, Kind, MAX_CREDITS, MAX_NEEDS, MAX_NUMBER, MAX_PIECES, Piece, Probe,
    Report, Signal, Symbol, Welcome,
};

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Symbol),
        Just(Kind::Feedback),
        Just(Kind::Hello),
        Just(Kind::Welcome),
        Just(Kind::Signal),
        Just(Kind::Report),
        Just(Kind::Probe),
        Just(Kind::Piece),
    ]
}

fn credit() -> impl Strategy<Value = Credit> {
    any::<(u16, u32, u16)>().prop_map(|(request, block, want)| Credit { request, block, want })
}

fn run() -> impl Strategy<Value = Run> {
    any::<(u32, u32)>().prop_map(|(first, count)| Run { first, count })
}

fn fetch() -> impl Strategy<Value = Fetch> {
    let pacing = prop_oneof![Just(Pacing::Tfrc), any::<u16>().prop_map(|first| Pacing::Client { first })];
    let tuned = any::<(bool, u32, u32)>().prop_map(|(dealt, c_millionths, delta_millionths)| {
        Code::Tuned(Tuned { dealt, c_millionths, delta_millionths })
    });
    let code = prop_oneof![
        Just(Code::Dealt),
        Just(Code::Independent),
        Just(Code::Raptor),
        Just(Code::RaptorQ),
        tuned
    ];
    let version = prop::option::of(any::<[u8; 16]>().prop_map(Version));
    (any::<(u16, String, u16, u16)>(), code, pacing, prop::collection::vec(run(), 0..9), version).prop_map(
        |((request, path, symbol_bytes, block_symbols), code, pacing, runs, version)| Fetch {
            request,
            path,
            symbol_bytes,
            block_symbols,
            code,
            pacing,
            runs,
            version,
        },
    )
}

fn client() -> impl Strategy<Value = Client> {
    prop_oneof![
        any::<u8>().prop_map(|version| Client::Hello { version }),
        any::<(u16, String)>().prop_map(|(request, path)| Client::List { request, path }),
        fetch().prop_map(Client::Fetch),
        any::<(u16, u32)>().prop_map(|(request, block)| Client::Done { request, block }),
        any::<u16>().prop_map(|request| Client::Cancel { request }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    any::<(String, u64, i64, u32)>().prop_map(|(path, size, modified_ns, mode)| Entry {
        path,
        size,
        modified_ns,
        mode,
    })
}

fn omitted() -> impl Strategy<Value = Omitted> {
    any::<(String, String)>().prop_map(|(path, why)| Omitted { path, why })
}

fn server() -> impl Strategy<Value = Server> {
    let parameters = any::<(u16, u64, [u8; 16], i64, u32, u64, u64)>().prop_map(
        |(request, size, version, modified_ns, mode, seed, last_seed)| {
            let version = Version(version);
            Server::Parameters(Parameters { request, size, version, modified_ns, mode, seed, last_seed })
        },
    );
    let why = prop_oneof![Just(Refusal::NotFound), Just(Refusal::Changed), Just(Refusal::SymbolCap)];
    prop_oneof![
        any::<(u8, u32, [u8; 16])>().prop_map(|(version, connection, token)| Server::Welcome {
            version,
            connection,
            token
        }),
        (
            any::<u16>(),
            prop::collection::vec(entry(), 0..5),
            prop::collection::vec(omitted(), 0..5),
            any::<bool>()
        )
            .prop_map(|(request, entries, omitted, last)| Server::Listing {
                request,
                entries,
                omitted,
                last
            }),
        any::<(u16, String)>().prop_map(|(request, detail)| Server::Unlisted { request, detail }),
        parameters,
        any::<(u16, u32, [u8; 32])>().prop_map(|(request, block, hash)| Server::BlockHash {
            request,
            block,
            hash
        }),
        (any::<u16>(), why, any::<String>()).prop_map(|(request, why, detail)| Server::Refused {
            request,
            why,
            detail
        }),
        any::<String>().prop_map(|reason| Server::Bye { reason }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn headers_symbols_and_welcomes_come_back(
        kind in kind(), connection: u32, number in 0..=MAX_NUMBER,
        request: u16, block: u32, index: u16, sent_us: u32, rtt_us in 0..1_u32 << 24,
        payload in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let header = Header { kind, connection, number };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), packet::HEADER_BYTES);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));

        let symbol = Symbol { request, block, index, sent_us, rtt_us };
        let mut bytes = Vec::new();
        symbol.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), packet::SYMBOL_BYTES);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(Symbol::parse(&bytes), Ok((symbol, &payload[..])));

        let of = 2 + (index % u16::from(MAX_PIECES - 1)) as u8;
        let piece = Piece { symbol, piece: (block % u32::from(of)) as u8, of };
        let mut bytes = Vec::new();
        piece.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), packet::PIECE_BYTES);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(Piece::parse(&bytes), Ok((piece, &payload[..])));

        let probe = Probe { bytes: index };
        let mut bytes = Vec::new();
        probe.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), Probe::BYTES);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(Probe::parse(&bytes), Ok(probe));

        let welcome = Welcome { hello: number };
        let mut bytes = Vec::new();
        welcome.emit(&mut bytes);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(Welcome::parse(&bytes), Ok(welcome));
    }

    #[test]
    fn feedback_comes_back_but_for_credits_beyond_the_most(
        echo_us: u32, delay_us: u32, x_recv in prop::option::of(0..MAX_NUMBER), loss: u32,
        credits in prop::collection::vec(credit(), 0..80),
    ) {
        let loss_event_rate = f64::from(loss) / f64::from(u32::MAX);
        let (highest, received, ect, ce) = (4, 3, 2, 1);
        let feedback = Feedback { echo_us, delay_us, x_recv, loss_event_rate, highest, received, ect, ce, credits };
        let mut bytes = Vec::new();
        feedback.emit(&mut bytes);
        let parsed = Feedback::parse(&bytes).unwrap();
        prop_assert!((parsed.loss_event_rate - loss_event_rate).abs() < 1e-9);
        let most = feedback.credits.len().min(MAX_CREDITS);
        prop_assert_eq!(&parsed.credits, &feedback.credits[..most]);
        prop_assert_eq!(Feedback { loss_event_rate, credits: Vec::new(), ..parsed }, Feedback { credits: Vec::new(), ..feedback });
    }

    #[test]
    fn a_rate_that_is_none_is_bounded(x_recv: u64, loss_event_rate: f64, rtt_us: u32) {
        let mut bytes = Vec::new();
        Feedback { x_recv: Some(x_recv), loss_event_rate, ..Feedback::default() }.emit(&mut bytes);
        let parsed = Feedback::parse(&bytes).unwrap();
        prop_assert!((0.0..=1.0).contains(&parsed.loss_event_rate));
        prop_assert_eq!(parsed.x_recv, Some(x_recv.min(MAX_NUMBER - 1)));
        let mut bytes = Vec::new();
        Symbol { request: 0, block: 0, index: 0, sent_us: 0, rtt_us }.emit(&mut bytes);
        prop_assert_eq!(Symbol::parse(&bytes).unwrap().0.rtt_us, rtt_us.min((1 << 24) - 1));
    }

    #[test]
    fn arbitrary_datagrams_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        if let Ok(header) = Header::parse(&bytes) {
            let mut again = Vec::new();
            header.emit(&mut again);
            prop_assert_eq!(&again, &bytes[..packet::HEADER_BYTES]);
        }
        if let Ok((symbol, payload)) = Symbol::parse(&bytes) {
            let mut again = Vec::new();
            symbol.emit(&mut again);
            again.extend_from_slice(payload);
            prop_assert_eq!(&again, &bytes);
        }
        if let Ok(feedback) = Feedback::parse(&bytes) {
            prop_assert!(feedback.credits.len() <= MAX_CREDITS);
            prop_assert_eq!(bytes.len(), packet::FEEDBACK_BYTES + feedback.credits.len() * packet::CREDIT_BYTES);
        }
        let _ = Welcome::parse(&bytes);
        let _ = Probe::parse(&bytes);
        if let Ok((piece, payload)) = Piece::parse(&bytes) {
            prop_assert!(piece.piece < piece.of && piece.of <= MAX_PIECES);
            let mut again = Vec::new();
            piece.emit(&mut again);
            again.extend_from_slice(payload);
            prop_assert_eq!(&again, &bytes);
        }
        if let Ok(report) = Report::parse(&bytes) {
            prop_assert!(report.needs.len() <= MAX_NEEDS);
            let mut again = Vec::new();
            report.emit(&mut again);
            // But for the loss event rate, which is rounded.
            prop_assert_eq!(&again[..14], &bytes[..14]);
            prop_assert_eq!(&again[18..], &bytes[18..]);
        }
        if let Ok((signal, payload)) = Signal::parse(&bytes) {
            let mut again = Vec::new();
            signal.emit(&mut again);
            again.extend_from_slice(payload);
            prop_assert_eq!(&again, &bytes);
        }
    }

    /// However the stream is cut.
    #[test]
    fn messages_come_back(
        clients in prop::collection::vec(client(), 0..5),
        servers in prop::collection::vec(server(), 0..5),
        cut in 1_usize..50,
    ) {
        let mut bytes = Vec::new();
        clients.iter().for_each(|message| control::emit(message, &mut bytes).unwrap());
        prop_assert_eq!(read::<Client>(&bytes, cut).unwrap(), clients);
        bytes.clear();
        servers.iter().for_each(|message| control::emit(message, &mut bytes).unwrap());
        prop_assert_eq!(read::<Server>(&bytes, cut).unwrap(), servers);
    }

    #[test]
    fn arbitrary_streams_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 1_usize..50) {
        let _ = read::<Client>(&bytes, cut);
        let _ = read::<Server>(&bytes, cut);
        // And as the body of a frame of the right length.
        let mut frame = (bytes.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&bytes);
        let _ = read::<Client>(&frame, cut);
        let _ = read::<Server>(&frame, cut);
        let _ = read::<Sender>(&frame, cut);
        let _ = read::<Receiver>(&frame, cut);
    }
}

fn read<M: serde::de::DeserializeOwned>(bytes: &[u8], cut: usize) -> Result<Vec<M>, Malformed> {
    let (mut frames, mut messages) = (Frames::default(), Vec::new());
    for part in bytes.chunks(cut) {
        frames.extend(part);
        while let Some(message) = frames.message()? {
            messages.push(message);
        }
    }
    Ok(messages)
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_length_alone() {
    let mut frames = Frames::default();
    frames.extend(&(MAX_FRAME_BYTES as u32 + 1).to_be_bytes());
    assert!(matches!(frames.message::<Client>(), Err(Malformed::TooLong(_))));
    let long = Client::List { request: 0, path: "x".repeat(MAX_FRAME_BYTES) };
    assert!(matches!(control::emit(&long, &mut Vec::new()), Err(Malformed::TooLong(_))));
}

#[test]
fn a_list_that_claims_to_be_longer_than_its_frame_is_refused_without_taking_memory() {
    // A listing of 2^60 entries in 20 bytes. What it claims would not fit any machine.
    let mut body = vec![1, 0];
    body.extend_from_slice(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]);
    body.resize(20, 0);
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    assert!(read::<Server>(&frame, 64).is_err());
}

#[test]
fn two_messages_in_one_frame_are_refused() {
    let mut frame = Vec::new();
    control::emit(&Client::Cancel { request: 1 }, &mut frame).unwrap();
    frame[3] += 1;
    frame.push(0);
    assert!(matches!(read::<Client>(&frame, 64), Err(Malformed::Trailing(1))));
}

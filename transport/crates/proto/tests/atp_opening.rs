//! ATP's connections are opened under TLS over a path that loses datagrams, in one round trip, or none for who is known.

mod tls;

use std::collections::BTreeMap;
use std::time::Duration;

use tls::Tls;
use weir_proto::Time;
use weir_proto::atp::{CODE_TLS, Closed, Connection, ConnectionConfig, Event, KnownServer, Read, StreamId};

const MS: Duration = Duration::from_millis(1);
/// One way.
const DELAY: Duration = MS;
const NUMBER: u32 = 77;
const TOKEN: &[u8] = b"a token";

/// Says whether the nth datagram from the client (0) or the server (1) is lost; it may change it as well.
type Loses = Box<dyn FnMut(usize, usize, &mut Vec<u8>) -> bool>;

/// An end, and what has come to it.
struct End {
    connection: Connection,
    connected: Option<Time>,
    token: Option<Vec<u8>>,
    got: BTreeMap<StreamId, Vec<u8>>,
    /// When the first byte of a stream came, and when a stream had ended.
    first: Option<Time>,
    ended: Option<Time>,
    closed: Option<Closed>,
    sent: usize,
    sent_bytes: usize,
    came_bytes: usize,
    /// The server answers a stream that has ended with these.
    answer: Vec<u8>,
}

struct Path {
    now: Time,
    ends: [End; 2],
    way: Vec<(Time, usize, Vec<u8>)>,
    loses: Loses,
    /// What the server had sent and received when the client had shown where it is.
    before: Option<(usize, usize)>,
}

fn config() -> ConnectionConfig {
    ConnectionConfig::default()
}

fn early() -> ConnectionConfig {
    ConnectionConfig { early: true, ..config() }
}

impl Path {
    fn new(tls: &Tls, token: &[u8], configs: [ConnectionConfig; 2]) -> Self {
        Path::to(tls, "here", KnownServer { token: token.to_vec(), rtt: None }, configs)
    }

    fn to(tls: &Tls, name: &'static str, known: KnownServer, configs: [ConnectionConfig; 2]) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let (client, server) = tls.bare(name);
        let [of_client, of_server] = configs;
        let validated = known.token == TOKEN;
        let client = Connection::connect(now, client, NUMBER, known, of_client).unwrap();
        let server =
            Connection::accept(now, server, NUMBER, validated, Some(TOKEN.to_vec()), of_server).unwrap();
        let ends = [client, server].map(|connection| End {
            connection,
            connected: None,
            token: None,
            got: BTreeMap::new(),
            first: None,
            ended: None,
            closed: None,
            sent: 0,
            sent_bytes: 0,
            came_bytes: 0,
            answer: b"an answer".to_vec(),
        });
        Path { now, ends, way: Vec::new(), loses: Box::new(|_, _, _| false), before: None }
    }

    fn losing(self, loses: impl FnMut(usize, usize, &mut Vec<u8>) -> bool + 'static) -> Self {
        Path { loses: Box::new(loses), ..self }
    }

    /// The client sends bytes on a new stream.
    fn request(&mut self, bytes: &[u8]) -> StreamId {
        let client = &mut self.ends[0].connection;
        let stream = client.open().unwrap();
        assert_eq!(client.write(self.now, stream, bytes), Ok(bytes.len()));
        client.finish(stream).unwrap();
        stream
    }

    fn pump(&mut self) {
        for at in 0..2 {
            let end = &mut self.ends[at];
            while let Some(event) = end.connection.poll_event() {
                match event {
                    Event::Connected => assert_eq!(end.connected.replace(self.now), None),
                    Event::Token(token) => end.token = Some(token),
                    Event::Readable(stream) => read(end, self.now, stream, at == 1),
                    Event::Closed(why) => end.closed = Some(why),
                    Event::Opened(_) | Event::MayOpen | Event::Writable(_) | Event::Stopped(..) => {}
                }
            }
            let mut datagram = Vec::new();
            while end.connection.poll_transmit(self.now, &mut datagram).is_some() {
                assert!(datagram.len() <= 1200 && !datagram.is_empty());
                let n = end.sent;
                end.sent += 1;
                end.sent_bytes += datagram.len();
                if !(self.loses)(at, n, &mut datagram) {
                    self.way.push((self.now + DELAY, 1 - at, std::mem::take(&mut datagram)));
                }
                datagram.clear();
            }
        }
    }

    fn run_for(&mut self, duration: Duration) -> &mut Self {
        let until = self.now + duration;
        loop {
            self.pump();
            let arrival = self.way.iter().map(|(at, ..)| *at).min();
            let timers = self.ends.iter().filter_map(|end| end.connection.poll_timeout());
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= until) else {
                self.now = until;
                return self;
            };
            self.now = self.now.max(next);
            let (due, later) =
                std::mem::take(&mut self.way).into_iter().partition(|(at, ..)| *at <= self.now);
            self.way = later;
            let due: Vec<(Time, usize, Vec<u8>)> = due;
            for (_, to, mut datagram) in due {
                let end = &mut self.ends[to];
                end.came_bytes += datagram.len();
                end.connection.handle_datagram(self.now, Default::default(), &mut datagram);
                if to == 1 && datagram[0] & 15 != 10 && self.before.is_none() {
                    self.before = Some((self.ends[1].sent_bytes, self.ends[1].came_bytes));
                }
            }
            for end in &mut self.ends {
                if end.connection.poll_timeout().is_some_and(|at| at <= self.now) {
                    end.connection.handle_timeout(self.now);
                }
            }
        }
    }

    fn since_begin(&self, at: Option<Time>) -> Duration {
        at.expect("it has happened").since(Time::from_nanos(1_000_000_000))
    }
}

fn read(end: &mut End, now: Time, stream: StreamId, answers: bool) {
    let mut buffer = [0; 1000];
    loop {
        match end.connection.read(now, stream, &mut buffer) {
            Read::Bytes(count) => {
                end.first.get_or_insert(now);
                end.got.entry(stream).or_default().extend_from_slice(&buffer[..count]);
            }
            Read::End => break,
            _ => return,
        }
    }
    end.ended = Some(now);
    if answers {
        let answer = end.answer.clone();
        assert_eq!(end.connection.write(now, stream, &answer), Ok(answer.len()));
        end.connection.finish(stream).unwrap();
    }
}

#[test]
fn a_stranger_is_served_after_one_round_trip() {
    let mut path = Path::new(&Tls::new(), b"", [config(), config()]);
    let request = vec![7; 8_500];
    let stream = path.request(&request);
    path.run_for(100 * MS);
    assert_eq!(path.ends[1].got[&stream], request);
    assert_eq!(path.ends[0].got[&stream], b"an answer");
    assert_eq!(path.since_begin(path.ends[0].connected), 2 * DELAY);
    assert_eq!(path.since_begin(path.ends[1].ended), 3 * DELAY);
    assert_eq!(path.since_begin(path.ends[0].ended), 4 * DELAY);
    assert_eq!(path.ends[0].token.as_deref(), Some(TOKEN));
    assert_eq!(path.ends[0].connection.rtt(), Some(2 * DELAY));
    let counters = path.ends.each_ref().map(|end| end.connection.counters());
    assert!(counters.iter().all(|counters| counters.timeouts + counters.requests == 0), "{counters:?}");
    // Both come to rest.
    let sent = path.ends.each_ref().map(|end| end.sent);
    path.run_for(3_000 * MS);
    assert_eq!(path.ends.each_ref().map(|end| end.sent), sent);
}

#[test]
fn settings_that_cannot_be_do_no_harm() {
    let config = || ConnectionConfig { datagram_bytes: 1, max_streams: 0, ..config() };
    let mut path = Path::new(&Tls::new(), &[7; 300], [config(), config()]);
    let stream = path.request(&[7; 8_500]);
    path.run_for(100 * MS);
    assert_eq!(path.ends[1].got[&stream], [7; 8_500]);
}

#[test]
fn any_one_loss_costs_no_timeout() {
    let all = {
        let mut path = Path::new(&Tls::new(), b"", [config(), config()]);
        path.request(&[7; 8_500]);
        path.run_for(100 * MS);
        path.ends.each_ref().map(|end| end.sent)
    };
    for (side, count) in all.into_iter().enumerate() {
        for lost in 0..count {
            let mut path = Path::new(&Tls::new(), b"", [config(), config()])
                .losing(move |from, n, _| (from, n) == (side, lost));
            let stream = path.request(&[7; 8_500]);
            path.run_for(100 * MS);
            assert_eq!(path.ends[1].got[&stream].len(), 8_500);
            let took = path.since_begin(path.ends[1].ended);
            assert!(took <= 3 * DELAY, "datagram {lost} of {side}: {took:?}");
            path.run_for(2_000 * MS);
            let sent = path.ends.each_ref().map(|end| end.sent);
            path.run_for(3_000 * MS);
            assert_eq!(path.ends.each_ref().map(|end| end.sent), sent, "datagram {lost} of {side}: no rest");
        }
    }
}

#[test]
fn a_server_that_has_said_all_that_it_may_is_let_say_more_whatever_is_lost() {
    for first in 0..8 {
        for second in first..8 {
            // A new one, or a ticket would stand for the certificate.
            let tls = Tls::with_a_long_certificate();
            let lost = move |from, n, _: &mut Vec<u8>| from == 0 && (n == first || n == second);
            let mut path = Path::new(&tls, b"", [config(), config()]).losing(lost);
            let stream = path.request(b"a request");
            path.run_for(500 * MS);
            assert_eq!(
                path.ends[1].got.get(&stream).map(Vec::as_slice),
                Some(&b"a request"[..]),
                "{first}, {second}"
            );
        }
    }
}

#[test]
fn a_hello_is_sent_again_the_sooner_the_nearer_the_server_is_known_to_be() {
    for (rtt, waits) in [(None, 20 * MS), (Some(MS / 2), 5 * MS), (Some(100 * MS), 300 * MS)] {
        let known = KnownServer { token: TOKEN.to_vec(), rtt };
        let path = Path::to(&Tls::new(), "here", known, [config(), config()]);
        let mut path = path.losing(|end, n, _| end == 0 && n < 2);
        path.run_for(1_000 * MS);
        assert_eq!(path.since_begin(path.ends[0].connected), waits + 2 * DELAY, "{rtt:?}");
    }
}

#[test]
fn whatever_is_lost_or_changed_it_is_opened_in_the_end() {
    for seed in 0..150_u64 {
        let mut state = seed + 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut path = Path::new(&Tls::new(), b"", [config(), config()]).losing(move |_, _, datagram| {
            if random() < 0.1 {
                let at = (random() * datagram.len() as f64) as usize;
                // Not what is in clear: whoever can change that can prevent a connection.
                if datagram[0] & 15 != 10 {
                    datagram[at] ^= 1;
                }
            }
            random() < 0.3
        });
        let request: Vec<u8> = (0..30_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        let stream = path.request(&request);
        path.run_for(9_000 * MS);
        let closed = path.ends.each_ref().map(|end| end.closed.clone());
        assert_eq!(closed, [None, None], "{seed}");
        assert_eq!(path.ends[1].got.get(&stream), Some(&request), "{seed}");
        assert_eq!(path.ends[0].got.get(&stream).map(Vec::as_slice), Some(&b"an answer"[..]), "{seed}");
        path.loses = Box::new(|_, _, _| false);
        path.run_for(5_000 * MS);
        let sent = path.ends.each_ref().map(|end| end.sent);
        path.run_for(3_000 * MS);
        assert_eq!(path.ends.each_ref().map(|end| end.sent), sent, "{seed}: no rest");
    }
}

#[test]
fn a_server_takes_nothing_before_the_client_has_shown_that_it_has_the_keys() {
    let finished = |datagram: &[u8]| datagram[0] & 15 == 11;
    let mut path = Path::new(&Tls::new(), b"", [config(), config()])
        .losing(move |from, _, datagram| from == 0 && finished(datagram));
    let stream = path.request(b"a request");
    path.run_for(3_000 * MS);
    assert!(path.ends[0].connection.is_connected() && path.ends[0].connection.counters().sent > 0);
    assert!(path.ends[1].got.is_empty() && !path.ends[1].connection.is_connected());
    path.loses = Box::new(|_, _, _| false);
    path.run_for(2_000 * MS);
    assert_eq!(path.ends[1].got[&stream], b"a request");
}

#[test]
fn who_is_known_is_served_at_once() {
    let tls = Tls::early();
    Path::new(&tls, b"", [early(), early()]).run_for(100 * MS);
    let mut path = Path::new(&tls, TOKEN, [early(), early()]);
    let request = vec![7; 8_500];
    let stream = path.request(&request);
    path.run_for(DELAY);
    path.pump();
    assert_eq!(path.ends[1].got[&stream], request, "half a round trip");
    assert!(!path.ends[1].connection.is_connected(), "and nobody knows yet whether it is a copy");
    path.run_for(100 * MS);
    assert_eq!(path.ends[0].got[&stream], b"an answer");
    assert_eq!(path.since_begin(path.ends[0].ended), 2 * DELAY);
    assert!(path.ends.iter().all(|end| end.connection.is_connected()));
}

#[test]
fn nothing_is_sent_early_unless_it_is_asked_for() {
    let tls = Tls::early();
    Path::new(&tls, b"", [config(), config()]).run_for(100 * MS);
    for configs in [[config(), early()], [early(), config()]] {
        let mut path = Path::new(&tls, TOKEN, configs);
        let stream = path.request(&[7; 8_500]);
        path.run_for(100 * MS);
        assert_eq!(path.ends[1].got[&stream], [7; 8_500]);
        assert!(path.since_begin(path.ends[1].first) >= 3 * DELAY);
        assert!(path.since_begin(path.ends[1].ended) < 20 * MS);
    }
}

#[test]
fn what_was_sent_early_in_vain_is_sent_again() {
    let mut tls = Tls::early();
    Path::new(&tls, b"", [early(), early()]).run_for(100 * MS);
    tls.forget();
    let mut path = Path::new(&tls, TOKEN, [early(), early()]);
    let stream = path.request(&[7; 8_500]);
    path.run_for(100 * MS);
    assert_eq!(path.ends[1].got[&stream], [7; 8_500]);
    assert_eq!(path.since_begin(path.ends[1].ended), 3 * DELAY);
    let window = path.ends[0].connection.window_bytes();
    assert!(window >= 12_000, "it was no congestion: {window}");
}

#[test]
fn a_server_that_is_not_who_it_should_be_is_refused_in_words() {
    let mut path = Path::to(&Tls::new(), "elsewhere", KnownServer::default(), [config(), config()]);
    path.request(b"a secret");
    path.run_for(500 * MS);
    let Some(Closed::Tls(why)) = &path.ends[0].closed else { panic!("{:?}", path.ends[0].closed) };
    assert!(why.contains("its certificate is for another name"), "{why}");
    let Some(Closed::Refused { code, .. }) = path.ends[1].closed else { panic!("{:?}", path.ends[1].closed) };
    assert_eq!(code, CODE_TLS);
    assert!(path.ends[1].got.is_empty());
}

#[test]
fn a_server_sends_no_more_than_three_times_what_came_to_whom_has_not_shown_where_it_is() {
    let mut path = Path::new(&Tls::new(), b"", [config(), config()]).losing(|from, n, _| from == 1 || n > 0);
    path.run_for(9_000 * MS);
    let server = &path.ends[1];
    assert!(server.came_bytes > 0 && server.sent_bytes > server.came_bytes);
    assert!(server.sent_bytes <= 3 * server.came_bytes, "{} for {}", server.sent_bytes, server.came_bytes);
    path.run_for(2_000 * MS);
    assert_eq!(path.ends[1].closed, Some(Closed::Unanswered(Duration::from_secs(10))));
    // And early data does not change that.
    let tls = Tls::early();
    Path::new(&tls, b"", [early(), early()]).run_for(100 * MS);
    let mut path = Path::new(&tls, b"", [early(), early()]).losing(|from, n, _| from == 1 || n > 3);
    path.ends[1].answer = vec![1; 60_000];
    path.request(b"a short request");
    path.run_for(9_000 * MS);
    let server = &path.ends[1];
    assert!(!server.got.is_empty());
    assert!(server.sent_bytes <= 3 * server.came_bytes, "{} for {}", server.sent_bytes, server.came_bytes);
}

#[test]
fn a_connection_that_is_open_believes_nothing_in_clear() {
    let mut path = Path::new(&Tls::new(), b"", [config(), config()]);
    path.run_for(100 * MS);
    for kind in 0..16_u8 {
        for length in [11, 12, 20, 100, 1200] {
            let mut forged = vec![0; length];
            forged[0] = 1 << 4 | kind;
            forged[1..5].copy_from_slice(&NUMBER.to_be_bytes());
            for end in &mut path.ends {
                end.connection.handle_datagram(path.now, Default::default(), &mut forged.clone());
            }
        }
    }
    let stream = path.request(b"a request");
    path.run_for(100 * MS);
    assert_eq!(path.ends[1].got[&stream], b"a request");
    assert!(path.ends.iter().all(|end| end.closed.is_none()));
}

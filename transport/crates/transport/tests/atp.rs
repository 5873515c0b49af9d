//! ATP over real sockets: many threads and streams, ends of all kinds.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use weir_transport::atp::{Connection, ConnectionConfig, Endpoint, Stream};
use weir_transport::{Error, Fingerprint, Identity, Limits};

/// A server that sends back what each stream brings, once it has ended.
fn echo(address: &str, config: ConnectionConfig) -> (Endpoint, SocketAddr, Fingerprint) {
    let server = Endpoint::builder().config(config).listen(address).unwrap();
    let (at, fingerprint) = (server.address(), server.fingerprint().unwrap());
    let accepting = server.clone();
    thread::spawn(move || {
        while let Some(connection) = accepting.accept() {
            thread::spawn(move || {
                while let Ok(mut stream) = connection.accept_stream() {
                    thread::spawn(move || {
                        let mut bytes = Vec::new();
                        if stream.read_to_end(&mut bytes).is_ok() {
                            stream.write_all(&bytes).unwrap();
                            stream.finish().unwrap();
                        }
                    });
                }
            });
        }
    });
    (server, at, fingerprint)
}

fn ask(connection: &Connection, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connection.open().unwrap();
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 31 + n / 251) as u8).collect()
}

#[test]
fn streams_of_any_length_come_back_over_both_kinds_of_addresses() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (_server, at, fingerprint) = echo(address, ConnectionConfig::default());
        let client = Endpoint::builder().trust(fingerprint).client().unwrap();
        let connection = client.connect(&at.to_string()).unwrap();
        assert_eq!((connection.remote(), connection.peer()), (at, Some(fingerprint)));
        for count in [0, 1, 1000, 100_000, 10_000_000] {
            assert!(ask(&connection, &bytes(count)) == bytes(count), "{address}: {count}");
        }
        assert!(connection.counters().sent > 5_000 && connection.rtt().is_some());
    }
}

#[test]
fn many_threads_share_a_connection() {
    let (_server, at, fingerprint) = echo("127.0.0.1:0", ConnectionConfig::default());
    let client = Endpoint::builder().trust(fingerprint).client().unwrap();
    let connection = client.connect(&at.to_string()).unwrap();
    thread::scope(|scope| {
        for n in 0..32 {
            let connection = &connection;
            scope.spawn(move || {
                for m in 0..50 {
                    let sent = bytes(n * 100 + m);
                    assert!(ask(connection, &sent) == sent);
                }
            });
        }
    });
}

/// A server's end of a connection and a client's, and a stream of theirs of which a byte has come.
fn pair() -> (Endpoint, Endpoint, (Connection, Stream), (Connection, Stream)) {
    let server = Endpoint::builder().listen("127.0.0.1:0").unwrap();
    let client = Endpoint::builder().trust(server.fingerprint().unwrap()).client().unwrap();
    let to_server = client.connect(&server.address().to_string()).unwrap();
    let mut out = to_server.open().unwrap();
    out.write_all(b"!").unwrap();
    let to_client = server.accept().unwrap();
    let mut came = to_client.accept_stream().unwrap();
    came.read_exact(&mut [0]).unwrap();
    (server, client, (to_server, out), (to_client, came))
}

/// A thread reads what does not come: it receives for all the others.
fn at_the_socket(connection: &Connection) -> thread::JoinHandle<std::io::Result<usize>> {
    let mut silent = connection.open().unwrap();
    let reading = thread::spawn(move || silent.read(&mut [0]));
    thread::sleep(Duration::from_millis(50));
    reading
}

#[test]
fn what_comes_for_others_while_a_thread_waits_at_the_socket_is_theirs_at_once() {
    let (_server, at, fingerprint) = echo("127.0.0.1:0", ConnectionConfig::default());
    let client = Endpoint::builder().trust(fingerprint).client().unwrap();
    let [connection, other] = [(); 2].map(|()| client.connect(&at.to_string()).unwrap());
    let reading = at_the_socket(&connection);
    let begun = Instant::now();
    for count in [1, 100_000] {
        for connection in [&connection, &other] {
            assert!(ask(connection, &bytes(count)) == bytes(count));
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // And it is itself woken by what other threads do.
    connection.close(7, "enough");
    let error = reading.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
    assert!(ask(&other, b"the socket's thread receives again") == b"the socket's thread receives again");
}

#[test]
fn a_thread_whose_time_is_over_at_the_socket_leaves_it_to_others() {
    let (_server, at, fingerprint) = echo("127.0.0.1:0", ConnectionConfig::default());
    let client = Endpoint::builder().trust(fingerprint).client().unwrap();
    let connection = client.connect(&at.to_string()).unwrap();
    for _ in 0..5 {
        let mut silent = connection.open().unwrap();
        silent.set_timeout(Some(Duration::from_millis(20)));
        let begun = Instant::now();
        assert_eq!(silent.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!((20..5_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        assert!(ask(&connection, &bytes(50_000)) == bytes(50_000));
    }
}

#[test]
fn a_stream_that_is_dropped_is_not_taken_for_one_that_ends() {
    let (_server, _client, (to_server, mut out), (_to_client, mut came)) = pair();
    out.write_all(b"half of it").unwrap();
    drop(out);
    let kind = came.read_to_end(&mut Vec::new()).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::ConnectionReset);
    // And whoever still writes to it is told.
    let sent = loop {
        if let Err(error) = came.write_all(&[7; 1000]) {
            break error;
        }
    };
    assert_eq!(sent.kind(), ErrorKind::BrokenPipe, "{sent}");
    assert!(to_server.open().is_ok(), "the connection goes on");
}

#[test]
fn what_was_written_before_all_is_dropped_arrives() {
    let (_server, client, (to_server, mut out), (_to_client, mut came)) = pair();
    out.write_all(&bytes(500_000)).unwrap();
    out.finish().unwrap();
    drop((out, to_server, client));
    let mut got = Vec::new();
    came.read_to_end(&mut got).unwrap();
    assert!(got == bytes(500_000));
}

#[test]
fn whoever_closes_says_why_to_all_that_wait() {
    let (_server, _client, (to_server, mut out), (to_client, mut came)) = pair();
    thread::scope(|scope| {
        let reading = scope.spawn(|| came.read(&mut [0]).unwrap_err());
        let opening = scope.spawn(|| to_client.accept_stream().err().unwrap());
        thread::sleep(Duration::from_millis(20));
        to_server.close(7, "had enough\u{1b}[31m");
        for error in [reading.join().unwrap(), opening.join().unwrap()] {
            assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
            assert!(error.to_string().contains("had enough\\u{1b}[31m (7)"), "{error}");
        }
    });
    assert_eq!(out.write(b"?").unwrap_err().kind(), ErrorKind::NotConnected);
    assert!(to_client.closed().to_string().contains("had enough"));
}

#[test]
fn a_reader_that_stands_still_holds_its_writer_back_and_nobody_else() {
    let (_server, _client, (to_server, mut out), (to_client, mut came)) = pair();
    out.set_timeout(Some(Duration::from_millis(300)));
    let mut written = 0;
    let stopped = loop {
        match out.write(&[7; 10_000]) {
            Ok(count) => written += count,
            Err(error) => break error,
        }
    };
    assert_eq!(stopped.kind(), ErrorKind::TimedOut);
    assert!((1 << 19..3 << 20).contains(&written), "{written}");
    let mut other = to_server.open().unwrap();
    other.write_all(b"?").unwrap();
    to_client.accept_stream().unwrap().read_exact(&mut [0]).unwrap();
    let reading = thread::spawn(move || {
        let mut got = Vec::new();
        came.read_to_end(&mut got).map(|_| got.len())
    });
    out.set_timeout(None);
    out.write_all(b"the rest").unwrap();
    out.finish().unwrap();
    assert_eq!(reading.join().unwrap().unwrap(), written + 8);
}

#[test]
fn strangers_are_not_believed_on_either_side() {
    let (_server, at, _) = echo("127.0.0.1:0", ConnectionConfig::default());
    let other = Identity::generate().unwrap().fingerprint();
    let client = Endpoint::builder().trust(other).client().unwrap();
    let Err(Error::Lost { peer, why }) = client.connect(&at.to_string()) else { panic!() };
    assert!(peer == at.to_string() && why.contains("certificate"), "{why}");

    let known = Identity::generate().unwrap();
    let server = Endpoint::builder().clients(known.fingerprint()).listen("127.0.0.1:0").unwrap();
    let (at, fingerprint) = (server.address().to_string(), server.fingerprint().unwrap());
    let client = Endpoint::builder().trust(fingerprint).identity(known).client().unwrap();
    client.connect(&at).unwrap();
    let stranger = Endpoint::builder().trust(fingerprint).client().unwrap();
    let connected = stranger.connect(&at);
    // A client is through before the server has looked at its certificate.
    let why = connected.map(|connection| connection.closed().to_string()).unwrap_or_else(|e| e.to_string());
    assert!(why.contains("ertificate"), "{why}");
}

#[test]
fn a_server_that_is_not_there_is_told_of_in_time() {
    let config = ConnectionConfig { opening: Duration::from_millis(300), ..ConnectionConfig::default() };
    let client = Endpoint::builder()
        .trust(Identity::generate().unwrap().fingerprint())
        .config(config)
        .client()
        .unwrap();
    let began = Instant::now();
    let error = client.connect("127.0.0.1:9").err().unwrap();
    assert!(error.to_string().contains("no connection within 0.3 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(8), "not the default of 10 s");
    let error = Endpoint::builder().client().unwrap().connect("127.0.0.1:9").err().unwrap();
    assert!(error.to_string().contains("say which server is meant"), "{error}");
}

#[test]
fn a_server_that_is_known_hears_a_request_with_the_first_datagram() {
    let early = ConnectionConfig { early: true, ..ConnectionConfig::default() };
    let (_server, at, fingerprint) = echo("127.0.0.1:0", early.clone());
    let client = Endpoint::builder().trust(fingerprint).config(early).client().unwrap();
    let first = client.connect(&at.to_string()).unwrap();
    assert_eq!(ask(&first, b"first"), b"first");
    drop(first);
    for n in 0..10_u8 {
        let connection = client.begin(at, "127.0.0.1").unwrap();
        assert_eq!(ask(&connection, &[n]), [n]);
        connection.connected().unwrap();
    }
}

#[test]
fn an_endpoint_says_goodbye_and_leaves_its_address() {
    let (server, at, fingerprint) = echo("127.0.0.1:0", ConnectionConfig::default());
    let client = Endpoint::builder().trust(fingerprint).client().unwrap();
    let connection = client.connect(&at.to_string()).unwrap();
    let began = Instant::now();
    server.shut_down(3, "maintenance").unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(connection.closed().to_string().contains("maintenance (3)"));
    drop(server);
    let limits = Limits { connections: 1, ..Limits::default() };
    let again = Endpoint::builder().limits(limits).listen(&at.to_string());
    // Its thread may still hold the socket for a moment.
    let until = Instant::now() + Duration::from_secs(20);
    let mut again = again;
    while again.is_err() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
        again = Endpoint::builder().listen(&at.to_string());
    }
    again.unwrap();
}

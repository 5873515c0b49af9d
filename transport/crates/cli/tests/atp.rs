//! `fountain atp-proxy` between programs of TCP.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, fountain};
use serde_json::Value;

/// A fingerprint that nobody has.
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A proxy, until it is dropped.
struct Proxy {
    process: Child,
    said: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    /// Where it listens, without what is spoken there.
    address: String,
    fingerprint: Option<String>,
}

impl Proxy {
    fn start(state: &Folder, from: &str, to: &str, options: &[&str]) -> Self {
        let mut command = fountain(&["atp-proxy", from, to, "--json"]);
        command.args(options).env("XDG_STATE_HOME", state.path());
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = std::io::BufRead::lines(std::io::BufReader::new(process.stdout.take().unwrap()));
        let mut proxy = Proxy { process, said, address: String::new(), fingerprint: None };
        let told = proxy.next("listening");
        proxy.address = told["from"].as_str().unwrap().split_once("://").unwrap().1.to_owned();
        proxy.fingerprint = told["fingerprint"].as_str().map(str::to_owned);
        proxy
    }

    /// Its next message of this kind.
    fn next(&mut self, event: &str) -> Value {
        loop {
            let line = self.said.next().expect("it has ended").unwrap();
            let told: Value = serde_json::from_str(&line).unwrap();
            if told["event"] == event {
                return told;
            }
        }
    }

    fn stop(mut self) -> Value {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let told = self.next("stopped");
        assert!(self.process.wait().unwrap().success());
        told
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server of TCP that does this with each connection.
fn serve(does: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let does = does.clone();
            thread::spawn(move || does(stream.unwrap()));
        }
    });
    address
}

/// Sends back what comes, up to its end.
fn echo(mut stream: TcpStream) {
    let mut read = stream.try_clone().unwrap();
    std::io::copy(&mut read, &mut stream).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
}

/// A pair of proxies before a server.
fn proxies(state: &Folder, server: &str) -> (Proxy, Proxy) {
    let far = Proxy::start(state, "atp://127.0.0.1:0", &format!("tcp://{server}"), &[]);
    let trust = ["--fingerprint", far.fingerprint.as_ref().unwrap()];
    let near = Proxy::start(state, "tcp://127.0.0.1:0", &format!("atp://{}", far.address), &trust);
    (near, far)
}

#[test]
fn connections_are_carried_both_ways_to_their_ends() {
    let state = Folder::new();
    let (near, far) = proxies(&state, &serve(echo));
    let at = near.address.clone();
    let clients = (0..20).map(|n| {
        let at = at.clone();
        thread::spawn(move || {
            let mut stream = TcpStream::connect(at).unwrap();
            let sent: Vec<u8> = (0..200_000 + n).map(|byte| (byte * 7 + n) as u8).collect();
            let mut out = stream.try_clone().unwrap();
            let copy = sent.clone();
            let writing = thread::spawn(move || {
                out.write_all(&copy).unwrap();
                out.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            assert!(got == sent);
            writing.join().unwrap();
        })
    });
    clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().unwrap());
    let (near, far) = (near.stop(), far.stop());
    let bytes: u64 = (0..20).map(|n| 200_000 + n).sum();
    for told in [&near, &far] {
        assert_eq!((&told["opened"], &told["failed"]), (&20.into(), &0.into()), "{told}");
        assert_eq!(
            (told["to_atp_bytes"].as_u64(), told["from_atp_bytes"].as_u64()),
            (Some(bytes), Some(bytes))
        );
    }
    assert!(near["atp"]["packets"].as_u64().unwrap() > 1000);
}

#[test]
fn who_does_not_read_holds_nobody_else_back() {
    let state = Folder::new();
    let talks = serve(|mut stream| while stream.write_all(&[7; 10_000]).is_ok() {});
    let (near, _far) = proxies(&state, &talks);
    let silent: Vec<_> = (0..10).map(|_| TcpStream::connect(&near.address).unwrap()).collect();
    thread::sleep(Duration::from_millis(500));
    let mut reads = TcpStream::connect(&near.address).unwrap();
    reads.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    reads.read_exact(&mut vec![0; 20_000_000]).unwrap();
    drop(silent);
}

#[test]
fn a_connection_that_breaks_is_reset_on_the_other_side_and_not_ended() {
    let state = Folder::new();
    let breaks = serve(|mut stream| {
        stream.write_all(b"half of it").unwrap();
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    let (near, _far) = proxies(&state, &breaks);
    let mut stream = TcpStream::connect(&near.address).unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_server_that_is_not_there_is_told_of() {
    let state = Folder::new();
    let far = Proxy::start(&state, "atp://127.0.0.1:0", "tcp://127.0.0.1:9", &["--retry", "0.2"]);
    let trust = ["--fingerprint", far.fingerprint.as_ref().unwrap()];
    let near = Proxy::start(&state, "tcp://127.0.0.1:0", &format!("atp://{}", far.address), &trust);
    let mut stream = TcpStream::connect(&near.address).unwrap();
    assert!(stream.read_to_end(&mut Vec::new()).is_err());
    let mut far = far;
    let told = far.next("closed");
    assert!(told["error"].as_str().unwrap().contains("127.0.0.1:9 cannot be reached"), "{told}");
}

#[test]
fn a_proxy_that_comes_back_is_found_again() {
    let state = Folder::new();
    let server = serve(echo);
    let (near, far) = proxies(&state, &server);
    let ask = || {
        let mut stream = TcpStream::connect(&near.address).unwrap();
        stream.write_all(b"hello").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = String::new();
        stream.read_to_string(&mut got).map(|_| got)
    };
    assert_eq!(ask().unwrap(), "hello");
    let address = far.address.clone();
    far.stop();
    let _far = Proxy::start(&state, &format!("atp://{address}"), &format!("tcp://{server}"), &[]);
    let until = Instant::now() + Duration::from_secs(30);
    while ask().ok().as_deref() != Some("hello") {
        assert!(Instant::now() < until);
    }
    assert!(near.stop()["reconnected"].as_u64().unwrap() > 0);
}

#[test]
fn nobody_waits_for_a_proxy_that_is_gone_longer_than_it_would_alone() {
    let state = Folder::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("atp://{}", silent.local_addr().unwrap());
    let near = Proxy::start(&state, "tcp://127.0.0.1:0", &to, &["--fingerprint", ZEROS, "--retry", "1"]);
    let began = Instant::now();
    let waiting: Vec<_> = (0..8).map(|_| TcpStream::connect(&near.address).unwrap()).collect();
    for mut stream in waiting {
        assert!(stream.read_to_end(&mut Vec::new()).is_err());
    }
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[test]
fn the_connection_of_two_proxies_is_kept_while_nobody_uses_it() {
    let state = Folder::new();
    let far =
        Proxy::start(&state, "atp://127.0.0.1:0", &format!("tcp://{}", serve(echo)), &["--silence", "0.6"]);
    let trust = ["--fingerprint", far.fingerprint.as_ref().unwrap(), "--silence", "0.6"];
    let mut near = Proxy::start(&state, "tcp://127.0.0.1:0", &format!("atp://{}", far.address), &trust);
    near.next("connected");
    thread::sleep(Duration::from_secs(2));
    let mut stream = TcpStream::connect(&near.address).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!((got.as_str(), &near.stop()["reconnected"]), ("hello", &Value::from(0)));
}

#[test]
fn strangers_and_nonsense_are_refused() {
    let state = Folder::new();
    let refused = |args: &[&str]| {
        let mut command = fountain(&["atp-proxy"]);
        let output =
            command.args(args).env("XDG_STATE_HOME", state.path()).stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        refused(&["tcp://127.0.0.1:0", "tcp://127.0.0.1:9"]).contains("one end is TCP and the other one ATP")
    );
    assert!(
        refused(&["127.0.0.1:0", "atp://127.0.0.1:9"]).contains("write tcp://HOST:PORT or atp://HOST:PORT")
    );
    let far = Proxy::start(&state, "atp://127.0.0.1:0", "tcp://127.0.0.1:9", &[]);
    let told = refused(&["tcp://127.0.0.1:0", &format!("atp://{}", far.address)]);
    assert!(told.contains("is not known"), "{told}");
}

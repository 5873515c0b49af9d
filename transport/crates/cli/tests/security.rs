//! Who is let in, who is believed, and what peers that mean no good can do to a server and to a client.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, Server, fetch, run};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use wire::control::{self, Client, Entry, Frames};
use wire::packet::{Header, Kind, Welcome};

/// An authority, and files of what it vouches for.
struct Authority {
    folder: Folder,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Folder::new();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { folder, issuer }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// A certificate for `name`; its file and that of its key.
    fn vouch(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (certificate_file, key_file) = (format!("{name}.pem"), format!("{name}.key"));
        fs::write(self.folder.path().join(&certificate_file), certificate.pem()).unwrap();
        fs::write(self.folder.path().join(&key_file), key.serialize_pem()).unwrap();
        (self.file(&certificate_file), self.file(&key_file))
    }
}

fn served() -> Folder {
    let folder = Folder::new();
    folder.put("x", 100_000);
    folder
}

#[test]
fn a_server_is_believed_by_its_fingerprint_and_by_no_other() {
    let served = served();
    let server = Server::start(served.path(), &[]);
    let into = Folder::new();
    let source = server.source("x");
    let wrong = "00".repeat(32);
    let said = run(fetch(&into, &["--retry", "0", "--fingerprint", &wrong, &source]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("certificate"), "{}", said.errors);
    // Who does not speak TLS gets nothing, and harms nobody.
    let said = run(fetch(&into, &["--retry", "0", "--silence", "2", "--insecure", &source]));
    assert_eq!(said.status, Some(1), "{}", said.errors);
    assert!(into.files().is_empty());
    let fingerprint = server.fingerprint.clone().unwrap();
    run(fetch(&into, &["--fingerprint", &fingerprint, &source])).succeeded();
}

#[test]
fn a_mistake_with_tls_says_what_to_do() {
    let served = served();
    let secure = Server::start(served.path(), &[]);
    let clear = Server::start(served.path(), &["--insecure"]);
    let (ours, into) = (Authority::new(), Folder::new());
    let (wrong, ca) = ("00".repeat(32), ours.file("ca.pem"));
    for (options, server, told) in [
        (
            vec!["--insecure"],
            &secure,
            "the other side speaks TLS, and this side does not: give its --fingerprint or --ca",
        ),
        (
            vec!["--fingerprint", &wrong],
            &secure,
            "another fingerprint than those that are trusted: give the --fingerprint that it prints",
        ),
        (vec!["--fingerprint", &wrong], &clear, "if it is --insecure, be so here, too"),
        (vec!["--ca", &ca], &secure, "name the authority that issued it with --ca"),
    ] {
        let mut command = fetch(&into, &["--retry", "0", "--silence", "2", &server.source("x")]);
        let said = run(command.args(&options));
        assert_eq!(said.status, Some(1), "{options:?}");
        assert!(said.errors.contains(told), "{options:?}: {}", said.errors);
    }
}

#[test]
fn an_authority_vouches_for_servers_and_clients() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let served = served();
    let (certificate, key) = ours.vouch("localhost");
    let ca = ours.file("ca.pem");
    let server = Server::start(served.path(), &["--cert", &certificate, "--key", &key, "--client-ca", &ca]);
    let port = server.address.rsplit_once(':').unwrap().1;
    let source = format!("localhost:{port}/x");
    let into = Folder::new();
    let attempt = |ca: &str, identity: Option<(String, String)>, source: &str| {
        let mut command = fetch(&into, &["--retry", "0", "--ca", ca, source]);
        if let Some((certificate, key)) = identity {
            command.args(["--cert", &certificate, "--key", &key]);
        }
        run(command)
    };
    let refused = |said: common::Said| {
        assert_eq!(said.status, Some(1), "{}", said.errors);
        assert!(into.files().is_empty());
    };
    // Another authority than the server's; no certificate of one's own; one that another authority made; another name.
    refused(attempt(&theirs.file("ca.pem"), Some(ours.vouch("me")), &source));
    refused(attempt(&ca, None, &source));
    refused(attempt(&ca, Some(theirs.vouch("me")), &source));
    refused(attempt(&ca, Some(ours.vouch("me")), &server.source("x")));
    attempt(&ca, Some(ours.vouch("me")), &source).succeeded();
}

/// A control channel in clear to a server that is told nothing else.
struct Raw {
    stream: TcpStream,
    frames: Frames,
}

impl Raw {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        Raw { stream, frames: Frames::default() }
    }

    fn say(&mut self, message: &Client) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        control::emit(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes)
    }

    fn hear(&mut self) -> Option<control::Server> {
        loop {
            if let Some(message) = self.frames.message().unwrap() {
                return Some(message);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(n) if n > 0 => self.frames.extend(&buffer[..n]),
                _ => return None,
            }
        }
    }

    /// Whether the server closes the channel, and after how long.
    fn closes(mut self) -> Duration {
        let begin = Instant::now();
        while self.stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
        begin.elapsed()
    }
}

/// Others are served as if nothing were.
fn others_are_served(server: &Server) {
    let into = Folder::new();
    let begin = Instant::now();
    let trust = server.fingerprint.clone();
    let trust = trust.as_ref().map_or(vec!["--insecure"], |f| vec!["--fingerprint", f]);
    run(fetch(&into, &trust).arg(server.source("x"))).succeeded();
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn what_is_no_message_closes_the_channel_and_nothing_else() {
    let served = served();
    let server = Server::start(served.path(), &["--insecure"]);
    for garbage in [&[0xff; 8][..], &[0, 0, 0, 1, 99], &[0, 0, 0, 3, 0, 1, 1], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut raw = Raw::connect(&server);
        raw.stream.write_all(garbage).unwrap();
        assert!(raw.closes() < Duration::from_secs(5));
    }
    others_are_served(&server);
}

#[test]
fn a_client_that_never_shakes_hands_is_closed_after_a_while() {
    let served = served();
    let server = Server::start(served.path(), &[]);
    let raw = Raw::connect(&server);
    others_are_served(&server);
    let after = raw.closes();
    assert!((Duration::from_secs(5)..Duration::from_secs(15)).contains(&after), "{after:?}");
}

#[test]
fn a_client_that_asks_without_end_and_one_that_never_reads_hold_nobody_up() {
    let served = served();
    for n in 0..2_000 {
        served.put(&format!("many/{n}"), 0);
    }
    let server = Server::start(served.path(), &["--insecure"]);
    let mut flood = Raw::connect(&server);
    flood.say(&Client::Hello { version: wire::VERSION }).unwrap();
    let asking = thread::spawn(move || {
        let mut asked = 0;
        // Until the server has had enough, or takes no more.
        while asked < 200_000 && flood.say(&Client::List { request: 1, path: "many".into() }).is_ok() {
            asked += 1;
        }
        flood
    });
    others_are_served(&server);
    drop(asking.join().unwrap());
    others_are_served(&server);
    let stopped = server.stop();
    assert_eq!(stopped["completed"], 2, "{stopped}");
}

#[test]
fn more_connections_than_an_address_may_have_are_turned_away() {
    let served = served();
    let server = Server::start(served.path(), &["--insecure", "--max-connections-per-address", "5"]);
    let mut kept = Vec::new();
    for _ in 0..5 {
        let mut raw = Raw::connect(&server);
        raw.say(&Client::Hello { version: wire::VERSION }).unwrap();
        assert!(matches!(raw.hear(), Some(control::Server::Welcome { .. })));
        kept.push(raw);
    }
    assert!(Raw::connect(&server).closes() < Duration::from_secs(5));
    kept.clear();
    others_are_served(&server);
}

/// A server that shakes hands as it should and then lists files under names of its own. Serves one client.
fn lying_server(names: &'static [&'static str]) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let data = UdpSocket::bind(address).unwrap();
    let serve = move || {
        let (stream, _) = listener.accept().unwrap();
        let mut raw = Raw { stream, frames: Frames::default() };
        let say = |message: &control::Server| {
            let mut bytes = Vec::new();
            control::emit(message, &mut bytes).unwrap();
            bytes
        };
        let hear = |raw: &mut Raw| -> Option<Client> {
            loop {
                if let Some(message) = raw.frames.message().unwrap() {
                    return Some(message);
                }
                let mut buffer = [0; 4096];
                let n = raw.stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
                raw.frames.extend(&buffer[..n]);
            }
        };
        assert!(matches!(hear(&mut raw), Some(Client::Hello { .. })));
        let welcome = control::Server::Welcome { version: wire::VERSION, connection: 7, token: [1; 16] };
        raw.stream.write_all(&say(&welcome)).unwrap();
        let mut buffer = [0; 2000];
        let (_, client) = data.recv_from(&mut buffer).unwrap();
        let hello = Header::parse(&buffer).unwrap().number;
        let mut datagram = Vec::new();
        Header { kind: Kind::Welcome, connection: 7, number: 0 }.emit(&mut datagram);
        Welcome { hello }.emit(&mut datagram);
        data.send_to(&datagram, client).unwrap();
        while let Some(message) = hear(&mut raw) {
            let Client::List { request, .. } = message else { continue };
            let entry =
                |name: &&str| Entry { path: (*name).to_owned(), size: 1, modified_ns: 0, mode: 0o644 };
            let listing = control::Server::Listing {
                request,
                entries: names.iter().map(entry).collect(),
                omitted: Vec::new(),
                last: true,
            };
            raw.stream.write_all(&say(&listing)).unwrap();
        }
    };
    (address.to_string(), thread::spawn(serve))
}

#[test]
fn names_that_lead_out_of_the_output_directory_are_refused() {
    const NAMES: [&[&str]; 5] =
        [&["../evil"], &["tree/../../evil"], &["/etc/evil"], &["tree/a\0b"], &["tree//evil"]];
    for names in NAMES {
        let (address, lying) = lying_server(names);
        let around = Folder::new();
        let into: PathBuf = around.path().join("into");
        let mut command = common::fountain(&["fetch", "--insecure", "--json", "--retry", "0", "-r", "-o"]);
        let said = run(command.arg(&into).arg(format!("{address}/tree")));
        assert_eq!(said.status, Some(1), "{names:?}: {}", said.errors);
        assert!(around.files().is_empty(), "{names:?}: {:?}", around.files().keys());
        lying.join().unwrap();
    }
}

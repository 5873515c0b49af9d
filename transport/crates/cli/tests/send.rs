//! `fountain send` and `fountain recv` over real sockets: trees, resumption after either side was killed, security, and a
//! rate from a controller that comes and goes.

mod common;

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Folder, Said, Server, fountain, interrupt, run, until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn receive(into: &Folder, arguments: &[&str]) -> Server {
    Server::receive_at("127.0.0.1:0", into.path(), arguments)
}

fn send(to: &Server, path: &str, arguments: &[&str]) -> Command {
    let mut command = fountain(&["send", "--json", &to.address, path]);
    match &to.fingerprint {
        Some(fingerprint) => command.args(["--fingerprint", fingerprint]),
        None => command.arg("--insecure"),
    };
    command.args(arguments);
    command
}

fn same(into: &Folder, sent: &Folder) {
    let (is, was) = (into.files(), sent.files());
    assert_eq!(is.keys().collect::<Vec<_>>(), was.keys().collect::<Vec<_>>());
    assert!(is == was);
}

#[test]
fn a_tree_comes_with_its_times_and_modes_in_clear_and_under_tls() {
    let sent = Folder::new();
    sent.put("tree/empty", 0).put("tree/one", 1).put("tree/deep/er/large", 3_000_000);
    for n in 0..600 {
        sent.put(&format!("tree/many/{n}"), n % 50);
    }
    let one = sent.path().join("tree/one");
    fs::set_permissions(&one, fs::Permissions::from_mode(0o750)).unwrap();
    for arguments in [&[][..], &["--insecure"]] {
        let into = Folder::new();
        let receiver = receive(&into, arguments);
        let tree = sent.path().join("tree");
        run(send(&receiver, tree.to_str().unwrap(), &["--rate", "500M"])).succeeded();
        same(&into, &sent);
        let (is, was) = (fs::metadata(into.path().join("tree/one")).unwrap(), fs::metadata(&one).unwrap());
        assert_eq!((is.mtime(), is.mtime_nsec(), is.mode()), (was.mtime(), was.mtime_nsec(), was.mode()));
        let again = run(send(&receiver, tree.to_str().unwrap(), &["--tfrc"])).succeeded();
        assert_eq!(again.done()["symbols"], 0, "what is there does not go again");
        let stopped = receiver.stop();
        assert_eq!((&stopped["stored"], &stopped["failed"]), (&json!(1214), &json!(0)), "{stopped}");
        assert_eq!((&stopped["forged"], &stopped["replayed"]), (&json!(0), &json!(0)), "{stopped}");
    }
}

#[test]
fn every_code_brings_the_same_bytes() {
    let sent = Folder::new();
    sent.put("large", 3_000_001);
    for code in ["raptor", "lt", "raptorq"] {
        let into = Folder::new();
        let receiver = receive(&into, &[]);
        let large = sent.path().join("large");
        run(send(&receiver, large.to_str().unwrap(), &["--rate", "500M", "--code", code])).succeeded();
        same(&into, &sent);
        assert_eq!(receiver.stop()["failed"], json!(0), "{code}");
    }
}

#[test]
fn a_directory_without_a_name_is_sent_as_what_is_in_it_and_a_link_under_its_own_name() {
    let sent = Folder::new();
    sent.put("a", 1_000).put("b/c", 2_000);
    let into = Folder::new();
    let receiver = receive(&into, &["--insecure"]);
    run(send(&receiver, &format!("{}/.", sent.path().display()), &["--tfrc"])).succeeded();
    same(&into, &sent);
    let link = Folder::new();
    symlink(sent.path().join("a"), link.path().join("other")).unwrap();
    run(send(&receiver, link.path().join("other").to_str().unwrap(), &["--tfrc"])).succeeded();
    assert_eq!(into.files()["other"], sent.files()["a"]);
}

#[test]
fn a_nasty_tree_arrives_the_same_or_is_named_file_by_file() {
    let sent = Folder::new();
    let omitted = sent.put_nasty();
    let into = Folder::new();
    let receiver = receive(&into, &["--insecure"]);
    let said = run(send(&receiver, sent.path().join("nasty").to_str().unwrap(), &["--rate", "500M"]));
    assert_eq!(said.status, Some(1), "{}", said.errors);
    assert_eq!(said.failed(), Folder::named(&omitted));
    assert_eq!(into.tree(), sent.nasty_tree(&omitted));
}

#[test]
fn a_receiver_replaces_nothing_unless_it_is_told_to() {
    let (sent, into) = (Folder::new(), Folder::new());
    sent.put("file", 1_000).put("other", 10);
    fs::write(into.path().join("file"), "precious").unwrap();
    let receiver = receive(&into, &["--insecure"]);
    let tree = format!("{}/.", sent.path().display());
    let said = run(send(&receiver, &tree, &["--rate", "500M"]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("file exists already"), "{}", said.errors);
    assert_eq!(into.files()["file"], b"precious");
    assert_eq!(into.files()["other"], sent.files()["other"], "the rest comes");
    let receiver = receive(&into, &["--insecure", "--overwrite"]);
    run(send(&receiver, &tree, &["--rate", "500M"])).succeeded();
    same(&into, &sent);
}

#[test]
fn a_receiver_takes_no_more_than_it_has_room_for() {
    let sent = Folder::new();
    sent.put("small", 1_000).put("large", 100_000);
    let tree = format!("{}/.", sent.path().display());
    let limits: [&[&str]; 2] = [&["--max-total", "50000"], &["--keep-free", "18446744073709551615"]];
    for (limit, expected) in limits.into_iter().zip([&["small"][..], &[]]) {
        let into = Folder::new();
        let receiver = receive(&into, &[&["--insecure"], limit].concat());
        let said = run(send(&receiver, &tree, &["--rate", "500M"]));
        assert_eq!(said.status, Some(1), "{limit:?}");
        assert!(said.errors.contains(&format!("{}: 100000 bytes: ", "large")), "{limit:?}: {}", said.errors);
        assert!(said.errors.contains(limit[0]), "it says which limit: {}", said.errors);
        assert_eq!(into.files().into_keys().collect::<Vec<_>>(), expected, "{limit:?}");
    }
}

#[test]
fn a_file_that_is_offered_again_counts_once() {
    let (sent, into) = (Folder::new(), Folder::new());
    sent.put("one", 40_000).put("other", 40_000);
    fs::write(into.path().join("taken"), "precious").unwrap();
    sent.put("taken", 10_000);
    let receiver = receive(&into, &["--insecure", "--max-total", "80000"]);
    for _ in 0..3 {
        // What is refused for another reason does not count.
        let path = sent.path().join("taken");
        assert_eq!(run(send(&receiver, path.to_str().unwrap(), &["--rate", "500M"])).status, Some(1));
        for name in ["one", "other"] {
            let path = sent.path().join(name);
            run(send(&receiver, path.to_str().unwrap(), &["--rate", "500M"])).succeeded();
        }
    }
}

#[test]
fn a_stranger_who_offers_nothing_does_not_end_a_receiver_for_one_sender() {
    let (sent, into) = (Folder::new(), Folder::new());
    sent.put("file", 1_000);
    let receiver = receive(&into, &["--insecure", "--once"]);
    let options = udp::SendOptions {
        to: receiver.address.parse().unwrap(),
        name: String::new(),
        tls: None,
        config: proto::dfcp::SenderConfig::default(),
    };
    let mut stranger = udp::Sending::connect(options).unwrap();
    while !stranger.wait(Duration::from_secs(5)).unwrap().contains(&udp::SendUpdate::Open) {}
    stranger.release("nothing to send").unwrap();
    run(send(&receiver, sent.path().join("file").to_str().unwrap(), &["--rate", "500M"])).succeeded();
    let (_, status) = receiver.ended();
    assert!(status.success());
    same(&into, &sent);
}

#[test]
fn links_in_a_receivers_directory_are_not_followed() {
    let (sent, into, outside) = (Folder::new(), Folder::new(), Folder::new());
    sent.put("tree/file", 10);
    symlink(outside.path(), into.path().join("tree")).unwrap();
    let receiver = receive(&into, &["--insecure", "--overwrite"]);
    let said = run(send(&receiver, sent.path().join("tree").to_str().unwrap(), &["--rate", "500M"]));
    assert_eq!(said.status, Some(1), "{}", said.errors);
    assert!(outside.tree().is_empty());
}

#[test]
fn a_receiver_takes_files_of_those_it_knows_and_of_no_other() {
    let (sent, into, mine) = (Folder::new(), Folder::new(), Folder::new());
    sent.put("file", 1_000);
    let path = sent.path().join("file");
    let said = run(&mut fountain(&["recv", into.path().to_str().unwrap()]));
    assert_eq!(said.status, Some(2), "{}", said.errors);
    assert!(said.errors.contains("--client") && said.errors.contains("--anyone"), "{}", said.errors);
    let id = || {
        let said = run(fountain(&["id", "--json"]).env("XDG_STATE_HOME", mine.path()));
        said.events[0]["fingerprint"].as_str().unwrap().to_owned()
    };
    let known = id();
    assert_eq!(id(), known, "it is kept");
    let receiver = receive(&into, &["--client", &known]);
    let arguments = ["--rate", "500M", "--retry", "0"];
    let stranger = run(send(&receiver, path.to_str().unwrap(), &arguments));
    assert_eq!(stranger.status, Some(1));
    assert!(stranger.errors.contains("`fountain id`"), "{}", stranger.errors);
    assert!(into.files().is_empty());
    run(send(&receiver, path.to_str().unwrap(), &arguments).env("XDG_STATE_HOME", mine.path())).succeeded();
    same(&into, &sent);
}

#[test]
fn nothing_is_sent_before_somebody_says_how_fast() {
    let said = fountain(&["send", "--insecure", "127.0.0.1", "/etc/hostname"]).output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("--rate-from"));
    let both = ["send", "--insecure", "127.0.0.1", "/etc/hostname", "--tfrc", "--rate", "1M"];
    assert_eq!(fountain(&both).output().unwrap().status.code(), Some(2));
    for rate in ["0", "-1M", "fast", "1T", "inf"] {
        let one = ["send", "--insecure", "127.0.0.1", "/etc/hostname", "--rate", rate];
        assert_eq!(fountain(&one).output().unwrap().status.code(), Some(2), "{rate}");
    }
}

#[test]
fn what_cannot_be_sent_is_told() {
    let into = Folder::new();
    let receiver = receive(&into, &["--insecure"]);
    let said = run_text(send(&receiver, "/does/not/exist", &["--tfrc"]));
    assert!(said.1.contains("/does/not/exist") && said.0 == Some(1), "{said:?}");
    let sent = Folder::new();
    sent.put("x.fountain-part", 10);
    let path = sent.path().join("x.fountain-part");
    let said = run(send(&receiver, path.to_str().unwrap(), &["--tfrc"]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("reserved for parts of files"), "{}", said.errors);
    assert!(into.files().is_empty());
}

fn run_text(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Waits until a note says that blocks have come.
fn some_has_come(into: &Folder, name: &str) {
    let note = into.path().join(format!("{name}.fountain-state"));
    until("a note of what has come", || {
        fs::read_to_string(&note).is_ok_and(|text| !text.contains("\"complete\":[]"))
    });
}

#[test]
fn a_sender_that_was_interrupted_goes_on_where_it_was() {
    let sent = Folder::new();
    sent.put("large", 20_000_000);
    let path = sent.path().join("large");
    let into = Folder::new();
    let receiver = receive(&into, &[]);
    for signal in [Signal::KILL, Signal::INT] {
        let process = send(&receiver, path.to_str().unwrap(), &["--rate", "40M"]).spawn().unwrap();
        some_has_come(&into, "large");
        std::thread::sleep(Duration::from_millis(300));
        interrupt(&process, signal);
        let output = process.wait_with_output().unwrap();
        if signal == Signal::INT {
            assert_eq!(output.status.code(), Some(130));
            assert!(String::from_utf8_lossy(&output.stderr).contains("run the same command again to resume"));
        }
    }
    // Until the receiver has noticed, the part belongs to the connection that was killed.
    let said = run(send(&receiver, path.to_str().unwrap(), &["--rate", "500M", "--retry", "60"]));
    let said = said.succeeded();
    assert!(said.done()["bytes"].as_u64().unwrap() < 20_000_000, "{}", said.done());
    same(&into, &sent);
}

#[test]
fn a_receiver_that_comes_back_is_gone_on_with() {
    let sent = Folder::new();
    sent.put("large", 20_000_000);
    let path = sent.path().join("large");
    let into = Folder::new();
    let mut receiver = receive(&into, &["--insecure"]);
    let process = send(&receiver, path.to_str().unwrap(), &["--rate", "40M"]).spawn().unwrap();
    some_has_come(&into, "large");
    receiver.kill();
    let _again = Server::receive_at(&receiver.address, into.path(), &["--insecure"]);
    let said = Said::of(&process.wait_with_output().unwrap()).succeeded();
    assert!(said.errors.contains("knows nothing of this connection"), "{}", said.errors);
    same(&into, &sent);
}

#[test]
fn a_receiver_that_is_not_the_right_one_gets_nothing() {
    let sent = Folder::new();
    sent.put("secret", 100_000);
    let path = sent.path().join("secret");
    let into = Folder::new();
    let receiver = receive(&into, &[]);
    let other = "0".repeat(64);
    let mut command = fountain(&["send", "--json", &receiver.address, path.to_str().unwrap()]);
    let said = run(command.args(["--fingerprint", &other, "--tfrc", "--retry", "0.1"]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("certificate"), "{}", said.errors);
    let mut clear = fountain(&["send", "--json", &receiver.address, path.to_str().unwrap()]);
    let said = run(clear.args(["--insecure", "--tfrc", "--retry", "0.1", "--silence", "1"]));
    assert_eq!(said.status, Some(1));
    assert!(into.files().is_empty());
    run(send(&receiver, path.to_str().unwrap(), &["--tfrc"])).succeeded();
}

#[test]
fn the_paper_s_other_ways_deliver_as_well() {
    let sent = Folder::new();
    sent.put("file", 1_000_000);
    let path = sent.path().join("file");
    for arguments in [
        &["--no-early-stop", "--window", "4"][..],
        &["--no-acks", "--redundancy", "20"],
        &["--code", "lt", "--block-symbols", "64", "--symbol-bytes", "1000"],
    ] {
        let into = Folder::new();
        let receiver = receive(&into, &["--insecure"]);
        let mut command = send(&receiver, path.to_str().unwrap(), arguments);
        run(command.args(["--rate", "100M"])).succeeded();
        same(&into, &sent);
    }
}

#[test]
fn encoding_and_decoding_can_be_left_out_to_see_what_they_cost() {
    let sent = Folder::new();
    sent.put("large", 3_000_000).put("small", 10);
    let tree = format!("{}/.", sent.path().display());
    let into = Folder::new();
    let receiver = receive(&into, &["--discard", "--no-decode"]);
    for arguments in [&["--rate", "500M"][..], &["--rate", "500M", "--no-encode"]] {
        let said = run(send(&receiver, &tree, arguments)).succeeded();
        assert!(said.done()["symbols"].as_u64().unwrap() >= 3_000_000 / 1500);
    }
    assert!(into.files().is_empty());
    // Who decodes finds that these are not the blocks.
    let strict = receive(&into, &[]);
    let said = run(send(&strict, &tree, &["--rate", "500M", "--no-encode"]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("is not what"), "{}", said.errors);
    let not_thrown_away = fountain(&["recv", "--no-decode", "/tmp"]).output().unwrap();
    assert_eq!(not_thrown_away.status.code(), Some(2));
}

#[test]
fn many_senders_share_the_memory_of_a_receiver() {
    let sent = Folder::new();
    let names: Vec<_> = (0..40).map(|n| format!("file{n}")).collect();
    for name in &names {
        sent.put(name, 300_000);
    }
    let into = Folder::new();
    // Enough for two or three of them, if each had what it may.
    let receiver = receive(&into, &["--memory", "200000000"]);
    let start = |name: &String| {
        let path = sent.path().join(name);
        send(&receiver, path.to_str().unwrap(), &["--rate", "1M", "--retry", "0"]).spawn().unwrap()
    };
    let senders: Vec<_> = names.iter().map(start).collect();
    for mut sender in senders {
        assert!(sender.wait().unwrap().success());
    }
    same(&into, &sent);
}

#[test]
fn a_receiver_for_one_sender_ends_with_it() {
    let sent = Folder::new();
    sent.put("file", 100_000);
    let into = Folder::new();
    let listening = receive(&into, &["--insecure", "--once"]);
    run(send(&listening, sent.path().join("file").to_str().unwrap(), &["--tfrc"])).succeeded();
    let (events, status) = listening.ended();
    assert!(status.success());
    let named: Vec<_> = events.iter().map(|e| e["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(named, ["connected", "file", "disconnected", "stopped"], "{events:?}");
}

/// A controller's service as docs/api.md has it, as far as a sender uses it. It is gone when it is dropped.
struct Controller {
    url: String,
    asked: Arc<Mutex<VecDeque<(String, Value)>>>,
    rate: Arc<Mutex<f64>>,
    ended: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
    address: String,
}

const TOKEN: &str = "weir_0123456789";

impl Controller {
    fn start(listen: &str, bps: f64) -> Self {
        let listener = TcpListener::bind(listen).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (asked, streams): (Arc<Mutex<VecDeque<_>>>, Arc<Mutex<Vec<_>>>) = Default::default();
        let (rate, ended) = (Arc::new(Mutex::new(bps)), Arc::new(AtomicBool::new(false)));
        let shared = (asked.clone(), rate.clone(), ended.clone(), streams.clone());
        let thread = std::thread::spawn(move || {
            let (asked, rate, ended, streams) = shared;
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let stream = stream.unwrap();
                let (asked, rate, streams) = (asked.clone(), rate.clone(), streams.clone());
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                std::thread::spawn(move || answer(stream, &asked, &rate, &streams));
            }
        });
        let url = format!("http://{address}");
        Controller { url, asked, rate, ended, streams, thread: Some(thread), address }
    }

    /// Another share, told on the streams.
    fn tell(&self, bps: f64) {
        *self.rate.lock().unwrap() = bps;
        for stream in self.streams.lock().unwrap().iter_mut() {
            // Those that are not streams are closed.
            let _ = stream.write_all(event(bps).as_bytes());
        }
    }

    fn has_been_asked(&self, method: &str) -> Option<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().find(|(m, _)| m == method).map(|(_, body)| body.clone())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        self.thread.take().unwrap().join().unwrap();
    }
}

fn share(bps: f64) -> Value {
    json!({"flow": "f", "src": "127.0.0.1", "dst": "127.0.0.1", "most_bps": null, "rate_bps": bps, "narrowest": null})
}

fn event(bps: f64) -> String {
    format!("event: share\ndata: {}\n\n", share(bps))
}

type Asked = Mutex<VecDeque<(String, Value)>>;

fn answer(stream: TcpStream, asked: &Asked, rate: &Mutex<f64>, streams: &Mutex<Vec<TcpStream>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_lowercase());
    }
    let length =
        head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    let method = head[0].split(' ').next().unwrap().to_uppercase();
    let good = head.contains(&format!("authorization: bearer {TOKEN}"));
    let bps = *rate.lock().unwrap();
    asked.lock().unwrap().push_back((method.clone(), serde_json::from_slice(&body).unwrap_or_default()));
    let mut stream = stream;
    let text = if !good {
        let told = json!({"title": "Unauthorized", "status": 401, "detail": "no token of ours"}).to_string();
        format!(
            "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{told}",
            told.len()
        )
    } else if method == "GET" {
        format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n{}",
            event(bps)
        )
    } else {
        let told = share(bps).to_string();
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{told}", told.len())
    };
    let _ = stream.write_all(text.as_bytes());
    if method != "GET" || !good {
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let gone = stream.peer_addr().ok();
        streams.lock().unwrap().retain(|s| s.peer_addr().ok() != gone);
    }
}

fn token(folder: &Folder, token: &str) -> String {
    let file = folder.path().join("token");
    fs::write(&file, format!("{token}\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_controller_is_told_of_the_flow_and_its_rate_is_followed() {
    let (sent, keys, into) = (Folder::new(), Folder::new(), Folder::new());
    sent.put("file", 3_000_000);
    let path = sent.path().join("file");
    let receiver = receive(&into, &[]);
    let controller = Controller::start("127.0.0.1:0", 8e6);
    let file = token(&keys, TOKEN);
    let from = ["--rate-from", &controller.url, "--token-file", &file, "--flow", "f", "--ceiling", "90M"];
    let process = send(&receiver, path.to_str().unwrap(), &from).spawn().unwrap();
    until("a renewal", || controller.has_been_asked("PATCH").is_some());
    let announced = controller.has_been_asked("PUT").unwrap();
    assert_eq!(announced, json!({"src": "127.0.0.1", "dst": "127.0.0.1", "most_bps": 90_000_000}));
    // At 8 Mb/s it would take three seconds more.
    controller.tell(80e6);
    let said = Said::of(&process.wait_with_output().unwrap()).succeeded();
    assert!(said.done()["seconds"].as_f64().unwrap() < 2.5, "{}", said.done());
    assert!(controller.has_been_asked("DELETE").is_some(), "the flow is withdrawn");
    same(&into, &sent);
}

#[test]
fn a_controller_that_says_no_is_quoted_and_nothing_is_sent() {
    let (sent, keys, into) = (Folder::new(), Folder::new(), Folder::new());
    sent.put("file", 3_000);
    let path = sent.path().join("file");
    let receiver = receive(&into, &["--insecure"]);
    let controller = Controller::start("127.0.0.1:0", 8e6);
    let file = token(&keys, "another");
    let from = ["--rate-from", &controller.url, "--token-file", &file];
    let (status, errors) = run_text(send(&receiver, path.to_str().unwrap(), &from));
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("401: no token of ours") && errors.contains("no rate from the controller"),
        "{errors}"
    );
    let nobody = ["--rate-from", "http://127.0.0.1:1", "--token-file", &file];
    let (status, errors) = run_text(send(&receiver, path.to_str().unwrap(), &nobody));
    assert_eq!(status, Some(1));
    assert!(errors.contains("no rate from the controller"), "{errors}");
    assert!(into.files().is_empty());
}

#[test]
fn a_sender_that_loses_the_controller_falls_back_says_so_and_recovers() {
    let (sent, keys, into) = (Folder::new(), Folder::new(), Folder::new());
    sent.put("file", 20_000_000);
    let path = sent.path().join("file");
    let receiver = receive(&into, &[]);
    let controller = Controller::start("127.0.0.1:0", 30e6);
    let (url, address, file) = (controller.url.clone(), controller.address.clone(), token(&keys, TOKEN));
    let from = ["--rate-from", &url, "--token-file", &file, "--expiry", "1", "--ceiling", "30M"];
    let process = send(&receiver, path.to_str().unwrap(), &from).spawn().unwrap();
    until("a renewal", || controller.has_been_asked("PATCH").is_some());
    drop(controller);
    std::thread::sleep(Duration::from_millis(1_800));
    let _again = Controller::start(&address, 30e6);
    let said = Said::of(&process.wait_with_output().unwrap()).succeeded();
    let guides: Vec<_> = said.events.iter().filter(|e| e["event"] == "guided").collect();
    let named: Vec<_> = guides.iter().map(|e| e["by"].as_str().unwrap()).collect();
    assert_eq!(named, ["told", "tfrc", "told"], "{guides:?}");
    assert!(said.errors.contains("TFRC's rate is used"), "{}", said.errors);
    same(&into, &sent);
}

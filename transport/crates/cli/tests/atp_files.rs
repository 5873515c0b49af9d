//! `fountain atp-serve` and `atp-get`, and clients of HTTP through `atp-proxy`.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::{Child, Output, Stdio};

use common::{Folder, fountain};
use serde_json::Value;

/// A process that listens, until it is dropped.
struct Listening {
    process: Child,
    told: Value,
}

impl Listening {
    fn start(state: &Folder, args: &[&str]) -> Self {
        let mut command = fountain(args);
        command.arg("--json").env("XDG_STATE_HOME", state.path());
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        // What it says later is of no interest; but it must be able to.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Listening { process, told: serde_json::from_str(&line).unwrap() }
    }

    fn field(&self, name: &str) -> &str {
        self.told[name].as_str().unwrap()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server of a directory with a few files.
struct Served {
    state: Folder,
    files: Folder,
    server: Listening,
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 31 + n / 251) as u8).collect()
}

impl Served {
    fn new() -> Self {
        let (state, files) = (Folder::new(), Folder::new());
        let write = |name: &str, bytes: &[u8]| std::fs::write(files.path().join(name), bytes).unwrap();
        std::fs::create_dir(files.path().join("below")).unwrap();
        write("empty", b"");
        write("small", b"hello");
        write("below/a name?", &bytes(70_000));
        write("large", &bytes(5_000_000));
        symlink("/etc/passwd", files.path().join("outside")).unwrap();
        symlink("small", files.path().join("inside")).unwrap();
        let directory = files.path().to_str().unwrap().to_owned();
        let server = Listening::start(&state, &["atp-serve", &directory, "--listen", "127.0.0.1:0"]);
        Served { state, files, server }
    }

    fn url(&self, path: &str) -> String {
        format!("atp://{}/{path}", self.server.field("addr"))
    }

    fn get(&self, options: &[&str], paths: &[&str]) -> Output {
        let mut command = fountain(&["atp-get", "--fingerprint", self.server.field("fingerprint")]);
        command.args(options).args(paths.iter().map(|path| self.url(path)));
        command.env("XDG_STATE_HOME", self.state.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.files.path().join(name)).unwrap()
    }
}

#[test]
fn files_arrive_as_they_are() {
    let (served, into) = (Served::new(), Folder::new());
    let output = ["-o", into.path().to_str().unwrap()];
    let got = served.get(&output, &["empty", "small", "below/a name?", "large", "inside"]);
    assert!(got.status.success(), "{got:?}");
    for (name, of) in [
        ("empty", "empty"),
        ("small", "small"),
        ("a name?", "below/a name?"),
        ("large", "large"),
        ("inside", "small"),
    ] {
        assert!(std::fs::read(into.path().join(name)).unwrap() == served.file(of), "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(into.path()).unwrap().collect();
    assert_eq!(left.len(), 5, "{left:?}");
}

#[test]
fn one_file_goes_where_it_is_to() {
    let (served, into) = (Served::new(), Folder::new());
    let named = into.path().join("renamed");
    std::fs::write(&named, "what was there").unwrap();
    assert!(served.get(&["-o", named.to_str().unwrap()], &["small"]).status.success());
    assert_eq!(std::fs::read(&named).unwrap(), b"hello");
    let piped = served.get(&["-o", "-"], &["large"]);
    assert!(piped.status.success() && piped.stdout == served.file("large"));
    let discarded = served.get(&["--discard", "--rounds", "3", "--json"], &["small", "large"]);
    let said = String::from_utf8(discarded.stdout).unwrap();
    let done: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&done["bytes"], &done["complete"]), (&Value::from(3 * 5_000_005), &Value::from(true)));
    assert_eq!(done["rounds"].as_array().unwrap().len(), 3);
}

#[test]
fn what_is_not_there_is_named_and_the_rest_arrives() {
    let (served, into) = (Served::new(), Folder::new());
    let output = ["-o", into.path().to_str().unwrap()];
    let got = served.get(&output, &["nothing", "outside", "below", "small"]);
    assert_eq!(got.status.code(), Some(1));
    let said = String::from_utf8(got.stderr).unwrap();
    for path in ["nothing", "outside", "below"] {
        assert!(said.contains(&format!("{}: ", served.url(path))), "{said}");
    }
    assert_eq!(std::fs::read_dir(into.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read(into.path().join("small")).unwrap(), b"hello");
    let other =
        fountain(&["atp-get", "--fingerprint", &"0".repeat(64), "--retry", "0.2", &served.url("small")])
            .env("XDG_STATE_HOME", served.state.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
    assert_eq!(other.status.code(), Some(1), "another server than was meant");
}

/// Sends a request, and returns the head and the body of the answer.
fn ask(to: &str, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(to).unwrap();
    write!(stream, "{request}Host: here\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    (String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase(), answer[end + 4..].to_vec())
}

#[test]
fn any_client_of_http_is_served_through_a_proxy() {
    let served = Served::new();
    let to = format!("atp://{}", served.server.field("addr"));
    let trust = ["--fingerprint", served.server.field("fingerprint")];
    let proxy =
        Listening::start(&served.state, &[&["atp-proxy", "tcp://127.0.0.1:0", &to][..], &trust[..]].concat());
    let at = proxy.field("from").strip_prefix("tcp://").unwrap();
    let (head, body) = ask(at, "GET /large HTTP/1.1\r\n");
    assert!(head.starts_with("http/1.1 200") && head.contains("content-length: 5000000"), "{head}");
    assert!(body == served.file("large"));
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let (head, body) = ask(at, "GET /large HTTP/1.1\r\nRange: bytes=4999990-\r\n");
    assert!(head.starts_with("http/1.1 206") && head.contains("bytes 4999990-4999999/5000000"), "{head}");
    assert_eq!(body, served.file("large")[4_999_990..]);
    for (request, status) in [
        ("HEAD /large HTTP/1.1\r\n".to_owned(), 200),
        (format!("GET /large HTTP/1.1\r\nIf-None-Match: {tag}\r\n"), 304),
        ("GET /small HTTP/1.1\r\nRange: bytes=9-\r\n".to_owned(), 416),
        ("GET /%ff HTTP/1.1\r\n".to_owned(), 400),
        ("GET /../small HTTP/1.1\r\n".to_owned(), 400),
        ("GET /nothing HTTP/1.1\r\n".to_owned(), 404),
        ("GET / HTTP/1.1\r\n".to_owned(), 404),
        ("POST /small HTTP/1.1\r\nContent-Length: 0\r\n".to_owned(), 405),
        ("nonsense\r\n".to_owned(), 400),
    ] {
        let (head, _) = ask(at, &request);
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{request}: {head}");
    }
}

//! The examples do what they say, in twenty lines each.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program that is ended with its test.
struct Running(Child);

impl Running {
    fn start(name: &str, args: &[&str]) -> Self {
        // Beside the folder of this test.
        let mut path = std::env::current_exe().unwrap();
        path.pop();
        path.pop();
        path.push("examples");
        path.push(name);
        let mut command = Command::new(path);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Its first line: an address and a fingerprint.
    fn announces(&mut self) -> (String, String) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (address, fingerprint) = line.trim().split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        (address.to_owned(), fingerprint.to_owned())
    }

    fn output(mut self) -> Vec<u8> {
        let mut output = Vec::new();
        self.0.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        assert!(self.0.wait().unwrap().success());
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn content() -> Vec<u8> {
    (0..3_000_000_u32).map(|n| (n / 1000 % 251) as u8).collect()
}

#[test]
fn client_and_server_pass_an_object_on() {
    let mut server = Running::start("server", &["127.0.0.1:0"]);
    server.0.stdin.take().unwrap().write_all(&content()).unwrap();
    let (address, fingerprint) = server.announces();
    let client = Running::start("client", &["input", &fingerprint, &address]);
    assert!(client.output() == content());
}

#[test]
fn sender_and_receiver_pass_a_file_on() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (identity, file) = (path("identity.pem"), path("original"));
    fs::write(&file, content()).unwrap();
    fs::create_dir(path("inbox")).unwrap();
    let known = weir_transport::identity_at(&identity).unwrap().fingerprint().to_string();
    let mut receiver = Running::start("receiver", &["127.0.0.1:0", &known, &path("inbox")]);
    let (address, fingerprint) = receiver.announces();
    Running::start("sender", &[&identity, &address, &fingerprint, &file]).output();
    assert!(fs::read(path("inbox/file")).unwrap() == content());
}

#[test]
fn no_example_has_more_than_twenty_lines() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut seen = 0;
    for example in fs::read_dir(folder).unwrap() {
        let path = example.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let lines = source.lines().filter(is_code).count();
        assert!(lines <= 20, "{}: {lines}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 4);
}

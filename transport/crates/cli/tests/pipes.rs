//! `fountain` among other commands: a file under another name, to standard output, from standard input, and readers that
//! have had enough.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use common::{Folder, Server, fountain, interrupt, run};
use rustix::process::Signal;
use serde_json::Value;

/// More than may be ahead of a reader.
const LARGE: usize = 100_000_000;

fn insecure(folder: &Folder) -> Server {
    Server::start(folder.path(), &["--insecure"])
}

fn fetch_to(output: &str, arguments: &[&str]) -> Command {
    let mut command = fountain(&["fetch", "--insecure", "--json", "-o", output]);
    command.args(arguments);
    command
}

/// The events that went to standard error.
fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_single_file_gets_the_name_that_is_wanted() {
    let served = Folder::new();
    served.put("deep/file", 100_000).put("deep/other", 5_000);
    let server = insecure(&served);
    let into = Folder::new();
    let at = |name: &str| into.path().join(name).to_str().unwrap().to_owned();
    for source in ["deep/file", "deep/other"] {
        // What has the name already is replaced.
        run(fetch_to(&at("mine"), &[&server.source(source)])).succeeded();
        assert_eq!(into.files().into_keys().collect::<Vec<_>>(), ["mine"]);
        assert!(into.files()["mine"] == served.files()[source], "{source}");
    }
    run(fetch_to(&at("directory/"), &[&server.source("deep/file")])).succeeded();
    assert!(into.files()["directory/file"] == served.files()["deep/file"]);
    run(fetch_to(&at("directory"), &[&server.source("deep/other")])).succeeded();
    assert!(into.files()["directory/other"] == served.files()["deep/other"]);
}

#[test]
fn standard_output_gets_the_file_and_nothing_else() {
    let served = Folder::new();
    served.put("large", LARGE).put("empty", 0);
    let servers = [(); 3].map(|()| insecure(&served));
    let all = servers.iter().map(|s| s.address.clone()).collect::<Vec<_>>().join(",");
    for (hosts, name) in [(&servers[0].address, "large"), (&all, "large"), (&servers[0].address, "empty")] {
        let output = fetch_to("-", &["--hash", &format!("{hosts}/{name}")]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        let file = &served.files()[name];
        assert!(output.stdout == *file, "{} bytes of {}: {told}", output.stdout.len(), file.len());
        let events = events(&output);
        let of_file = events.iter().find(|event| event["event"] == "file").unwrap();
        assert_eq!(of_file["blake3"], blake3::hash(file).to_string().as_str());
        assert_eq!(events.last().unwrap()["complete"], true);
    }
    let output = fountain(&["fetch", "--insecure", "-o", "-", &servers[0].source("empty")]).output().unwrap();
    assert!(output.stdout.is_empty(), "what people read goes elsewhere, too");
    assert!(String::from_utf8_lossy(&output.stderr).contains("overhead"));
}

#[test]
fn a_reader_that_takes_its_time_gets_all() {
    let served = Folder::new();
    served.put("large", LARGE);
    let server = insecure(&served);
    let mut child = fetch_to("-", &[&server.source("large")]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 1000];
    stdout.read_exact(&mut first).unwrap();
    // What comes ahead of the reader comes to rest.
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut progress = || {
        let events = told.by_ref().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        events.filter_map(|event| event["bytes"].as_u64()).next().unwrap()
    };
    let (mut before, mut ahead) = (0, progress());
    while ahead == 0 || ahead != before {
        (before, ahead) = (ahead, progress());
    }
    assert!((60_000_000..72_000_000).contains(&ahead), "{ahead} bytes are held");
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    drop(told);
    assert!(child.wait().unwrap().success());
    assert!([&first[..], &rest].concat() == served.files()["large"]);
}

#[test]
fn a_reader_that_has_had_enough_ends_it_without_a_word() {
    let served = Folder::new();
    served.put("large", LARGE);
    let server = insecure(&served);
    let mut child =
        fountain(&["fetch", "--insecure", "-q", "-o", "-", &server.source("large")]).spawn().unwrap();
    let mut first = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(Signal::PIPE.as_raw()), "as cat ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn what_cannot_be_had_leaves_standard_output_empty() {
    let served = Folder::new();
    served.put("there", 10);
    let server = insecure(&served);
    let output = fetch_to("-", &[&server.source("nowhere")]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere does not exist"));
    let two = fetch_to("-", &[&server.source("there"), &server.source("nowhere")]).output().unwrap();
    assert_eq!((two.status.code(), two.stdout.len()), (Some(2), 0));
}

#[test]
fn a_reader_that_is_gone_stops_no_server() {
    let served = Folder::new();
    served.put("file", 1_000);
    let mut command =
        fountain(&["serve", "--insecure", "--listen", "127.0.0.1:0", served.path().to_str().unwrap()]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        line.extend(byte);
    }
    drop(stdout);
    let line = String::from_utf8(line).unwrap();
    let address = line.trim().rsplit_once(' ').unwrap().1.to_owned();
    let into = Folder::new();
    run(common::fetch(&into, &["--insecure", &format!("{address}/file")])).succeeded();
    interrupt(&child, Signal::TERM);
    assert!(child.wait().unwrap().success());
}

fn send_stdin(to: &Server, arguments: &[&str]) -> Command {
    let mut command = fountain(&["send", "--json", "--insecure", "--rate", "500M", &to.address, "-"]);
    command.args(arguments).stdin(Stdio::piped());
    command
}

#[test]
fn standard_input_is_sent_under_a_name() {
    let into = Folder::new();
    let receiver = Server::receive_at("127.0.0.1:0", into.path(), &["--insecure"]);
    let made = Folder::new();
    made.put("bytes", 5_000_000).put("none", 0);
    for name in ["bytes", "none"] {
        let mut child = send_stdin(&receiver, &["--name", &format!("deep/{name}")]).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&made.files()[name]).unwrap();
        common::Said::of(&child.wait_with_output().unwrap()).succeeded();
        let path = into.path().join("deep").join(name);
        assert!(fs::read(&path).unwrap() == made.files()[name], "{name}");
        let new = made.path().join(name);
        assert_eq!(fs::metadata(path).unwrap().mode(), fs::metadata(new).unwrap().mode(), "as any new file");
    }
}

#[test]
fn what_is_wrong_with_standard_input_is_said() {
    let into = Folder::new();
    let receiver = Server::receive_at("127.0.0.1:0", into.path(), &["--insecure"]);
    for (arguments, status, told) in [
        (&[][..], 2, "--name"),
        (&["/etc/hostname", "--name", "x"], 2, "alone"),
        (&["--name", "../x"], 1, "relative"),
    ] {
        let output = send_stdin(&receiver, arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(told), "{arguments:?}: {errors}");
    }
    let output = send_stdin(&receiver, &["--name", "x"]).env("TMPDIR", "/does/not/exist").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("set TMPDIR"), "{errors}");
    let file = ["send", "--insecure", "--rate", "1M", &receiver.address, "/etc/hostname", "--name", "x"];
    assert_eq!(fountain(&file).output().unwrap().status.code(), Some(2), "a file has its name");
    assert!(into.files().is_empty());
}

#[test]
fn an_interrupt_ends_the_wait_for_standard_input() {
    let into = Folder::new();
    let receiver = Server::receive_at("127.0.0.1:0", into.path(), &["--insecure"]);
    let scratch = Folder::new();
    let mut command = send_stdin(&receiver, &["--name", "x"]);
    let mut child = command.env("TMPDIR", scratch.path()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"some").unwrap();
    // It takes signals from when it has begun to read.
    common::until("it reads", || fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count() > 1);
    interrupt(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::metadata(scratch.path()).unwrap().permissions().mode() & 0o700, 0o700);
    assert!(scratch.files().is_empty(), "nothing is left");
}

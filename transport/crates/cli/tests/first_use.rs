//! Hosts that are met for the first time, are known from then on, and are refused when they are others.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Folder, Said, Server, fountain, run};
use rustix::process::Signal;

/// Somebody who keeps what he knows in a folder.
fn user(folder: &Folder, command: &mut Command) -> Said {
    run(command.env("XDG_STATE_HOME", folder.path()))
}

fn fetch(from: &Server, into: &Folder, arguments: &[&str]) -> Command {
    let mut command = fountain(&["fetch", "--json", "--retry", "0", "-o", into.path().to_str().unwrap()]);
    command.arg(from.source("file")).args(arguments);
    command
}

fn send(to: &Server, file: &Path, arguments: &[&str]) -> Command {
    let mut command = fountain(&["send", "--json", "--retry", "0", "--rate", "500M", &to.address]);
    command.arg(file).args(arguments);
    command
}

fn served() -> Folder {
    let folder = Folder::new();
    folder.put("file", 10_000);
    folder
}

/// What the user knows, as a program reads it.
fn known(me: &Folder) -> Vec<(String, String)> {
    let said = user(me, &mut fountain(&["known", "--json"]));
    assert_eq!(said.status, Some(0), "{}", said.errors);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    said.events.iter().map(|event| (text(&event["host"]), text(&event["fingerprint"]))).collect()
}

#[test]
fn without_a_terminal_a_host_is_accepted_only_where_an_option_says_so() {
    let (served, me, into) = (served(), Folder::new(), Folder::new());
    let server = Server::start(served.path(), &[]);
    let receiver = Server::receive_at("127.0.0.1:0", into.path(), &[]);
    let file = served.path().join("file");
    for command in [&mut fetch(&server, &into, &[]), &mut send(&receiver, &file, &[])] {
        let said = user(&me, command);
        assert_eq!(said.status, Some(2));
        for option in ["--accept-new", "--fingerprint"] {
            assert!(said.errors.contains(option), "{}", said.errors);
        }
    }
    assert!(known(&me).is_empty() && into.files().is_empty());
    user(&me, &mut fetch(&server, &into, &["--accept-new"])).succeeded();
    fs::remove_file(into.path().join("file")).unwrap();
    user(&me, &mut send(&receiver, &file, &["--accept-new"])).succeeded();
    let expected = |at: &Server| (at.address.clone(), at.fingerprint.clone().unwrap());
    assert_eq!(known(&me), [expected(&server), expected(&receiver)]);
    // From now on no option is needed.
    user(&me, &mut fetch(&server, &into, &[])).succeeded();
    user(&me, &mut send(&receiver, &file, &[])).succeeded();
    assert_eq!(known(&me).len(), 2);
}

#[test]
fn a_host_that_shows_another_certificate_is_refused_until_it_is_forgotten() {
    let (served, me, into) = (served(), Folder::new(), Folder::new());
    let file = served.path().join("file");
    let mut server = Server::start(served.path(), &[]);
    let mut receiver = Server::receive_at("127.0.0.1:0", into.path(), &["--overwrite"]);
    user(&me, &mut fetch(&server, &into, &["--accept-new"])).succeeded();
    user(&me, &mut send(&receiver, &file, &["--accept-new"])).succeeded();
    let before = known(&me);
    // Each has an identity of its own.
    server.kill();
    receiver.kill();
    let server = Server::start_at(&server.address, served.path(), &[]);
    let receiver = Server::receive_at(&receiver.address, into.path(), &["--overwrite"]);
    fs::remove_file(into.path().join("file")).unwrap();
    for (n, arguments) in [&[][..], &["--accept-new"]].into_iter().cycle().take(4).enumerate() {
        let (mut fetch, mut send) = (fetch(&server, &into, arguments), send(&receiver, &file, arguments));
        let (at, command) = if n < 2 { (&server, &mut fetch) } else { (&receiver, &mut send) };
        let said = user(&me, command);
        assert_eq!(said.status, Some(1), "{}", said.errors);
        let new = at.fingerprint.as_ref().unwrap();
        let old = &before.iter().find(|(host, _)| *host == at.address).unwrap().1;
        let remedy = format!("fountain known --forget {}", at.address);
        for told in [&format!("WARNING: {}", at.address), old, new, &remedy] {
            assert!(said.errors.contains(told), "{told}: {}", said.errors);
        }
        assert!(into.files().is_empty());
    }
    assert_eq!(known(&me), before);
    let forgotten = user(&me, &mut fountain(&["known", "--json", "--forget", &server.address]));
    assert_eq!((forgotten.status, forgotten.events.len()), (Some(0), 1));
    user(&me, &mut fetch(&server, &into, &["--accept-new"])).succeeded();
    let again = user(&me, &mut fountain(&["known", "--forget", "127.0.0.1"]));
    assert_eq!(again.status, Some(0));
    assert!(known(&me).is_empty(), "a host is forgotten at every port");
    let unknown = user(&me, &mut fountain(&["known", "--forget", "127.0.0.1"]));
    assert_eq!(unknown.status, Some(1), "it was not known");
}

#[test]
fn each_host_is_known_by_its_own_certificate_and_by_no_others() {
    let (served, me, into) = (served(), Folder::new(), Folder::new());
    let (one, other) = (Server::start(served.path(), &[]), Server::start_at("[::1]:0", served.path(), &[]));
    for server in [&one, &other] {
        user(&me, &mut fetch(server, &into, &["--accept-new"])).succeeded();
    }
    // Each shows what the other is known by.
    let file = me.path().join("fountain/known_peers");
    let swapped: Vec<String> = {
        let known = known(&me);
        vec![format!("{} {}\n", known[0].0, known[1].1), format!("{} {}\n", known[1].0, known[0].1)]
    };
    fs::write(&file, swapped.concat()).unwrap();
    let both = format!("{},{}/file", one.address, other.address);
    let mut command =
        fountain(&["fetch", "--json", "--retry", "0", "-o", into.path().to_str().unwrap(), &both]);
    let said = user(&me, &mut command);
    assert_eq!(said.status, Some(1), "{}", said.errors);
    assert!(said.errors.contains("WARNING"), "{}", said.errors);
}

#[test]
fn what_is_wrong_with_the_file_is_said_and_nobody_is_trusted() {
    let (served, me, into) = (served(), Folder::new(), Folder::new());
    let server = Server::start(served.path(), &[]);
    fs::create_dir(me.path().join("fountain")).unwrap();
    fs::write(me.path().join("fountain/known_peers"), "nonsense\n").unwrap();
    let said = user(&me, &mut fetch(&server, &into, &["--accept-new"]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("known_peers, line 1"), "{}", said.errors);
    assert!(into.files().is_empty());
}

#[test]
fn a_host_that_cannot_be_reached_is_not_known_and_can_be_waited_for() {
    let (me, into) = (Folder::new(), Folder::new());
    let mut command = fountain(&["fetch", "--accept-new", "--retry", "0", "127.0.0.1:1/x"]);
    let said = user(&me, command.args(["-o", into.path().to_str().unwrap()]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("cannot be reached"), "{}", said.errors);
    assert!(known(&me).is_empty());
    // Nobody listens there, and an interrupt ends the wait for somebody.
    let mut waits = fountain(&["send", "--accept-new", "--rate", "1M", "127.0.0.1:1", "/etc/hostname"]);
    let child = waits.env("XDG_STATE_HOME", me.path()).spawn().unwrap();
    common::until("it waits", || {
        let sockets = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().filter_map(Result::ok);
        sockets
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|to| to.to_string_lossy().starts_with("socket:"))
    });
    common::interrupt(&child, Signal::INT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
}

/// The command at a terminal of its own, and what somebody types there. What is on the screen in the end.
fn typed(me: &Folder, command: &Command, lines: &str) -> (Option<i32>, String) {
    let quote = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(quote).collect::<Vec<_>>().join(" ");
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    terminal.env("XDG_STATE_HOME", me.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = terminal.spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(lines.as_bytes()).unwrap();
    // The keyboard stays.
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn at_a_terminal_the_user_is_asked_once() {
    let (served, me, into) = (served(), Folder::new(), Folder::new());
    let server = Server::start(served.path(), &[]);
    let fingerprint = server.fingerprint.clone().unwrap();
    let other = "ab".repeat(32);
    for lines in ["no\n", "perhaps\nno\n", &format!("{other}\n")] {
        let (status, screen) = typed(&me, &fetch(&server, &into, &[]), lines);
        assert_eq!(status, Some(1), "{screen}");
        assert!(screen.contains(&fingerprint) && screen.contains("is not trusted"), "{screen}");
        assert!(known(&me).is_empty() && into.files().is_empty(), "{lines:?}");
    }
    let (status, screen) = typed(&me, &fetch(&server, &into, &[]), "yes\n");
    assert_eq!(status, Some(0), "{screen}");
    assert!(into.files() == served.files());
    let (status, screen) = typed(&me, &fetch(&server, &into, &[]), "");
    assert_eq!(status, Some(0), "{screen}");
    assert!(!screen.contains("is not known"), "{screen}");
    // A receiver on the same machine is another host of the same name; the fingerprint itself is an answer as well.
    let receiver = Server::receive_at("127.0.0.1:0", into.path(), &["--overwrite"]);
    let answer = format!("{}\n", receiver.fingerprint.clone().unwrap().to_uppercase());
    let (status, screen) = typed(&me, &send(&receiver, &served.path().join("file"), &[]), &answer);
    assert_eq!(status, Some(0), "{screen}");
    assert_eq!(known(&me).len(), 2);
}

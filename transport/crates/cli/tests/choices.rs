//! What of a directory is transferred, what would be, and how fast at most.

mod common;

use std::fs;
use std::process::Command;

use common::{Folder, Said, Server, fetch, fountain, run};
use serde_json::Value;

fn tree() -> Folder {
    let folder = Folder::new();
    for (name, bytes) in
        [("top/a.o", 10), ("top/a.c", 20), ("top/cache/x", 30), ("top/lib/b.o", 40), ("top/lib/b.c", 50)]
    {
        folder.put(name, bytes);
    }
    fs::create_dir(folder.path().join("top/empty")).unwrap();
    folder
}

fn send(to: &Server, path: &str, arguments: &[&str]) -> Command {
    let mut command = fountain(&["send", "--json", "--insecure", &to.address, path]);
    command.args(arguments);
    command
}

/// Everything below a folder, without what is in files.
fn paths(folder: &Folder) -> Vec<String> {
    folder.tree().into_keys().map(|path| path.to_str().unwrap().to_owned()).collect()
}

fn events<'a>(said: &'a Said, event: &str) -> Vec<&'a Value> {
    said.events.iter().filter(|e| e["event"] == event).collect()
}

#[test]
fn patterns_choose_what_is_transferred_either_way() {
    let served = tree();
    let server = Server::start(served.path(), &["--insecure"]);
    let top = served.path().join("top");
    for (patterns, expected) in [
        (
            &["--exclude", "*.o", "--exclude", "cache/"][..],
            &["top", "top/a.c", "top/empty", "top/lib", "top/lib/b.c"][..],
        ),
        (&["--include", "*.c"], &["top", "top/a.c", "top/lib", "top/lib/b.c"]),
        (&["--include", "*.c", "--exclude", "/top/lib"], &["top", "top/a.c"]),
    ] {
        let (fetched, sent) = (Folder::new(), Folder::new());
        run(fetch(&fetched, &["--insecure", "-r", &server.source("top")]).args(patterns)).succeeded();
        assert_eq!(paths(&fetched), expected, "{patterns:?}");
        let receiver = Server::receive_at("127.0.0.1:0", sent.path(), &["--insecure"]);
        let mut command = send(&receiver, top.to_str().unwrap(), &["--rate", "500M"]);
        run(command.args(patterns)).succeeded();
        assert!(sent.tree() == fetched.tree(), "{patterns:?}");
    }
    let into = Folder::new();
    for arguments in [&["--exclude", "x"][..], &["-r", "--exclude", "[a"], &["-r", "--include", "a/"]] {
        let said = run(fetch(&into, &["--insecure", &server.source("top")]).args(arguments));
        assert_eq!(said.status, Some(2), "{arguments:?}: {}", said.errors);
    }
}

#[test]
fn what_is_left_out_is_not_missed() {
    let served = Folder::new();
    let omitted = served.put_nasty();
    let server = Server::start(served.path(), &["--insecure"]);
    let into = Folder::new();
    let mut command = fetch(&into, &["--insecure", "-r", &server.source("nasty")]);
    for (_, path) in &omitted {
        let name = path.file_name().unwrap().to_string_lossy().replace('\u{fffd}', "*");
        command.args(["--exclude", &name]);
    }
    run(command).succeeded();
    assert_eq!(into.tree(), served.nasty_tree(&omitted));
}

#[test]
fn a_dry_run_of_a_fetch_says_what_would_come_and_changes_nothing() {
    let served = tree();
    let server = Server::start(served.path(), &["--insecure"]);
    let into = Folder::new();
    run(fetch(&into, &["--insecure", "-r", &server.source("top/lib")])).succeeded();
    fs::create_dir(into.path().join("top")).unwrap();
    fs::rename(into.path().join("lib"), into.path().join("top/lib")).unwrap();
    fs::write(into.path().join("top/a.c"), "other").unwrap();
    let before = into.tree();
    let dry = ["--insecure", "--dry-run"];
    let said = run(fetch(&into, &dry).args(["-r", "--exclude", "cache", &server.source("top")]));
    assert_eq!(said.status, Some(0), "{}", said.errors);
    let foreseen: Vec<_> = events(&said, "would_fetch")
        .into_iter()
        .map(|event| {
            let name = event["path"].as_str().unwrap().rsplit('/').next().unwrap();
            (name, event["what"].as_str().unwrap(), event["bytes"].as_u64().unwrap())
        })
        .collect();
    let expected = [("a.c", "replace", 20), ("a.o", "new", 10), ("b.c", "there", 0), ("b.o", "there", 0)];
    assert_eq!(foreseen, expected);
    assert_eq!((&said.done()["files"], &said.done()["bytes"]), (&2.into(), &30.into()));
    assert!(into.tree() == before);
    // A single file, into a directory that there is not; what cannot be fetched is named.
    let new = into.path().join("new/");
    let single = fountain(&["fetch", "--json", "-o", new.to_str().unwrap(), "--insecure", "--dry-run"])
        .args([&server.source("top/a.c")])
        .output()
        .unwrap();
    assert_eq!(events(&Said::of(&single), "would_fetch").len(), 1);
    for path in ["top", "nowhere"] {
        let said = run(fetch(&into, &dry).arg(server.source(path)));
        assert_eq!((said.status, said.failed().len()), (Some(1), 1), "{path}: {}", said.errors);
    }
    assert!(into.tree() == before);
    let text = fountain(&["fetch", "--insecure", "--dry-run", "-r", &server.source("top")]).output().unwrap();
    assert!(String::from_utf8_lossy(&text.stdout).contains("5 files, 150 B would be fetched"));
}

#[test]
fn a_dry_run_of_sending_needs_no_receiver_and_no_rate() {
    let sent = tree();
    let top = sent.path().join("top");
    let arguments =
        ["send", "--json", "--dry-run", "nowhere.invalid", top.to_str().unwrap(), "--exclude", "*.o"];
    let said = run(&mut fountain(&arguments));
    assert_eq!(said.status, Some(0), "{}", said.errors);
    let would = events(&said, "would_send");
    let files = would.iter().filter(|event| event["kind"] == "file");
    let names: Vec<_> = files.map(|event| event["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["top/a.c", "top/cache/x", "top/lib/b.c"]);
    assert_eq!(said.done()["bytes"], 100);
    let nasty = Folder::new();
    let omitted = nasty.put_nasty();
    let path = nasty.path().join("nasty");
    let said =
        run(&mut fountain(&["send", "--json", "--dry-run", "nowhere.invalid", path.to_str().unwrap()]));
    assert_eq!(
        (said.status, said.failed()),
        (Some(1), Folder::named(&omitted).iter().map(String::as_str).collect())
    );
}

#[test]
fn no_command_is_faster_than_its_limit() {
    const BYTES: usize = 2_500_000;
    const LIMIT_BPS: f64 = 20e6;
    let served = Folder::new();
    served.put("file", BYTES);
    let plain = Server::start(served.path(), &["--insecure"]);
    let limited = Server::start(served.path(), &["--insecure", "--limit", "20M"]);
    let per_client = Server::start(served.path(), &["--insecure", "--limit-per-client", "20M"]);
    let within = |said: Said| {
        let said = said.succeeded();
        let goodput = said.done()["goodput_bps"].as_f64().unwrap();
        assert!(goodput < LIMIT_BPS, "{goodput}");
    };
    for (server, limit) in [(&plain, &["--limit", "20M"][..]), (&limited, &[]), (&per_client, &[])] {
        let into = Folder::new();
        within(run(fetch(&into, &["--insecure", &server.source("file")]).args(limit)));
        assert!(into.files() == served.files());
    }
    let into = Folder::new();
    let receiver = Server::receive_at("127.0.0.1:0", into.path(), &["--insecure"]);
    let path = served.path().join("file");
    within(run(send(&receiver, path.to_str().unwrap(), &["--rate", "1G", "--limit", "20M"])));
    let (one, both) = (Folder::new(), Folder::new());
    let receiver = Server::receive_at("127.0.0.1:0", one.path(), &["--insecure", "--limit", "20M"]);
    within(run(send(&receiver, path.to_str().unwrap(), &["--rate", "1G"])));
    let receiver = Server::receive_at("127.0.0.1:0", both.path(), &["--insecure", "--limit", "40M"]);
    let sending = |name| {
        both.put(&format!("from/{name}"), BYTES);
        let from = both.path().join("from").join(name);
        send(&receiver, from.to_str().unwrap(), &["--rate", "1G"]).spawn().unwrap()
    };
    for sender in [sending("a"), sending("b")] {
        let said = Said::of(&sender.wait_with_output().unwrap()).succeeded();
        assert!(said.done()["goodput_bps"].as_f64().unwrap() < 2.0 * LIMIT_BPS);
    }
    for wrong in ["0", "fast", "1000", "-5M"] {
        let said = fountain(&["serve", "/tmp", &format!("--limit={wrong}")]).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{wrong}");
    }
    let paper =
        run(fetch(&into, &["--insecure", "--pacing", "tfrc", "--limit", "20M", &plain.source("file")]));
    assert_eq!(paper.status, Some(2));
}

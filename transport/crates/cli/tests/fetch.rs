//! `fountain serve` and `fountain fetch` over real sockets: trees, resumption after either side was killed, stripes,
//! exit codes, what is printed for programs.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Child;

use common::{Folder, Said, Server, fetch, fountain, interrupt, run, until};

/// Options with which a client is slow enough to be met in the middle.
const SLOW: &[&str] = &["--window", "3000"];
const LARGE: usize = 160_000_000;

fn insecure(folder: &Folder) -> Server {
    Server::start(folder.path(), &["--insecure"])
}

/// Waits until a note says that blocks have come.
fn some_has_come(into: &Folder, name: &str) {
    let note = into.path().join(format!("{name}.fountain-state"));
    until("a note of what has come", || {
        fs::read_to_string(&note).is_ok_and(|text| !text.contains("\"complete\":[]"))
    });
}

fn is_running(process: &mut Child) -> bool {
    process.try_wait().unwrap().is_none()
}

/// The same files with the same contents.
fn same(into: &Folder, served: &Folder) {
    let (is, was) = (into.files(), served.files());
    let differs = |name: &&String| is.get(*name) != was.get(*name);
    let differing: Vec<_> = is.keys().chain(was.keys()).filter(differs).take(9).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

#[test]
fn a_tree_comes_with_its_times_and_modes_in_clear_and_under_tls() {
    let served = Folder::new();
    served.put("tree/empty", 0).put("tree/one", 1).put("tree/deep/er/large", 3_000_000);
    // More names than a few messages hold.
    for n in 0..3_000 {
        served.put(&format!("tree/many/a-file-with-a-rather-long-name-number-{n}"), n % 50);
    }
    let one = served.path().join("tree/one");
    fs::set_permissions(&one, fs::Permissions::from_mode(0o750)).unwrap();
    for secure in [true, false] {
        let server = Server::start(served.path(), if secure { &[] } else { &["--insecure"] });
        let into = Folder::new();
        let trust = match &server.fingerprint {
            Some(fingerprint) => vec!["--fingerprint", fingerprint],
            None => vec!["--insecure"],
        };
        let source = server.source("tree");
        run(fetch(&into, &trust).args(["-r", &source])).succeeded();
        same(&into, &served);
        let (is, was) = (fs::metadata(into.path().join("tree/one")).unwrap(), fs::metadata(&one).unwrap());
        assert_eq!((is.mtime(), is.mtime_nsec(), is.mode()), (was.mtime(), was.mtime_nsec(), was.mode()));
        let stopped = server.stop();
        assert_eq!(stopped["completed"], 3_003, "{stopped}");
        assert_eq!(stopped["abandoned"], 0, "{stopped}");
        assert_eq!(stopped["forged"], 0, "{stopped}");
    }
}

#[test]
fn all_that_is_served_can_be_fetched_at_once() {
    let served = Folder::new();
    served.put("a", 1_000).put("b/c", 2_000);
    let server = insecure(&served);
    let into = Folder::new();
    run(fetch(&into, &["--insecure", "-r", &server.source(".")])).succeeded();
    same(&into, &served);
}

#[test]
fn the_outcome_is_told_to_programs() {
    let served = Folder::new();
    served.put("x", 1_000_000);
    let server = insecure(&served);
    let into = Folder::new();
    let said = run(fetch(&into, &["--insecure", "--hash", &server.source("x")])).succeeded();
    let done = said.done();
    for key in [
        "bytes",
        "seconds",
        "goodput_bps",
        "symbols_received",
        "symbols_needed",
        "symbols_lost",
        "overhead",
        "window_bytes",
    ] {
        assert!(done[key].is_number(), "{key}: {done}");
    }
    assert_eq!(done["bytes"], 1_000_000);
    assert_eq!(done["interrupted"], false);
    let of_server = &done["servers"][0];
    assert_eq!(of_server["addr"], server.address.as_str());
    for key in [
        "rtt_us",
        "symbols",
        "late",
        "lost",
        "given_up",
        "loss_event_rate",
        "unexpected",
        "forged",
        "replayed",
    ] {
        assert!(of_server[key].is_number(), "{key}: {of_server}");
    }
    let file = said.events.iter().find(|e| e["event"] == "file").unwrap();
    let hash = blake3::hash(&fs::read(served.path().join("x")).unwrap()).to_string();
    assert_eq!((file["size"].as_u64(), file["blake3"].as_str()), (Some(1_000_000), Some(hash.as_str())));
    // What is there already is not fetched again.
    let said = run(fetch(&into, &["--insecure", &server.source("x")])).succeeded();
    assert!(said.done()["bytes"].as_u64().unwrap() < 1_000_000, "{}", said.done());
}

#[test]
fn a_client_that_was_killed_goes_on_where_it_was() {
    let served = Folder::new();
    served.put("large", LARGE);
    let server = insecure(&served);
    let into = Folder::new();
    let source = server.source("large");
    let mut client = fetch(&into, &["--insecure", &source]).args(SLOW).spawn().unwrap();
    some_has_come(&into, "large");
    assert!(is_running(&mut client), "it was done before it could be killed");
    client.kill().unwrap();
    client.wait().unwrap();
    assert!(!into.files().contains_key("large"));
    let said = run(fetch(&into, &["--insecure", &source])).succeeded();
    let bytes = said.done()["bytes"].as_u64().unwrap();
    assert!(bytes < LARGE as u64, "{bytes} bytes: it began anew");
    same(&into, &served);
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_gone_on_with_by_the_same_command() {
    let served = Folder::new();
    served.put("large", LARGE);
    let mut server = insecure(&served);
    let into = Folder::new();
    let source = server.source("large");
    let mut client = fetch(&into, &["--insecure", "--retry", "30", &source]).args(SLOW).spawn().unwrap();
    some_has_come(&into, "large");
    assert!(is_running(&mut client));
    server.kill();
    let _again = Server::start_at(&server.address, served.path(), &["--insecure"]);
    let said = Said::of(&client.wait_with_output().unwrap()).succeeded();
    same(&into, &served);
    let bytes = said.done()["bytes"].as_u64().unwrap();
    assert!(bytes < LARGE as u64 + 20_000_000, "{bytes} bytes: it began anew");
}

#[test]
fn a_file_that_changed_while_its_server_was_gone_is_fetched_anew() {
    let served = Folder::new();
    served.put("large", LARGE);
    let server = insecure(&served);
    let into = Folder::new();
    let source = server.source("large");
    let mut client = fetch(&into, &["--insecure", &source]).args(SLOW).spawn().unwrap();
    some_has_come(&into, "large");
    client.kill().unwrap();
    client.wait().unwrap();
    served.put("large", 1_234_567);
    run(fetch(&into, &["--insecure", &source])).succeeded();
    same(&into, &served);
}

#[test]
fn copies_on_three_servers_share_the_work_and_one_may_die() {
    let served = Folder::new();
    served.put("large", LARGE).put("empty", 0).put("small", 10);
    let mut servers = [(); 3].map(|()| insecure(&served));
    let hosts = servers.iter().map(|s| s.address.clone()).collect::<Vec<_>>().join(",");
    let into = Folder::new();
    for name in ["empty", "small"] {
        run(fetch(&into, &["--insecure", &format!("{hosts}/{name}")])).succeeded();
    }
    let source = format!("{hosts}/large");
    let mut client = fetch(&into, &["--insecure", "--silence", "3", &source]).args(SLOW).spawn().unwrap();
    some_has_come(&into, "large");
    assert!(is_running(&mut client));
    servers[1].kill();
    let said = Said::of(&client.wait_with_output().unwrap()).succeeded();
    same(&into, &served);
    let shares: Vec<u64> =
        said.done()["servers"].as_array().unwrap().iter().map(|s| s["symbols"].as_u64().unwrap()).collect();
    assert!(shares.len() == 3 && shares.iter().all(|symbols| *symbols > 0), "{shares:?}");
}

#[test]
fn an_interrupt_keeps_what_has_come_and_says_so() {
    let served = Folder::new();
    served.put("large", LARGE);
    let server = insecure(&served);
    let into = Folder::new();
    let source = server.source("large");
    let client = fetch(&into, &["--insecure", &source]).args(SLOW).spawn().unwrap();
    some_has_come(&into, "large");
    interrupt(&client, rustix::process::Signal::INT);
    let said = Said::of(&client.wait_with_output().unwrap());
    assert_eq!(said.status, Some(130), "{}", said.errors);
    assert_eq!((&said.done()["complete"], &said.done()["interrupted"]), (&false.into(), &true.into()));
    assert!(said.errors.contains("run the same command again to resume"), "{}", said.errors);
    run(fetch(&into, &["--insecure", &source])).succeeded();
    same(&into, &served);
}

#[test]
fn what_cannot_be_fetched_is_an_exit_status_and_the_rest_comes() {
    let served = Folder::new();
    served.put("there", 10);
    let server = insecure(&served);
    let into = Folder::new();
    let said = run(fetch(&into, &["--insecure", &server.source("there"), &server.source("nowhere")]));
    assert_eq!(said.status, Some(1));
    assert!(said.errors.contains("nowhere does not exist"), "{}", said.errors);
    same(&into, &served);
    // Nobody to talk to.
    let said = run(fetch(&into, &["--insecure", "--retry", "0", "127.0.0.1:1/x"]));
    assert_eq!(said.status, Some(1), "{}", said.errors);
    // Nobody to believe; no such option; two files of one name.
    assert_eq!(run(fetch(&into, &[&server.source("there")])).status, Some(2));
    assert_eq!(run(&mut fountain(&["fetch", "--no-such-option", "a:b"])).status, Some(2));
    let twice = run(fetch(&into, &["--insecure", &server.source("there"), &server.source("x/there")]));
    assert_eq!(twice.status, Some(1));
}

#[test]
fn a_nasty_tree_arrives_the_same_or_is_named_file_by_file() {
    let served = Folder::new();
    let omitted = served.put_nasty();
    let server = insecure(&served);
    let into = Folder::new();
    let said = run(fetch(&into, &["--insecure", "-r", &server.source("nasty")]));
    assert_eq!(said.status, Some(1), "{}", said.errors);
    assert_eq!(said.failed(), Folder::named(&omitted));
    assert_eq!(into.tree(), served.nasty_tree(&omitted));
    // With what cannot be fetched gone, all is well.
    for (_, path) in &omitted {
        fs::remove_file(path).unwrap();
    }
    run(fetch(&into, &["--insecure", "-r", &server.source("nasty")])).succeeded();
}

#[test]
fn a_directory_that_is_empty_arrives() {
    let served = Folder::new();
    fs::create_dir_all(served.path().join("a/b")).unwrap();
    let server = insecure(&served);
    let into = Folder::new();
    run(fetch(&into, &["--insecure", "-r", &server.source("a")])).succeeded();
    assert_eq!(into.tree(), served.tree());
}

#[test]
fn links_in_the_output_directory_are_not_followed() {
    let served = Folder::new();
    served.put("tree/file", 10);
    let server = insecure(&served);
    let (into, outside) = (Folder::new(), Folder::new());
    symlink(outside.path(), into.path().join("tree")).unwrap();
    let said = run(fetch(&into, &["--insecure", "-r", &server.source("tree")]));
    assert_eq!(said.status, Some(1), "{}", said.errors);
    assert!(outside.tree().is_empty());
}

#[test]
fn nothing_outside_of_what_is_served_can_be_had() {
    let outside = Folder::new();
    outside.put("secret", 10).put("served/inside", 10);
    let served = outside.path().join("served");
    symlink("../secret", served.join("out")).unwrap();
    symlink(outside.path().join("secret"), served.join("absolute")).unwrap();
    symlink("..", served.join("up")).unwrap();
    symlink("inside", served.join("within")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        served.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let server = Server::start(&served, &["--insecure"]);
    let into = Folder::new();
    for path in ["../secret", "out", "absolute", "up/secret", "a/../../secret", "pipe", "up", "."] {
        let said = run(fetch(&into, &["--insecure", "--retry", "0", &server.source(path)]));
        assert_eq!(said.status, Some(1), "{path}: {}", said.errors);
        assert!(into.files().is_empty(), "{path}");
    }
    run(fetch(&into, &["--insecure", &server.source("within")])).succeeded();
    let into = Folder::new();
    let said = run(fetch(&into, &["--insecure", "-r", &server.source(".")]));
    assert_eq!(said.status, Some(1), "what was left out is told");
    for name in ["out", "absolute", "up", "pipe"] {
        assert!(said.errors.contains(&format!("fountain: {name}: ")), "{name}: {}", said.errors);
    }
    assert_eq!(into.files().into_keys().collect::<Vec<_>>(), ["inside", "within"]);
}

#[test]
fn the_papers_code_and_decoder_are_options() {
    let served = Folder::new();
    served.put("large", 2_000_000).put("small", 70_000);
    let server = insecure(&served);
    for options in [
        &["--decoder", "peeling"][..],
        &["--draw", "independent", "--decoder", "peeling", "--pacing", "tfrc", "--block-symbols", "64"],
        &["--soliton-c", "0.05", "--soliton-delta", "0.5"],
        &["--soliton-c", "1", "--soliton-delta", "0.1", "--draw", "independent", "--decoder", "peeling"],
    ] {
        let into = Folder::new();
        let options = [&["--insecure"], options].concat();
        run(fetch(&into, &options).args([server.source("large"), server.source("small")])).succeeded();
        same(&into, &served);
    }
}

#[test]
fn parameters_that_are_not_to_be_had_are_said_to_be_wrong() {
    for (c, delta) in [("0", "0.7"), ("11", "0.7"), ("0.2", "0"), ("0.2", "2"), ("NaN", "0.7")] {
        let into = Folder::new();
        let options = ["--insecure", "--soliton-c", c, "--soliton-delta", delta, "localhost:x"];
        let said = run(&mut fetch(&into, &options));
        assert_eq!(said.status, Some(2), "{c} {delta}: {}", said.errors);
        assert!(said.errors.contains("c is 0.01 to 2 and delta 0.1 to 1"), "{}", said.errors);
    }
}

//! Services: `serve` and `recv` as a file says, with identities that systemd hands over.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::{Folder, fetch, fountain, interrupt, run};
use rustix::process::Signal;
use serde_json::Value;

/// A service with its first line.
struct Service {
    process: Child,
    listening: Value,
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Service { process, listening: serde_json::from_str(&line).unwrap() }
    }

    fn said(&self, key: &str) -> String {
        self.listening[key].as_str().unwrap().to_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        interrupt(&self.process, Signal::TERM);
        assert!(self.process.wait().unwrap().success());
    }
}

fn config(folder: &Folder, text: &str) -> String {
    let path = folder.path().join("config.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_service_is_what_its_file_says_and_the_command_line_prevails() {
    let (served, other, scratch, into) = (Folder::new(), Folder::new(), Folder::new(), Folder::new());
    served.put("file", 1_000);
    other.put("other", 1_000);
    let text = format!(
        "directory = {:?}\nlisten = \"127.0.0.1:1\"\ninsecure = true\njson = true\nmemory = 200000000\n",
        served.path()
    );
    let file = config(&scratch, &text);
    let arguments = ["serve", "--config", &file, "--listen", "127.0.0.1:0"];
    let service = Service::start(&mut fountain(&arguments));
    run(fetch(&into, &["--insecure", &format!("{}/file", service.said("addr"))])).succeeded();
    let elsewhere = Service::start(fountain(&arguments).arg(other.path()));
    run(fetch(&into, &["--insecure", &format!("{}/other", elsewhere.said("addr"))])).succeeded();
    assert_eq!(into.files().len(), 2);
}

#[test]
fn a_file_that_is_wrong_says_so_and_starts_nothing() {
    let scratch = Folder::new();
    for (command, text, told) in [
        ("serve", "directory = '/srv'\nlistn = '[::]:1'", "unknown key \"listn\": is \"listen\" meant?"),
        ("recv", "directory = '/srv'\noverwrit = true", "is \"overwrite\" meant?"),
        ("serve", "listen = '127.0.0.1:0'", "name a directory"),
        ("serve", "directory = '/srv'\nlisten = 'nowhere'", "invalid value 'nowhere' for '--listen"),
        ("serve", "directory = ", "line 1"),
        ("recv", "directory = '/srv/inbox'", "say who may send"),
    ] {
        let file = config(&scratch, text);
        let output = fountain(&[command, "--config", &file]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {errors}");
        assert!(errors.contains(told), "{text}: {errors}");
    }
    let output = fountain(&["serve", "--config", "/does/not/exist"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/does/not/exist: "));
}

#[test]
fn an_identity_that_systemd_hands_over_is_the_services() {
    let (served, mine, credentials) = (Folder::new(), Folder::new(), Folder::new());
    let id = run(fountain(&["id", "--json"]).env("XDG_STATE_HOME", mine.path()));
    let fingerprint = id.events[0]["fingerprint"].as_str().unwrap();
    let made = mine.path().join("fountain/identity.pem");
    fs::copy(made, credentials.path().join("identity.pem")).unwrap();
    let directory = served.path().to_str().unwrap();
    let command = ["serve", directory, "--listen", "127.0.0.1:0", "--json"];
    let start = |credentials: &Folder| {
        Service::start(fountain(&command).env("CREDENTIALS_DIRECTORY", credentials.path()))
            .said("fingerprint")
    };
    assert_eq!(start(&credentials), fingerprint);
    assert_ne!(start(&Folder::new()), fingerprint, "systemd was not told of any");
}

/// The folder of the package's files.
fn packaging() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../../packaging/debian"].iter().collect()
}

#[test]
fn the_packages_configuration_is_understood() {
    let scratch = Folder::new();
    for (name, directory) in [("serve", "/srv"), ("recv", "/var/lib/fountain-recv/inbox")] {
        let text = fs::read_to_string(packaging().join(format!("{name}.toml"))).unwrap();
        let text = text.replace(directory, scratch.path().to_str().unwrap());
        // All that is proposed, along with the default.
        let proposed = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(option) if option.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => option,
            _ => line,
        });
        let fingerprint = "ab".repeat(32);
        let proposed = proposed.filter(|line| !line.starts_with("client-ca") && !line.starts_with("anyone"));
        let proposed = proposed.collect::<Vec<_>>().join("\n").replace("0123…", &fingerprint);
        assert!(proposed.contains("\nclient = "), "{proposed}");
        let file = config(&scratch, &proposed);
        let mut command = fountain(&[name, "--config", &file, "--listen", "127.0.0.1:0", "--json"]);
        let service = Service::start(&mut command);
        assert_eq!(service.listening["event"], "listening");
    }
}

//! The command `fountain` as a person would use it: servers and clients as processes on the loopback.
#![allow(dead_code)] // Each test program uses a part of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A directory that is removed when the test is over.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fountain-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file of so many bytes that follow from its name.
    pub fn put(&self, name: &str, bytes: usize) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents(name, bytes)).unwrap();
        self
    }

    /// All files beneath it, by their paths.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned();
                    files.insert(name, fs::read(path).unwrap());
                }
            }
        }
        files
    }
}

impl Folder {
    /// Everything beneath it, by its path: type and mode, time, and contents of files.
    pub fn tree(&self) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
        use std::os::unix::fs::MetadataExt;
        let mut tree = BTreeMap::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                let contents = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                let what = (metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), contents);
                tree.insert(path.strip_prefix(&self.0).unwrap().to_owned(), what);
            }
        }
        tree
    }

    /// A tree with everything in it that a transfer may stumble over, below `nasty`. What cannot be transferred, as it is
    /// named for people, and its path.
    pub fn put_nasty(&self) -> [(&'static str, PathBuf); 5] {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::{PermissionsExt, symlink};
        use std::os::unix::net::UnixListener;
        let odd = [
            "plain",
            "with space",
            "a\nb",
            "tab\t",
            "\"quoted\"",
            "-rf",
            "emoji \u{1f980}",
            "*",
            "\u{1b}[31m",
        ];
        for (n, name) in odd.iter().enumerate() {
            self.put(&format!("nasty/{name}"), n * 1000);
        }
        self.put(&format!("nasty/{}", "n".repeat(255 - ".fountain-state.new".len())), 10);
        self.put("nasty/deep/er/and/deeper/file", 70_000).put("nasty/read-only/file", 5);
        let at = |name: &[u8]| self.0.join("nasty").join(std::ffi::OsStr::from_bytes(name));
        for name in ["empty", "deep/empty", "sticky"] {
            fs::create_dir(at(name.as_bytes())).unwrap();
        }
        symlink("plain", at(b"link")).unwrap();
        let nasty = [
            ("bad \\xff\\xfe", at(b"bad \xff\xfe")),
            ("outside", at(b"outside")),
            ("dangling", at(b"dangling")),
            ("to-directory", at(b"to-directory")),
            ("socket", at(b"socket")),
        ];
        fs::write(&nasty[0].1, "x").unwrap();
        symlink("/etc/hostname", &nasty[1].1).unwrap();
        symlink("nothing", &nasty[2].1).unwrap();
        symlink("deep", &nasty[3].1).unwrap();
        drop(UnixListener::bind(&nasty[4].1).unwrap());
        for (name, mode) in
            [("empty", 0o700), ("read-only/file", 0o400), ("read-only", 0o555), ("plain", 0o777)]
        {
            fs::set_permissions(at(name.as_bytes()), fs::Permissions::from_mode(mode)).unwrap();
        }
        nasty
    }

    /// How these are named in the outcome, sorted.
    pub fn named(omitted: &[(&str, PathBuf)]) -> Vec<String> {
        let mut names: Vec<_> = omitted.iter().map(|(name, _)| format!("nasty/{name}")).collect();
        names.sort_unstable();
        names
    }

    /// Its tree below `nasty` as it should arrive, without what cannot be transferred, links as what they lead to.
    pub fn nasty_tree(&self, omitted: &[(&str, PathBuf)]) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
        let mut tree = self.tree();
        for (_, path) in omitted {
            tree.remove(path.strip_prefix(&self.0).unwrap()).unwrap();
        }
        tree.insert("nasty/link".into(), tree[Path::new("nasty/plain")].clone());
        for (mode, ..) in tree.values_mut() {
            *mode &= 0o170_755;
        }
        tree
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn contents(name: &str, bytes: usize) -> Vec<u8> {
    let mut state =
        name.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    (0..bytes.div_ceil(4)).flat_map(|_| next().to_le_bytes()).take(bytes).collect()
}

pub fn fountain(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fountain"));
    // Nobody's own identity is used, or made.
    command
        .env("XDG_STATE_HOME", std::env::temp_dir().join(format!("fountain-state-{}", std::process::id())));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server, or a receiver, that is killed when the test is over.
pub struct Server {
    process: Child,
    /// Takes what it says, so that it never waits for a reader.
    said: Option<JoinHandle<Vec<Value>>>,
    _state: Folder,
    /// What it said first.
    pub told: Value,
    /// HOST:PORT.
    pub address: String,
    pub fingerprint: Option<String>,
}

impl Server {
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", folder, arguments)
    }

    pub fn start_at(listen: &str, folder: &Path, arguments: &[&str]) -> Self {
        Self::spawn("serve", listen, folder, arguments)
    }

    /// A receiver of DFCP, of everyone's files unless the arguments say whose.
    pub fn receive_at(listen: &str, folder: &Path, arguments: &[&str]) -> Self {
        let said = |argument: &&str| matches!(*argument, "--insecure" | "--client" | "--client-ca");
        let anyone: &[&str] = if arguments.iter().any(said) { &[] } else { &["--anyone"] };
        Self::spawn("recv", listen, folder, &[arguments, anyone].concat())
    }

    fn spawn(command: &str, listen: &str, folder: &Path, arguments: &[&str]) -> Self {
        let mut command = fountain(&[command, folder.to_str().unwrap(), "--listen", listen, "--json"]);
        // Each has an identity of its own.
        let state = Folder::new();
        command.args(arguments).env("XDG_STATE_HOME", state.path()).stderr(Stdio::inherit());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let listening: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let address = listening["addr"].as_str().unwrap().to_owned();
        let fingerprint = listening["fingerprint"].as_str().map(ToOwned::to_owned);
        let parse = |line: String| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let said = std::thread::spawn(move || lines.lines().map_while(Result::ok).map(parse).collect());
        Server { process, said: Some(said), _state: state, told: listening, address, fingerprint }
    }

    /// The most bytes that it had in memory at a time.
    pub fn peak_resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        1024 * peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    pub fn source(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }

    /// SIGKILL, and the end of it.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// What it has said since it began, and how it ended.
    pub fn ended(mut self) -> (Vec<Value>, std::process::ExitStatus) {
        let events = self.said.take().unwrap().join().unwrap();
        (events, self.process.wait().unwrap())
    }

    /// SIGTERM, and what it says of itself.
    pub fn stop(mut self) -> Value {
        interrupt(&self.process, rustix::process::Signal::TERM);
        let mut said = self.said.take().unwrap().join().unwrap();
        assert!(self.process.wait().unwrap().success());
        said.pop().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn interrupt(process: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(process);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// What a client said, and how it ended.
pub struct Said {
    pub status: Option<i32>,
    pub events: Vec<Value>,
    pub errors: String,
}

impl Said {
    pub fn of(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        Said {
            status: output.status.code(),
            events: text.lines().map(parse).collect(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The last event, which is the outcome.
    pub fn done(&self) -> &Value {
        self.events
            .iter()
            .find(|e| e["event"] == "done")
            .unwrap_or_else(|| panic!("no outcome: {}", self.errors))
    }

    /// The paths of what was told not to be transferred, sorted.
    pub fn failed(&self) -> Vec<&str> {
        let failed = self.events.iter().filter(|event| event["event"] == "failed");
        let mut paths: Vec<_> = failed.map(|event| event["path"].as_str().unwrap()).collect();
        paths.sort_unstable();
        paths
    }

    pub fn succeeded(self) -> Self {
        assert_eq!(self.status, Some(0), "{}", self.errors);
        assert_eq!(self.done()["complete"], true);
        self
    }
}

pub fn fetch(into: &Folder, arguments: &[&str]) -> Command {
    let mut command = fountain(&["fetch", "--json", "-o", into.path().to_str().unwrap()]);
    command.args(arguments);
    command
}

pub fn run(mut command: impl std::borrow::BorrowMut<Command>) -> Said {
    Said::of(&command.borrow_mut().output().unwrap())
}

/// Waits for something that happens soon.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

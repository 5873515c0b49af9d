//! Peers that were met before, each with the fingerprint that it showed: `known_peers` beside the identity.
//!
//! A line is `HOST:PORT FINGERPRINT`; what could not stand in such a line is written as `%XX`. Lines that begin with `#` are
//! the user's own. The file is replaced whole, by one process at a time.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use udp::tls::Fingerprint;

use crate::args;
use crate::console::{print, say};
use crate::target::Host;
use crate::{Failure, identity};

/// Prints them, or forgets some: `fountain known`.
pub(crate) fn run(args: &args::Known) -> Result<ExitCode, Failure> {
    let known = Known::of_user()?;
    if let Some(host) = &args.forget {
        let forgotten = known.forget(host)?;
        if forgotten == 0 {
            return Err(Failure::new(format!("{} is not known", host.name)));
        }
    }
    for (host, fingerprint) in known.entries()? {
        if args.json {
            let (host, fingerprint) = (host.to_string(), fingerprint.to_string());
            say(&json!({"event": "known", "host": host, "fingerprint": fingerprint}));
        } else {
            print(line(&host, fingerprint));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The file.
pub(crate) struct Known {
    path: PathBuf,
}

impl Known {
    /// The user's own.
    ///
    /// # Errors
    /// There is no place for it.
    pub(crate) fn of_user() -> Result<Self, Failure> {
        let folder = identity::folder().ok_or_else(|| {
            Failure::new(
                "nothing is kept of peers where neither HOME nor XDG_STATE_HOME is set: give --fingerprint or --ca",
            )
        })?;
        Ok(Known { path: folder.join("known_peers") })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Every line that names a peer.
    ///
    /// # Errors
    /// It cannot be read, or has a line that means nothing: what it was meant to say is not guessed.
    pub(crate) fn entries(&self) -> Result<Vec<(Host, Fingerprint)>, Failure> {
        let text = self.text().map_err(|e| self.failure(&e))?;
        let numbered = text.lines().enumerate().filter(|(_, line)| !is_comment(line));
        let parse = |(number, line): (usize, &str)| {
            parse(line).ok_or_else(|| {
                let (path, number) = (self.path.display(), number + 1);
                Failure::new(format!("{path}, line {number}: {line:?} is not \"HOST:PORT FINGERPRINT\""))
            })
        };
        numbered.map(parse).collect()
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add(&self, host: &Host, fingerprint: Fingerprint) -> Result<(), Failure> {
        let line = line(&host.canonical(), fingerprint);
        let change = |mut text: String| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            if text.lines().all(|other| other != line) {
                text.extend([&line, "\n"]);
            }
            text
        };
        self.change(change).map_err(|e| self.failure(&e))
    }

    /// Forgets a peer, of port 0 at any port. How many lines that were.
    ///
    /// # Errors
    /// The system's.
    fn forget(&self, host: &Host) -> Result<usize, Failure> {
        let host = host.canonical();
        let is_meant = |line: &str| {
            let named = parse(line).filter(|_| !is_comment(line));
            named.is_some_and(|(other, _)| other.name == host.name && [0, other.port].contains(&host.port))
        };
        let mut forgotten = 0;
        let change = |text: String| {
            let kept: Vec<&str> = text.lines().filter(|line| !is_meant(line)).collect();
            forgotten = text.lines().count() - kept.len();
            kept.iter().flat_map(|line| [line, "\n"]).collect()
        };
        self.change(change).map_err(|e| self.failure(&e))?;
        Ok(forgotten)
    }

    fn text(&self) -> io::Result<String> {
        match fs::read_to_string(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
            text => text,
        }
    }

    fn change(&self, change: impl FnOnce(String) -> String) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // Not the file itself, which another process may be about to replace.
        let lock = File::options().create(true).append(true).open(self.path.with_extension("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let before = self.text()?;
        let after = change(before.clone());
        if after != before {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(after.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.path)?;
        }
        Ok(())
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::new(format!("{}: {error}", self.path.display()))
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().is_empty() || line.trim_start().starts_with('#')
}

fn line(host: &Host, fingerprint: Fingerprint) -> String {
    format!("{} {fingerprint}", escape(&host.to_string()))
}

fn parse(line: &str) -> Option<(Host, Fingerprint)> {
    let mut words = line.split_ascii_whitespace();
    let (host, fingerprint) = (unescape(words.next()?)?, words.next()?);
    let host = Host::with_port(&host, 0).ok().filter(|host| host.port > 0 && words.next().is_none())?;
    Some((host.canonical(), fingerprint.parse().ok()?))
}

/// Anything but what names and addresses are made of as `%XX`.
fn escape(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b':' | b'[' | b']' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02x}"),
    };
    text.bytes().map(escape).collect()
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::with_port(text, 4860).unwrap()
    }

    fn fingerprint(digit: char) -> Fingerprint {
        digit.to_string().repeat(64).parse().unwrap()
    }

    fn known() -> (tempfile::TempDir, Known) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/known_peers");
        (folder, Known { path })
    }

    #[test]
    fn what_was_added_is_known_under_its_name_however_that_is_written() {
        let (_folder, known) = known();
        assert_eq!(known.entries().unwrap(), []);
        let names = ["Server.Example.", "server.example", "[2001:DB8::0:1]:7", "a b\n#c%41", "grün"];
        for name in names {
            known.add(&host(name), fingerprint('a')).unwrap();
        }
        let named: Vec<String> =
            known.entries().unwrap().into_iter().map(|(host, _)| host.to_string()).collect();
        assert_eq!(named, ["server.example:4860", "[2001:db8::1]:7", "a b\n#c%41:4860", "grün:4860"]);
    }

    #[test]
    fn what_the_user_wrote_stays() {
        let (_folder, known) = known();
        known.add(&host("a"), fingerprint('a')).unwrap();
        let mine = "# mine\n\n  # too\n";
        let text = fs::read_to_string(&known.path).unwrap() + mine;
        fs::write(&known.path, text.trim_end()).unwrap();
        known.add(&host("b"), fingerprint('b')).unwrap();
        assert_eq!(known.forget(&host("a")).unwrap(), 1);
        assert_eq!(known.forget(&host("b:7")).unwrap(), 0);
        assert_eq!(fs::read_to_string(&known.path).unwrap(), format!("{mine}b:4860 {}\n", fingerprint('b')));
        assert_eq!(known.forget(&Host::with_port("B", 0).unwrap()).unwrap(), 1);
        assert_eq!(fs::read_to_string(&known.path).unwrap(), mine);
    }

    #[test]
    fn a_line_that_means_nothing_is_refused_and_kept() {
        for line in ["a:1", "a:1 zz", "a 00", "%zz:1 00", "a:1 b c"] {
            let (_folder, known) = known();
            known.add(&host("b"), fingerprint('b')).unwrap();
            let text = format!("{}{line}\n", fs::read_to_string(&known.path).unwrap());
            fs::write(&known.path, &text).unwrap();
            let told = known.entries().unwrap_err().to_string();
            assert!(told.contains("line 2") && told.contains("HOST:PORT FINGERPRINT"), "{told}");
            assert_eq!(fs::read_to_string(&known.path).unwrap(), text);
        }
    }

    #[test]
    fn many_processes_may_add_at_once() {
        let (_folder, known) = known();
        std::thread::scope(|scope| {
            for n in 0..16 {
                let known = &known;
                scope.spawn(move || known.add(&host(&format!("h{n}")), fingerprint('c')).unwrap());
            }
        });
        assert_eq!(known.entries().unwrap().len(), 16);
        let left = fs::read_dir(known.path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 2, "the file, and its lock");
    }
}

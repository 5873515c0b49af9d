//! The identity of whoever runs `fountain`: made once, kept, and known to peers by its fingerprint.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use udp::tls::Identity;

use crate::Failure;
use crate::args::Id;
use crate::console::{print, say};

/// Prints the fingerprint: `fountain id`.
pub(crate) fn run(args: &Id) -> Result<ExitCode, Failure> {
    let Some(path) = path() else {
        return Err(Failure::new("no identity is kept where neither HOME nor XDG_STATE_HOME is set"));
    };
    let fingerprint = kept(&path)?.fingerprint().to_string();
    if args.json {
        say(&json!({"event": "identity", "fingerprint": fingerprint, "path": path}));
    } else {
        print(fingerprint);
    }
    Ok(ExitCode::SUCCESS)
}

/// The identity of the options `--cert` and `--key`; without them that of a service (`LoadCredential=identity.pem` of
/// systemd), or the user's, which is made if there is none; one for this process alone where there is no place to keep it.
pub(crate) fn of(cert: Option<&Path>, key: Option<&Path>) -> Result<Identity, Failure> {
    match (cert, key, credential(), path()) {
        (Some(cert), Some(key), ..) => Identity::load(cert, key).map_err(Failure::new),
        (_, _, Some(file), _) => Identity::load(&file, &file).map_err(Failure::new),
        (.., Some(path)) => kept(&path),
        (.., None) => Identity::generate().map_err(Failure::new),
    }
}

/// What systemd hands over to a service, if it does.
fn credential() -> Option<PathBuf> {
    let file = PathBuf::from(std::env::var_os("CREDENTIALS_DIRECTORY")?).join("identity.pem");
    file.exists().then_some(file)
}

/// Where things are kept, as the XDG Base Directory Specification has it.
pub(crate) fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("fountain"))
}

fn path() -> Option<PathBuf> {
    Some(folder()?.join("identity.pem"))
}

fn kept(path: &Path) -> Result<Identity, Failure> {
    let cannot = |e: &dyn std::fmt::Display| {
        Failure::new(format!("{}: {e}; give --cert and --key instead", path.display()))
    };
    if !path.exists() {
        make(path).map_err(|e| cannot(&e))?;
    }
    let mode = fs::metadata(path).map_err(|e| cannot(&e))?.mode();
    if mode & 0o077 != 0 {
        return Err(cannot(&format!("others may read this key: chmod 600 {}", path.display())));
    }
    Identity::load(path, path).map_err(|e| cannot(&e))
}

/// Makes it, unless another process does so first.
fn make(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let (_, pem) = Identity::generate_pem()?;
    // Only its owner may read a temporary file.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(pem.as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(e) if e.error.kind() != ErrorKind::AlreadyExists => Err(e.error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_made_once_and_nobody_else_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/identity.pem");
        let fingerprints: Vec<_> = std::thread::scope(|scope| {
            let made: Vec<_> = (0..8).map(|_| scope.spawn(|| kept(&path).unwrap().fingerprint())).collect();
            made.into_iter().map(|made| made.join().unwrap()).collect()
        });
        assert!(fingerprints.iter().all(|f| *f == fingerprints[0]), "{fingerprints:?}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let told = kept(&path).err().unwrap().to_string();
        assert!(told.contains("chmod 600"), "{told}");
    }

    #[test]
    fn a_damaged_one_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.pem");
        fs::write(&path, "nonsense").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(kept(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"nonsense");
    }
}

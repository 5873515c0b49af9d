//! Where a layer that runs answers `fountain acc stats`: a socket of the file system, which says all at once, in JSON.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use udp::acc::Handle;

use super::as_json;
use crate::Failure;

const PATIENCE: Duration = Duration::from_secs(5);

/// The usual places of a device's, the best first: what is root in a namespace of its own may not write to /run.
fn usual(device: &str) -> impl Iterator<Item = PathBuf> {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let name = format!("acc-{device}.sock");
    [Some(PathBuf::from("/run")), of_user]
        .into_iter()
        .flatten()
        .map(move |run| run.join("fountain").join(&name))
}

/// It is there as long as this is.
pub(super) struct Control(PathBuf);

impl Control {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Answers from now on, in a thread.
pub(super) fn serve(path: Option<&Path>, device: &str, layer: Handle) -> Result<Control, Failure> {
    if let Some(path) = path {
        return serve_at(path.to_owned(), layer);
    }
    let mut denied = None;
    for path in usual(device) {
        match serve_at(path, layer.clone()) {
            Ok(control) => return Ok(control),
            Err(failure) => denied = denied.or(Some(failure)),
        }
    }
    Err(denied.unwrap_or_else(|| Failure::new("there is no place to answer at: name one with --control")))
}

fn serve_at(path: PathBuf, layer: Handle) -> Result<Control, Failure> {
    let told = |e: io::Error| Failure::new(format!("{}: {e}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(told)?;
    }
    if UnixStream::connect(&path).is_ok() {
        let message = "another layer answers there: say where this one is to with --control";
        return Err(Failure::new(format!("{}: {message}", path.display())));
    }
    match std::fs::remove_file(&path) {
        // Of one that was killed.
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(told(e)),
    }
    let listener = UnixListener::bind(&path).map_err(told)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).map_err(told)?;
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Some(all) = layer.statistics() else { break };
            // A client that does not listen must not hold up the next one.
            let _ = client.set_write_timeout(Some(PATIENCE));
            let _ = writeln!(&client, "{}", as_json(&all));
        }
    });
    Ok(Control(path))
}

/// Asks the layer of this device.
pub(super) fn ask(path: Option<&Path>, device: &str) -> Result<Value, Failure> {
    let named = path.map(Path::to_owned).or_else(|| usual(device).find(|path| path.exists()));
    let path = named.or_else(|| usual(device).next()).unwrap_or_default();
    let told = |e: io::Error| {
        let advice = match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "; no layer answers there: is `fountain acc up` running?"
            }
            ErrorKind::PermissionDenied => "; it answers its own user and root",
            _ => "",
        };
        Failure::new(format!("{}: {e}{advice}", path.display()))
    };
    let mut stream = UnixStream::connect(&path).map_err(told)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(told)?;
    serde_json::from_str(&text).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

//! Standard input, kept in a file without a name: what is sent has a size, and is read again where it was lost.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::Failure;
use crate::console::bar;
use crate::place::umask;

/// How often an interruption is looked for.
const TICK: Duration = Duration::from_millis(100);
/// Read, and looked for room for, at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of the file system of the temporary directory that stay free: so many, or a part of it if that is less.
const KEEP_FREE_BYTES: u64 = 256 << 20;
const KEEP_FREE_PART: u64 = 8;

/// Reads all of standard input; its bytes and their number, or `None` if that was interrupted.
pub(super) fn stdin(shown: bool, interrupted: &AtomicBool) -> Result<Option<(File, u64)>, Failure> {
    let folder = std::env::temp_dir();
    let cannot = |e: io::Error| {
        Failure::new(format!(
            "cannot keep standard input in {}: {e}; set TMPDIR to a directory with more room",
            folder.display()
        ))
    };
    let file = tempfile::tempfile_in(&folder).map_err(cannot)?;
    // What is made of a pipe has the mode of any new file.
    let mode = 0o666 & !umask().map_err(cannot)?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(cannot)?;
    let bar = bar(shown);
    let copy = file.try_clone().map_err(cannot)?;
    let (told, news) = channel();
    // A thread, since a read that waits for a terminal is not interrupted.
    std::thread::spawn(move || {
        let read = spool(&mut io::stdin().lock(), copy, |bytes| {
            // Nobody listens after an interruption.
            let _ = told.send(Ok(bytes));
        });
        let _ = told.send(read.map(|()| u64::MAX));
    });
    let mut bytes = 0;
    loop {
        match news.recv_timeout(TICK) {
            Ok(Ok(u64::MAX)) => break,
            Ok(Ok(read)) => bytes = read,
            Ok(Err(e)) => return Err(cannot(e)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::new("standard input cannot be read")),
        }
        bar.set_length(bytes);
        bar.set_position(bytes);
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    bar.finish_and_clear();
    Ok(Some((file, bytes)))
}

/// Copies all of `from`, and tells how many bytes that are so far.
fn spool(from: &mut impl Read, mut to: File, tell: impl Fn(u64)) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        require_room(&to, read as u64)?;
        to.write_all(&buffer[..read])?;
        bytes += read as u64;
        tell(bytes);
    }
}

fn require_room(file: &File, bytes: u64) -> io::Result<()> {
    let has = rustix::fs::fstatvfs(file)?;
    let free = has.f_bavail.saturating_mul(has.f_frsize);
    let keep = KEEP_FREE_BYTES.min(has.f_blocks.saturating_mul(has.f_frsize) / KEEP_FREE_PART);
    if free < keep.saturating_add(bytes) {
        let what = format!("it has only {free} bytes free, of which {keep} stay so");
        return Err(io::Error::new(ErrorKind::StorageFull, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn all_of_it_is_kept() {
        let (file, told) = (tempfile::tempfile().unwrap(), RefCell::default());
        let bytes = vec![7; 3 * CHUNK_BYTES + 1];
        let tell = |bytes| RefCell::<Vec<u64>>::borrow_mut(&told).push(bytes);
        spool(&mut bytes.as_slice(), file.try_clone().unwrap(), tell).unwrap();
        assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
        assert_eq!(told.borrow().last(), Some(&(bytes.len() as u64)));
    }

    #[test]
    fn a_file_system_is_not_filled() {
        let file = tempfile::tempfile().unwrap();
        let has = rustix::fs::fstatvfs(&file).unwrap();
        let error = require_room(&file, has.f_bavail * has.f_frsize).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        require_room(&file, 0).unwrap();
    }
}

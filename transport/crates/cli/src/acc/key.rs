//! The file of the key that hosts share: 64 hexadecimal digits.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use proto::acc::KEY_BYTES;

use crate::Failure;
use crate::console::print;

/// Makes a key, in a file that is not there yet.
pub(super) fn make(file: &Path) -> Result<(), Failure> {
    let told = |e| Failure::new(format!("{}: {e}", file.display()));
    let key = udp::random_bytes::<KEY_BYTES>().map_err(told)?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(told)?;
    writeln!(to, "{digits}").and_then(|()| to.sync_all()).map_err(told)?;
    print(format_args!("copy {} to all hosts; whoever has it can speak for any of them", file.display()));
    Ok(())
}

/// Reads a key.
pub(super) fn read(file: &Path) -> Result<[u8; KEY_BYTES], Failure> {
    let told = |e: std::io::Error| {
        Failure::new(format!("{}: {e}; `fountain acc key {}` makes one", file.display(), file.display()))
    };
    let mode = std::fs::metadata(file).map_err(told)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = "others may read it: chmod 600 it, and make another one if they have";
        return Err(Failure::new(format!("{}: {message}", file.display())));
    }
    let text = std::fs::read_to_string(file).map_err(told)?;
    parse(text.trim()).ok_or_else(|| {
        Failure::new(format!("{}: a key is {} hexadecimal digits", file.display(), 2 * KEY_BYTES))
    })
}

fn parse(digits: &str) -> Option<[u8; KEY_BYTES]> {
    if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (n, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made_and_kept_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        make(&one).unwrap();
        make(&other).unwrap();
        assert_ne!(read(&one).unwrap(), read(&other).unwrap());
        assert_eq!(read(&one).unwrap(), read(&one).unwrap());
        assert!(make(&one).is_err(), "it is there");
        std::fs::set_permissions(&one, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(read(&one).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn what_is_no_key_is_told() {
        assert_eq!(parse(&"0f".repeat(32)), Some([0x0f; 32]));
        for wrong in ["", "0f", &"0g".repeat(32), &"+f".repeat(32), &"é".repeat(32), &"0f".repeat(33)] {
            assert_eq!(parse(wrong), None);
        }
    }
}

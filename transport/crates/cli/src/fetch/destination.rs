//! What `--output` means: a directory, a file, or a pipe.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::args::Fetch;
use crate::console;

/// Where what is fetched goes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// Below a directory, under its own name.
    Directory(PathBuf),
    /// Into a directory, under this name.
    File(PathBuf, String),
    /// In the order of its bytes, as to standard output.
    Stream(File),
    /// Nowhere.
    Nothing,
}

/// What the command line says of it.
pub(crate) struct Wanted<'a> {
    pub(crate) output: &'a Path,
    /// It is for a single file.
    pub(crate) single: bool,
    pub(crate) discard: bool,
    pub(crate) dry_run: bool,
}

impl<'a> From<&'a Fetch> for Wanted<'a> {
    fn from(args: &'a Fetch) -> Self {
        let single = args.sources.len() == 1 && !args.recursive;
        Wanted { output: &args.output, single, discard: args.discard, dry_run: args.dry_run }
    }
}

impl Destination {
    /// As for cp: a single file may get a name of its own.
    pub(crate) fn of(wanted: &Wanted<'_>) -> Result<Self, Failure> {
        let Wanted { output, single, discard, dry_run } = *wanted;
        if discard {
            return Ok(Destination::Nothing);
        }
        if output.as_os_str() == "-" {
            if !single {
                return Err(Failure::usage("--output -: standard output takes a single file"));
            }
            if dry_run {
                return Ok(Destination::Nothing);
            }
            console::reserve_stdout_for_data();
            let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(Failure::new)?;
            return Ok(Destination::Stream(stdout.into()));
        }
        if !single || output.as_os_str().as_bytes().ends_with(b"/") {
            return Ok(Destination::Directory(output.to_owned()));
        }
        let cannot =
            |e: &dyn std::fmt::Display| Failure::new(format!("cannot write to {}: {e}", output.display()));
        match fs::metadata(output) {
            Ok(there) if there.is_dir() => Ok(Destination::Directory(output.to_owned())),
            // A link to a file stays what it is, and the file is replaced.
            Ok(there) if there.is_file() => named(&output.canonicalize().map_err(|e| cannot(&e))?),
            Ok(_) if dry_run => Ok(Destination::Nothing),
            // A pipe or a device is written to, and not replaced.
            Ok(_) => {
                File::options().write(true).open(output).map(Destination::Stream).map_err(|e| cannot(&e))
            }
            Err(e) if e.kind() == ErrorKind::NotFound && !output.is_symlink() => named(output),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(cannot(&"it is a link that leads nowhere")),
            Err(e) => Err(cannot(&e)),
        }
    }
}

fn named(path: &Path) -> Result<Destination, Failure> {
    let Some(name) = path.file_name() else { return Ok(Destination::Directory(path.to_owned())) };
    let name = name
        .to_str()
        .ok_or_else(|| Failure::usage(format!("--output {}: its name is not UTF-8", path.display())))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(Destination::File(directory.unwrap_or(Path::new(".")).to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn of(arguments: &[&str]) -> Result<String, String> {
        let line = [&["fountain", "fetch"], arguments].concat();
        let Command::Fetch(args) = Args::parse_from(line).command else { unreachable!() };
        match Destination::of(&Wanted::from(&args)) {
            Ok(Destination::Directory(path)) => Ok(format!("{}/", path.display())),
            Ok(Destination::File(path, name)) => Ok(path.join(name).display().to_string()),
            Ok(Destination::Stream(_)) => Ok("stream".to_owned()),
            Ok(Destination::Nothing) => Ok("nothing".to_owned()),
            Err(e) => Err(e.to_string()),
        }
    }

    #[test]
    fn a_single_file_may_get_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::create_dir(at("directory")).unwrap();
        fs::write(at("file"), "").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for (output, means) in [
            (at("new"), at("new")),
            (at("new/"), format!("{}/", at("new/"))),
            (at("directory"), format!("{}/", at("directory"))),
            (at("file"), fs::canonicalize(at("file")).unwrap().display().to_string()),
            (at("link"), fs::canonicalize(at("file")).unwrap().display().to_string()),
            ("new-name".to_owned(), "./new-name".to_owned()),
            ("..".to_owned(), "../".to_owned()),
            ("/dev/null".to_owned(), "stream".to_owned()),
        ] {
            assert_eq!(of(&["-o", &output, "a:b"]), Ok(means), "{output}");
        }
        assert!(of(&["-o", &at("dangling"), "a:b"]).unwrap_err().contains("leads nowhere"));
        assert_eq!(of(&["a:b"]), Ok("./".to_owned()));
    }

    #[test]
    fn several_files_go_into_a_directory() {
        assert_eq!(of(&["-o", "new", "a:b", "a:c"]), Ok("new/".to_owned()));
        assert_eq!(of(&["-o", "new", "-r", "a:b"]), Ok("new/".to_owned()));
        for arguments in [&["-o", "-", "a:b", "a:c"][..], &["-o", "-", "-r", "a:b"]] {
            assert!(of(arguments).unwrap_err().contains("a single file"));
        }
    }
}

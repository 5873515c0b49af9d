//! Which parts of a directory are transferred: the options `--include` and `--exclude`.

use std::collections::HashSet;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::Failure;

/// What of a directory is transferred; everything, unless patterns say otherwise.
///
/// As for rsync, a pattern means a name at any depth, or with slashes the end of a path; one that begins with a slash is
/// for paths from the top of what is transferred, one that ends with a slash for directories. `*` and `?` stay within a
/// name, `**` does not.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Select {
    /// Leave out what matches, a directory with everything below it: "*.o", "cache/", "/reports/draft-*", "logs/**/*.gz"
    /// (may be given several times)
    #[arg(long, value_name = "GLOB", value_parser = pattern)]
    exclude: Vec<Pattern>,
    /// Of what is not excluded, transfer only files that match, and the directories that they are in (may be given several
    /// times)
    #[arg(long, value_name = "GLOB", value_parser = pattern)]
    include: Vec<Pattern>,
}

/// A pattern of the command line.
#[derive(Clone, Debug)]
struct Pattern {
    glob: Glob,
    /// It is for directories.
    directories: bool,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let (body, directories) = text.strip_suffix('/').map_or((text, false), |body| (body, true));
    let anchored = match body.strip_prefix('/') {
        Some(body) if !body.is_empty() => body.to_owned(),
        None if !body.is_empty() => format!("**/{body}"),
        _ => return Err("it matches nothing; write for example \"*.o\", \"cache/\" or \"/top/name\"".into()),
    };
    let glob = GlobBuilder::new(&anchored).literal_separator(true).backslash_escape(true).build();
    Ok(Pattern { glob: glob.map_err(|e| e.kind().to_string())?, directories })
}

/// Patterns that are ready to be used.
#[derive(Debug)]
pub(crate) struct Selection {
    exclude: GlobSet,
    exclude_directories: GlobSet,
    /// `None`: every file.
    include: Option<GlobSet>,
}

impl Select {
    /// Whether there are any patterns.
    pub(crate) fn is_any(&self) -> bool {
        !self.exclude.is_empty() || !self.include.is_empty()
    }

    /// The patterns as they are used.
    ///
    /// # Errors
    /// They are too many, or too large together.
    pub(crate) fn selection(&self) -> Result<Selection, Failure> {
        let set = |patterns: &[Pattern], directories: bool| {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns.iter().filter(|pattern| directories || !pattern.directories) {
                set.add(pattern.glob.clone());
            }
            set.build().map_err(|e| Failure::usage(format!("--exclude, --include: {e}")))
        };
        if self.include.iter().any(|pattern| pattern.directories) {
            return Err(Failure::usage(
                "--include is for files: write \"name/**\" for what is in a directory",
            ));
        }
        let include = (!self.include.is_empty()).then(|| set(&self.include, false)).transpose()?;
        Ok(Selection {
            exclude: set(&self.exclude, false)?,
            exclude_directories: set(&self.exclude, true)?,
            include,
        })
    }
}

impl Selection {
    /// Which of these paths, each perhaps of a directory, are transferred.
    pub(crate) fn of<'a>(&self, paths: impl Iterator<Item = (&'a str, bool)> + Clone) -> Vec<bool> {
        let wanted = |path: &str| self.include.as_ref().is_none_or(|include| include.is_match(path));
        let mut holders = HashSet::new();
        for (path, is_directory) in paths.clone() {
            if !is_directory && wanted(path) && !self.excludes(path, false) {
                holders.extend(above(path));
            }
        }
        paths
            .map(|(path, is_directory)| {
                let wanted = if is_directory {
                    self.include.is_none() || holders.contains(path)
                } else {
                    wanted(path)
                };
                wanted && !self.excludes(path, is_directory)
            })
            .collect()
    }

    /// Whether a path, or a directory that it is in, is left out.
    fn excludes(&self, path: &str, is_directory: bool) -> bool {
        let itself = if is_directory { &self.exclude_directories } else { &self.exclude };
        itself.is_match(path) || above(path).any(|directory| self.exclude_directories.is_match(directory))
    }
}

/// The directories that a path is in.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a tree; directories end with a slash.
    fn left(exclude: &[&str], include: &[&str]) -> Vec<&'static str> {
        const TREE: [&str; 11] = [
            "top/",
            "top/a.o",
            "top/a.c",
            "top/cache/",
            "top/cache/x",
            "top/lib/",
            "top/lib/b.o",
            "top/lib/cache",
            "top/lib/deep/",
            "top/lib/deep/b.c",
            "top/empty/",
        ];
        let patterns = |texts: &[&str]| texts.iter().map(|text| pattern(text).unwrap()).collect();
        let select = Select { exclude: patterns(exclude), include: patterns(include) };
        let paths = TREE.iter().map(|path| (path.trim_end_matches('/'), path.ends_with('/')));
        let kept = select.selection().unwrap().of(paths);
        TREE.into_iter().zip(kept).filter_map(|(path, kept)| kept.then_some(path)).collect()
    }

    #[test]
    fn everything_is_transferred_without_patterns() {
        assert_eq!(left(&[], &[]).len(), 11);
    }

    #[test]
    fn what_matches_is_left_out_with_all_that_is_below_it() {
        let without = |gone: &[&str], exclude: &[&str]| {
            let all = left(&[], &[]);
            assert_eq!(left(exclude, &[]), all.into_iter().filter(|p| !gone.contains(p)).collect::<Vec<_>>());
        };
        without(&["top/a.o", "top/lib/b.o"], &["*.o"]);
        without(&["top/cache/", "top/cache/x", "top/lib/cache"], &["cache"]);
        without(&["top/cache/", "top/cache/x"], &["cache/"]);
        without(&["top/lib/b.o"], &["lib/*.o"]);
        without(&["top/a.o"], &["/top/*.o"]);
        without(&[], &["/a.o", "/lib", "top*o"]);
        without(&["top/lib/deep/b.c"], &["lib/**/*.c"]);
        without(&["top/cache/x", "top/a.c", "top/a.o"], &["x", "a.[co]"]);
    }

    #[test]
    fn with_an_include_only_such_files_and_their_directories_are_transferred() {
        assert_eq!(left(&[], &["*.c"]), ["top/", "top/a.c", "top/lib/", "top/lib/deep/", "top/lib/deep/b.c"]);
        assert_eq!(left(&["deep/"], &["*.c"]), ["top/", "top/a.c"]);
        assert_eq!(left(&[], &["nothing"]), [""; 0]);
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        for text in ["", "/", "//", "[a", "{a,b"] {
            assert!(pattern(text).is_err(), "{text:?}");
        }
    }
}

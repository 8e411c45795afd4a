//! From a directory to its repository's place for notes, read from git's files as `git rev-parse --git-common-dir` would:
//!
//! ```text
//! /src/app/.git/            a directory               ─► /src/app
//! /src/app-fix/.git         gitdir: /src/app/.git/worktrees/app-fix
//! /src/app/.git/worktrees/app-fix/commondir           ─► /src/app, worktree `app-fix`
//! /src/app.git, submodules  the git directory is not `.git` ─► the git directory itself
//! ```
//!
//! A `.git` file comes with whatever was unpacked there, so what it names must know it, too, and be the user's own.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::Uid;

/// git's own pointer files hold one path.
const MAX_POINTER_BYTES: u64 = 8 * 1024;

/// Where a repository's notes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The directory that holds `.ccmux`.
    pub root: PathBuf,
    /// The linked worktree's name; `None` in the main one.
    pub worktree: Option<String>,
    /// `info/exclude`, where `.ccmux` stands among files of the user.
    pub exclude: Option<PathBuf>,
}

/// Why there is no place for notes.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// No git directory above.
    #[error("{} is in no git repository: go into one, or run `git init`", from.display())]
    None {
        /// Where the search began.
        from: PathBuf,
    },
    /// A `.git` file that leads nowhere, or where it should not.
    #[error("{} is refused: {why}", file.display())]
    Pointer {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// Another user's.
    #[error("{} belongs to another user: work as its owner", dir.display())]
    Foreign {
        /// The git directory.
        dir: PathBuf,
    },
    /// The system said no.
    #[error("can't read {}: {source}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Repository {
    /// The repository that a directory lies in.
    ///
    /// # Errors
    /// If there is none, its files lead astray, or it is another user's.
    pub fn find(from: &Path) -> Result<Self, RepositoryError> {
        let start = canonical(from)?;
        for dir in start.ancestors() {
            let mark = dir.join(".git");
            let Ok(found) = fs::metadata(&mark) else {
                if is_git_dir(dir) {
                    return Self::of_common(dir, None);
                }
                continue;
            };
            if found.is_dir() && is_git_dir(&mark) {
                return Self::of_common(&canonical(&mark)?, None);
            }
            if found.is_file() {
                return Self::of_file(&mark);
            }
        }
        Err(RepositoryError::None { from: from.to_owned() })
    }

    fn of_common(common: &Path, worktree: Option<String>) -> Result<Self, RepositoryError> {
        let owner = fs::metadata(common).map_err(|source| io_at(common, source))?.uid();
        if owner != Uid::effective().as_raw() {
            return Err(RepositoryError::Foreign { dir: common.to_owned() });
        }
        Ok(match common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git")) {
            Some(root) => {
                Self { root: root.to_owned(), worktree, exclude: Some(common.join("info/exclude")) }
            }
            None => Self { root: common.to_owned(), worktree, exclude: None },
        })
    }

    /// A linked worktree, a submodule, or a git directory that was put elsewhere.
    fn of_file(file: &Path) -> Result<Self, RepositoryError> {
        let refused = |why| RepositoryError::Pointer { file: file.to_owned(), why };
        let text = pointer(file)?;
        let named = text.strip_prefix("gitdir: ").ok_or_else(|| refused("it is no `gitdir: PATH`"))?;
        let dir = file.parent().unwrap_or(Path::new("/")).join(named);
        let git_dir = dir.canonicalize().map_err(|_| refused("what it names is not there"))?;
        let common_file = git_dir.join("commondir");
        if !common_file.exists() {
            return match is_git_dir(&git_dir) {
                true => Self::of_common(&git_dir, None),
                false => Err(refused("what it names is no git directory")),
            };
        }
        let common = git_dir.join(pointer(&common_file)?);
        let common = common.canonicalize().map_err(|_| refused("its repository is not there"))?;
        let is_listed = git_dir.parent() == Some(&common.join("worktrees")) && is_git_dir(&common);
        let back = pointer(&git_dir.join("gitdir")).ok().map(|back| git_dir.join(back));
        let knows = back.and_then(|back| back.canonicalize().ok()) == file.canonicalize().ok();
        if !is_listed || !knows {
            return Err(refused("its repository does not know this worktree: run `git worktree repair`"));
        }
        let name = file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        Self::of_common(&common, name)
    }
}

fn is_git_dir(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

fn canonical(path: &Path) -> Result<PathBuf, RepositoryError> {
    path.canonicalize().map_err(|source| io_at(path, source))
}

/// The one line of a pointer file, which may be anything: a FIFO, a device, gigabytes.
fn pointer(path: &Path) -> Result<String, RepositoryError> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let read = || {
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut text = String::new();
        file.take(MAX_POINTER_BYTES).read_to_string(&mut text)?;
        Ok(text.trim_end_matches(['\n', '\r']).to_owned())
    };
    read().map_err(|source| io_at(path, source))
}

fn io_at(path: &Path, source: io::Error) -> RepositoryError {
    RepositoryError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always"]);
        let output = git.args(arguments).current_dir(dir).env("HOME", dir).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn with_commit(dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        git(dir, &["init", "-q"]);
        git(dir, &["commit", "-q", "--allow-empty", "-m", "x"]);
    }

    #[test]
    fn worktrees_share_the_place_of_the_main_repository() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().canonicalize().unwrap().join("app");
        with_commit(&main);
        git(&main, &["worktree", "add", "-q", "../fix"]);
        fs::create_dir_all(main.join("src/deep")).unwrap();
        let found = Repository::find(&main.join("src/deep")).unwrap();
        assert_eq!((&found.root, &found.worktree), (&main, &None));
        assert_eq!(found.exclude, Some(main.join(".git/info/exclude")));
        let linked = Repository::find(&main.join("../fix")).unwrap();
        assert_eq!((&linked.root, linked.worktree.as_deref()), (&main, Some("fix")));
    }

    #[test]
    fn a_submodule_and_a_bare_repository_keep_notes_in_their_git_directory() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        with_commit(&base.join("part"));
        with_commit(&base.join("whole"));
        git(&base.join("whole"), &["submodule", "--quiet", "add", "../part", "sub"]);
        let found = Repository::find(&base.join("whole/sub")).unwrap();
        assert_eq!((found.root, found.exclude), (base.join("whole/.git/modules/sub"), None));
        git(&base, &["init", "-q", "--bare", "bare.git"]);
        assert_eq!(Repository::find(&base.join("bare.git/refs")).unwrap().root, base.join("bare.git"));
    }

    #[test]
    fn where_there_is_no_repository_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        let error = Repository::find(dir.path()).unwrap_err();
        assert!(matches!(error, RepositoryError::None { .. }), "{error}");
    }

    #[test]
    fn a_git_file_that_its_repository_does_not_know_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let main = base.join("app");
        with_commit(&main);
        git(&main, &["worktree", "add", "-q", "../fix"]);
        let evil = base.join("evil");
        fs::create_dir(&evil).unwrap();
        let refused = |text: &[u8]| {
            fs::write(evil.join(".git"), text).unwrap();
            Repository::find(&evil).unwrap_err().to_string()
        };
        let known = format!("gitdir: {}\n", main.join(".git/worktrees/fix").display());
        assert!(refused(known.as_bytes()).contains("git worktree repair"));
        for text in ["", "gitdir: /nowhere\n", "gitdir: /etc\n", "gitdir: ../app\n"] {
            assert!(refused(text.as_bytes()).contains("is refused"), "{text}");
        }
        assert!(refused(&[0xff; 100_000]).contains("can't read"));
        fs::remove_file(evil.join(".git")).unwrap();
        symlink("/dev/zero", evil.join(".git")).unwrap();
        assert!(Repository::find(&evil).is_err());
    }
}

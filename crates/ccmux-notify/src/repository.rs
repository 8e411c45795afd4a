//! From a directory to its repository's place for notes, read from git's files as `git rev-parse --git-common-dir` would:
//!
//! ```text
//! /src/app/.git/            a directory               ─► /src/app
//! /src/app-fix/.git         gitdir: /src/app/.git/worktrees/app-fix
//! /src/app/.git/worktrees/app-fix/commondir           ─► /src/app, worktree `app-fix`
//! /src/app.git, submodules  the git directory is not `.git` ─► the git directory itself
//! ```
//!
//! A `.git` file, or link, comes with whatever was unpacked there, so what it names must name this place, too
//! ([`git_dir`]), and be the user's own: else notes would go to where somebody else wants them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::git_dir::{self, GitDir};

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
                    return Self::of_common(&opened(dir)?, None);
                }
                continue;
            };
            if found.is_dir() && is_git_dir(&mark) {
                return Self::of_dir(dir, &mark);
            }
            if found.is_file() {
                return Self::of_file(dir, &mark);
            }
        }
        Err(RepositoryError::None { from: from.to_owned() })
    }

    fn of_common(common: &GitDir, worktree: Option<String>) -> Result<Self, RepositoryError> {
        let path = common.path();
        if !common.is_ours() {
            return Err(RepositoryError::Foreign { dir: path.to_owned() });
        }
        Ok(match path.parent().filter(|_| path.file_name().is_some_and(|name| name == ".git")) {
            Some(root) => Self { root: root.to_owned(), worktree, exclude: Some(path.join("info/exclude")) },
            None => Self { root: path.to_owned(), worktree, exclude: None },
        })
    }

    /// The usual one, or a link to one.
    fn of_dir(place: &Path, mark: &Path) -> Result<Self, RepositoryError> {
        let git_dir = opened(mark)?;
        match fs::symlink_metadata(mark) {
            Ok(found) if found.is_dir() => Self::of_common(&git_dir, None),
            _ => Self::of_checkout(&git_dir, place, mark),
        }
    }

    /// A linked worktree, a submodule, or a git directory that was put elsewhere.
    fn of_file(place: &Path, mark: &Path) -> Result<Self, RepositoryError> {
        let refused = |why| RepositoryError::Pointer { file: mark.to_owned(), why };
        let (file, text) = File::open(place).and_then(git_dir::mark).map_err(|source| io_at(mark, source))?;
        let named = text.strip_prefix("gitdir: ").ok_or_else(|| refused("it is no `gitdir: PATH`"))?;
        let git_dir = GitDir::open(&place.join(named)).map_err(|_| refused("what it names is not there"))?;
        let Some(common) = git_dir.common().map_err(|_| refused("its repository is not there"))? else {
            return Self::of_checkout(&git_dir, place, mark);
        };
        if !git_dir.is_ours() {
            return Err(RepositoryError::Foreign { dir: git_dir.path().to_owned() });
        }
        if !common.is_one() || !common.lists(&git_dir) || !git_dir.names_back(file) {
            return Err(refused("its repository does not know this worktree: run `git worktree repair`"));
        }
        let name = place.file_name().map(|name| name.to_string_lossy().into_owned());
        Self::of_common(&common, name)
    }

    /// A git directory of its own, elsewhere. One within the place leads nobody elsewhere (`.bare`, and `.git` that names it).
    fn of_checkout(git_dir: &GitDir, place: &Path, mark: &Path) -> Result<Self, RepositoryError> {
        let refused = |why| Err(RepositoryError::Pointer { file: mark.to_owned(), why });
        let here = File::open(place).map_err(|source| io_at(place, source))?;
        match git_dir {
            one if !one.is_one() => refused("what it names is no git directory"),
            one if !one.is_ours() => Err(RepositoryError::Foreign { dir: one.path().to_owned() }),
            one if !one.is_within(place) && !one.is_checked_out_in(here) => refused(
                "the git directory that it names does not name this place: if you put it there, \
                 run `git config core.worktree \"$PWD\"` beside this file, or, if it is bare, work in one of its worktrees",
            ),
            one => Self::of_common(one, None),
        }
    }
}

fn is_git_dir(dir: &Path) -> bool {
    GitDir::open(dir).is_ok_and(|dir| dir.is_one())
}

fn opened(dir: &Path) -> Result<GitDir, RepositoryError> {
    GitDir::open(dir).map_err(|source| io_at(dir, source))
}

fn canonical(path: &Path) -> Result<PathBuf, RepositoryError> {
    path.canonicalize().map_err(|source| io_at(path, source))
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

    /// A repository with a submodule at each of these places, `.git/modules/0` and so on.
    fn with_submodules(base: &Path, places: &[&str]) -> PathBuf {
        with_commit(&base.join("part"));
        let whole = base.join("whole");
        with_commit(&whole);
        for (name, place) in places.iter().enumerate() {
            git(&whole, &["submodule", "--quiet", "add", "--name", &name.to_string(), "../part", place]);
        }
        whole
    }

    #[test]
    fn a_submodule_and_a_bare_repository_keep_notes_in_their_git_directory() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let places = ["sub", "su b#;\"x"];
        let whole = with_submodules(&base, &places);
        for (name, place) in places.into_iter().enumerate() {
            let found = Repository::find(&whole.join(place)).unwrap();
            assert_eq!((found.root, found.exclude), (whole.join(format!(".git/modules/{name}")), None));
        }
        git(&base, &["init", "-q", "--bare", "bare.git"]);
        assert_eq!(Repository::find(&base.join("bare.git/refs")).unwrap().root, base.join("bare.git"));
    }

    #[test]
    fn a_submodule_with_worktrees_and_settings_for_each_is_found_from_all_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let whole = with_submodules(&base, &["sub"]);
        git(&whole.join("sub"), &["worktree", "add", "-q", "../../fix"]);
        git(&whole.join("sub"), &["sparse-checkout", "set", "--cone", "x"]);
        assert!(whole.join(".git/modules/0/config.worktree").exists(), "git has moved core.worktree");
        for (place, worktree) in [(whole.join("sub"), None), (base.join("fix"), Some("fix"))] {
            let found = Repository::find(&place).unwrap();
            assert_eq!((found.root, found.worktree.as_deref()), (whole.join(".git/modules/0"), worktree));
        }
    }

    #[test]
    fn a_worktree_that_is_named_from_where_its_git_directory_is_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().canonicalize().unwrap().join("app");
        with_commit(&main);
        git(&main, &["worktree", "add", "-q", "../fix"]);
        fs::write(main.join(".git/worktrees/fix/gitdir"), "../../../../fix/.git\n").unwrap();
        fs::write(main.join("../fix/.git"), "gitdir: ../app/.git/worktrees/fix\n").unwrap();
        assert_eq!(Repository::find(&main.join("../fix")).unwrap().root, main);
    }

    /// What was unpacked in `evil` would have its notes go to `app`.
    #[test]
    fn a_git_file_or_link_that_names_another_repository_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let whole = with_submodules(&base, &["sub"]);
        let evil = base.join("evil");
        fs::create_dir(&evil).unwrap();
        let refused = || {
            let error = Repository::find(&evil).unwrap_err();
            assert!(matches!(error, RepositoryError::Pointer { .. }), "{error}");
            assert!(error.to_string().contains("git config core.worktree"), "{error}");
            fs::remove_file(evil.join(".git")).unwrap();
        };
        for git_dir in [whole.join(".git"), whole.join(".git/modules/0")] {
            fs::write(evil.join(".git"), format!("gitdir: {}\n", git_dir.display())).unwrap();
            refused();
            symlink(&git_dir, evil.join(".git")).unwrap();
            refused();
        }
        // A worktree's directory of its own, which says that it is kept in another repository.
        fs::create_dir(evil.join("fake")).unwrap();
        fs::write(evil.join(".git"), "gitdir: fake\n").unwrap();
        fs::write(evil.join("fake/gitdir"), "../.git\n").unwrap();
        fs::write(evil.join("fake/commondir"), format!("{}\n", whole.join(".git").display())).unwrap();
        let error = Repository::find(&evil).unwrap_err().to_string();
        assert!(error.contains("does not know this worktree"), "{error}");
    }

    #[test]
    fn a_bare_repository_beside_its_worktrees_is_found_from_above_them_and_from_each() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        with_commit(&base.join("app"));
        git(&base, &["clone", "-q", "--bare", "app", "all/.bare"]);
        fs::write(base.join("all/.git"), "gitdir: ./.bare\n").unwrap();
        git(&base.join("all"), &["worktree", "add", "-q", "-b", "main2", "main"]);
        for (place, worktree) in [("all", None), ("all/main", Some("main"))] {
            let found = Repository::find(&base.join(place)).unwrap();
            assert_eq!(
                (found.root, found.worktree.as_deref()),
                (base.join("all/.bare"), worktree),
                "{place}"
            );
        }
    }

    #[test]
    fn a_name_in_another_encoding_hides_no_setting_of_git() {
        let dir = tempfile::tempdir().unwrap();
        let whole = with_submodules(&dir.path().canonicalize().unwrap(), &["sub"]);
        let config = whole.join(".git/modules/0/config");
        let name = [fs::read(&config).unwrap(), b"[user]\n\tname = Andr\xe9\n".to_vec()].concat();
        fs::write(&config, name).unwrap();
        assert_eq!(Repository::find(&whole.join("sub")).unwrap().root, whole.join(".git/modules/0"));
    }

    #[test]
    fn a_git_directory_that_was_put_elsewhere_is_used_once_it_names_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        git(&base, &["init", "-q", "--separate-git-dir", "apart.git", "app"]);
        let error = Repository::find(&base.join("app")).unwrap_err().to_string();
        assert!(error.contains("run `git config core.worktree \"$PWD\"` beside this file"), "{error}");
        git(&base.join("app"), &["config", "core.worktree", &base.join("app").to_string_lossy()]);
        let found = Repository::find(&base.join("app")).unwrap();
        assert_eq!((found.root, found.exclude), (base.join("apart.git"), None));
        fs::remove_file(base.join("app/.git")).unwrap();
        symlink(base.join("apart.git"), base.join("app/.git")).unwrap();
        assert_eq!(Repository::find(&base.join("app")).unwrap().root, base.join("apart.git"));
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

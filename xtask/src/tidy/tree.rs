//! The texts of the repository, as git sees them: tracked, or new and not ignored.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// One text file.
#[derive(Debug)]
pub struct TextFile {
    /// Relative to the root, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// All text files, and the paths of all files.
#[derive(Debug, Default)]
pub struct Tree {
    /// Files that are UTF-8.
    pub texts: Vec<TextFile>,
    /// Every file, be it text or not.
    pub paths: Vec<String>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let output = git.output().context("can't start git")?;
        if !output.status.success() {
            bail!("git ls-files failed in {}: {}", root.display(), String::from_utf8_lossy(&output.stderr));
        }
        let mut tree = Self::default();
        for path in String::from_utf8_lossy(&output.stdout).split_terminator('\0') {
            // What is tracked but deleted is not there.
            let Ok(bytes) = fs::read(root.join(path)) else {
                continue;
            };
            tree.paths.push(path.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                tree.texts.push(TextFile { path: path.to_owned(), text });
            }
        }
        Ok(tree)
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Our Rust files.
    pub fn sources(&self) -> impl Iterator<Item = &TextFile> {
        let ours = |path: &str| ["crates/", "xtask/", "tests/"].iter().any(|room| path.starts_with(room));
        self.texts.iter().filter(move |file| file.path.ends_with(".rs") && ours(&file.path))
    }

    /// A repository of the given files.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let text =
            |(path, text): &(&str, &str)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() };
        let texts: Vec<TextFile> = files.iter().map(text).collect();
        Self { paths: texts.iter().map(|file| file.path.clone()).collect(), texts }
    }
}

/// A source without its tests module, which stands last in a file.
pub fn without_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]\nmod ").map_or(text, |end| &text[..=end])
}

//! The Homebrew formula: `packaging/homebrew/ccmux.rb` with version, address and sum of the source archive.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::{Release, sums};
use crate::cargo;

/// Writes `ccmux.rb`.
pub fn fill(release: &Release, source: &Path) -> anyhow::Result<()> {
    let path = cargo::root().join("packaging/homebrew/ccmux.rb");
    let template = fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let home = cargo::repository()?;
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let url = format!("{home}/releases/download/v{}/{name}", release.version);
    let words = [
        ("version", release.version.as_str()),
        ("homepage", &home),
        ("url", &url),
        ("sha256", &sums::of(source)?),
    ];
    fs::write(release.dist.join("ccmux.rb"), filled(&template, &words)?).context("can't write ccmux.rb")
}

fn filled(template: &str, words: &[(&str, &str)]) -> anyhow::Result<String> {
    // The comment on top is about the template.
    let body = template.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let text = words.iter().fold(body, |text, (name, word)| text.replace(&format!("{{{{{name}}}}}"), word));
    ensure!(!text.contains("{{"), "something is left to fill in: {text}");
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_to_fill_in() {
        let template = "# About {{version}}\nurl \"{{url}}\"\nsha256 \"{{sha256}}\"\n";
        let words = [("url", "https://x/y"), ("sha256", "00ff")];
        assert_eq!(filled(template, &words).unwrap(), "url \"https://x/y\"\nsha256 \"00ff\"\n");
        assert!(filled(template, &words[..1]).is_err());
    }
}

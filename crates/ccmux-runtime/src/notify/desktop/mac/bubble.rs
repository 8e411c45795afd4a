//! One notice on macOS. The body goes to `terminal-notifier`'s stdin; without that program, title and body are arguments of
//! an AppleScript, never a part of it.
//!
//! `terminal-notifier` hands what a click shall do to a shell. That is one fixed command: it touches a file, in a folder of
//! this notice and this user alone. No text of a notice is in it, and no click can do more.

use std::path::{Path, PathBuf};

use nix::unistd::mkdtemp;
use tokio::time::timeout;

use super::MacTools;
use crate::dir_watch::{DirWatch, Watched};
use crate::notify::Notice;
use crate::notify::desktop::focus::Focus;
use crate::notify::desktop::text::{body, title};
use crate::notify::desktop::{CLICKED_WITHIN, DesktopError, keep_open};
use crate::notify::program::run;

const SCRIPT: [&str; 3] =
    ["on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run"];

pub(in crate::notify::desktop) async fn show(
    notice: &Notice,
    focus: &Focus,
    tools: &MacTools,
) -> Result<(), DesktopError> {
    if let Some(notifier) = &tools.notifier {
        match clickable(notice, focus, notifier).await {
            Ok(()) => return Ok(()),
            Err(why) => {
                tracing::info!(event = "desktop.degraded", why, "shown by osascript: a click does nothing")
            }
        }
    }
    Ok(run(&scripted(notice, &tools.osascript), Vec::new()).await?)
}

fn scripted(notice: &Notice, osascript: &Path) -> Vec<String> {
    let mut argv = vec![osascript.display().to_string()];
    for line in SCRIPT {
        argv.extend(["-e".to_owned(), line.to_owned()]);
    }
    // A title with a leading `-` is an argument all the same: osascript reads no options after the scripts' `--`.
    argv.extend(["--".to_owned(), title(&notice.title), body(&notice.body)]);
    argv
}

async fn clickable(notice: &Notice, focus: &Focus, notifier: &Path) -> Result<(), String> {
    let bell = Bell::new()?;
    let mut watch = DirWatch::new(Watched::Names);
    watch.follow(&bell.dir).map_err(|error| format!("{}: {error}", bell.dir.display()))?;
    let argv = noted(notice, notifier, &bell)?;
    run(&argv, body(&notice.body).into_bytes()).await.map_err(|error| error.to_string())?;
    let (focus, session) = (focus.clone(), notice.session.clone());
    let listening = tokio::spawn(async move {
        if timeout(CLICKED_WITHIN, bell.rings(watch)).await.is_ok() {
            focus.show(&session).await;
        }
    });
    keep_open(listening.abort_handle());
    Ok(())
}

fn noted(notice: &Notice, notifier: &Path, bell: &Bell) -> Result<Vec<String>, String> {
    let file = bell.file();
    let file = file.to_str().ok_or("the folder for temporary files has a name that is no text")?;
    let command = format!("/usr/bin/touch {}", quoted(file));
    // It reads a value with `-`, `[` or `(` in front as something else, unless a backslash stands before it, which it takes off.
    let title = format!("\\{}", title(&notice.title));
    let argv = [notifier.display().to_string(), "-title".to_owned(), title, "-execute".to_owned(), command];
    Ok(argv.to_vec())
}

/// For a shell, as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A folder in which a click makes a file; gone with this value, and then a click does nothing.
#[derive(Debug)]
struct Bell {
    dir: PathBuf,
}

impl Bell {
    fn new() -> Result<Self, String> {
        let template = std::env::temp_dir().join("ccmux-click-XXXXXX");
        let dir = mkdtemp(&template).map_err(|errno| format!("{}: {errno}", template.display()))?;
        Ok(Self { dir })
    }

    fn file(&self) -> PathBuf {
        self.dir.join("clicked")
    }

    async fn rings(&self, mut watch: DirWatch) {
        while !self.file().exists() {
            watch.changed().await;
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.file());
        let _ = std::fs::remove_dir(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(title: &str, body: &str) -> Notice {
        Notice { title: title.into(), body: body.into(), ..crate::notify::tests::notice() }
    }

    /// Field fault 41.
    #[test]
    fn no_text_of_a_notice_is_read_by_a_shell_or_as_an_option() {
        let bell = Bell { dir: "/tmp/it's a 'folder'; rm".into() };
        let argv =
            noted(&notice("-remove ALL", "$(reboot)"), Path::new("/b/terminal-notifier"), &bell).unwrap();
        let touch = r"/usr/bin/touch '/tmp/it'\''s a '\''folder'\''; rm/clicked'";
        assert_eq!(argv, ["/b/terminal-notifier", "-title", r"\-remove ALL", "-execute", touch]);
        let argv = scripted(&notice("-e x", "\" & (do shell script \"id\")"), Path::new("/b/osascript"));
        assert_eq!(argv[7..], ["--", "-e x", "\" & (do shell script \"id\")"]);
        assert_eq!(argv.iter().filter(|word| *word == "-e").count(), 3);
    }

    #[tokio::test]
    async fn a_bell_rings_when_its_file_is_there_and_leaves_nothing() {
        let bell = Bell::new().unwrap();
        let (dir, mut watch) = (bell.dir.clone(), DirWatch::new(Watched::Names));
        watch.follow(&dir).unwrap();
        std::fs::write(bell.file(), "").unwrap();
        timeout(std::time::Duration::from_secs(60), bell.rings(watch)).await.unwrap();
        drop(bell);
        assert!(!dir.exists());
    }
}

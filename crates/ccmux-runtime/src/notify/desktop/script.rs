//! macOS shows notices of `osascript`. Title and body are arguments of the script, never a part of it. A click opens
//! nothing: macOS gives that to applications with a bundle only.

use super::DesktopError;
use super::text::{body, title};
use crate::notify::Notice;
use crate::notify::program::run;

const SCRIPT: [&str; 3] =
    ["on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run"];

pub(super) async fn show(notice: &Notice) -> Result<(), DesktopError> {
    let mut argv = vec!["/usr/bin/osascript".to_owned()];
    for line in SCRIPT {
        argv.extend(["-e".to_owned(), line.to_owned()]);
    }
    // A title with a leading `-` is an argument all the same: osascript reads no options after the scripts' `--`.
    argv.extend(["--".to_owned(), title(&notice.title), body(&notice.body)]);
    Ok(run(&argv, Vec::new()).await?)
}

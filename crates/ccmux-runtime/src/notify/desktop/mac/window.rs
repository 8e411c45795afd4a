//! A tmux client's process → the terminal application that it runs in → its window in front.
//!
//! ```text
//! ps ─► tmux (ttys003) ─► zsh ─► login ─► /System/Applications/Utilities/Terminal.app/…   AppleScript: the tab of ttys003
//!                                         /Users/me/Library/…/iTerm2/iTermServer-3.5      the same, of iTerm2
//!                                         /Applications/WezTerm.app/…                     open -a: the application
//! ```
//!
//! The terminal's name comes from `ps`, and may be anything: it is an argument, and never part of a script.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::MacTools;
use crate::notify::program::run;

/// What finds or raises a window may take so long.
const WITHIN: Duration = Duration::from_secs(3);
/// No process has more ancestors.
const MOST_ANCESTORS: usize = 64;
/// iTerm2's shells run under a server of its own, which outlives it.
const ITERM_SERVER: &str = "iTermServer";

const TERMINAL_SCRIPT: &str = r#"on run argv
    tell application "Terminal"
        repeat with aWindow in windows
            repeat with aTab in tabs of aWindow
                if tty of aTab is (item 1 of argv) then
                    set selected of aTab to true
                    set index of aWindow to 1
                end if
            end repeat
        end repeat
        activate
    end tell
end run"#;

const ITERM_SCRIPT: &str = r#"on run argv
    tell application "iTerm2"
        repeat with aWindow in windows
            repeat with aTab in tabs of aWindow
                repeat with aSession in sessions of aTab
                    if tty of aSession is (item 1 of argv) then
                        tell aWindow to select
                        tell aTab to select
                        tell aSession to select
                    end if
                end repeat
            end repeat
        end repeat
        activate
    end tell
end run"#;

/// A terminal application.
#[derive(Debug, Clone, PartialEq, Eq)]
enum App {
    Terminal,
    Iterm,
    /// The folder of its bundle.
    Other(PathBuf),
}

/// Where somebody looks at a session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seat {
    app: App,
    tty: Option<String>,
}

/// Brings the terminal of that process to the front; says how.
pub(in crate::notify::desktop) async fn raise(client: i32, tools: &MacTools) -> Result<String, String> {
    let list = processes(&tools.ps).await?;
    let seat = seat_of(&list, client).ok_or("no application was found that the tmux client runs in")?;
    let mut whys = Vec::new();
    for argv in ways(&seat, tools) {
        match timeout(WITHIN, run(&argv, Vec::new())).await {
            Ok(Ok(())) => return Ok(format!("window raised by {}", argv[0])),
            Ok(Err(error)) => whys.push(error.to_string()),
            Err(_) => whys.push(format!("{} hangs", argv[0])),
        }
    }
    Err(format!("the window can't be raised: {}", whys.join("; ")))
}

/// Each column by an option of its own: what follows `=` is the header to BSD's `ps`.
async fn processes(ps: &Path) -> Result<String, String> {
    let mut command = Command::new(ps);
    command.args(["-A", "-o", "pid=", "-o", "ppid=", "-o", "tty=", "-o", "comm="]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output();
    match timeout(WITHIN, output).await {
        Ok(Ok(output)) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Err(error)) => Err(format!("{}: {error}", ps.display())),
        Err(_) => Err(format!("{} hangs", ps.display())),
    }
}

/// The next ancestor that is an application, from what `ps` says.
fn seat_of(list: &str, client: i32) -> Option<Seat> {
    let known: HashMap<i32, Process<'_>> = list.lines().filter_map(process).collect();
    let tty = known.get(&client)?.tty.map(|tty| format!("/dev/{tty}"));
    let mut pid = client;
    for _ in 0..MOST_ANCESTORS {
        let process = known.get(&pid)?;
        if let Some(app) = app_of(process.program) {
            return Some(Seat { app, tty });
        }
        pid = process.parent;
    }
    None
}

struct Process<'a> {
    parent: i32,
    tty: Option<&'a str>,
    /// On macOS the whole path, which may hold spaces.
    program: &'a str,
}

fn process(line: &str) -> Option<(i32, Process<'_>)> {
    let (pid, rest) = line.trim().split_once(' ')?;
    let (parent, rest) = rest.trim_start().split_once(' ')?;
    let (tty, program) = rest.trim_start().split_once(' ')?;
    let is_tty = tty.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'/');
    let tty = Some(tty).filter(|_| is_tty);
    Some((pid.parse().ok()?, Process { parent: parent.parse().ok()?, tty, program: program.trim() }))
}

/// The outermost bundle that a program is in: an application's helpers are bundles within it.
fn app_of(program: &str) -> Option<App> {
    let path = Path::new(program);
    if path.file_name()?.to_str()?.starts_with(ITERM_SERVER) {
        return Some(App::Iterm);
    }
    let is_bundle = |part: &&Path| part.extension().is_some_and(|extension| extension == "app");
    let bundle = path.ancestors().filter(is_bundle).last().filter(|bundle| bundle.is_absolute())?;
    Some(match bundle.file_name()?.to_str()? {
        "Terminal.app" => App::Terminal,
        "iTerm.app" => App::Iterm,
        _ => App::Other(bundle.to_owned()),
    })
}

/// What to try, in order. The application alone is better than nothing: whoever sits there may have refused AppleScript.
fn ways(seat: &Seat, tools: &MacTools) -> Vec<Vec<String>> {
    let script = match seat.app {
        App::Terminal => Some(TERMINAL_SCRIPT),
        App::Iterm => Some(ITERM_SCRIPT),
        App::Other(_) => None,
    };
    let tab = script.zip(seat.tty.as_deref()).map(|(script, tty)| {
        let osascript = tools.osascript.display().to_string();
        [osascript, "-e".to_owned(), script.to_owned(), "--".to_owned(), tty.to_owned()].to_vec()
    });
    let name = match &seat.app {
        App::Terminal => "Terminal".to_owned(),
        App::Iterm => "iTerm".to_owned(),
        App::Other(bundle) => bundle.display().to_string(),
    };
    let app = [tools.open.display().to_string(), "-a".to_owned(), name].to_vec();
    tab.into_iter().chain([app]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As macOS prints it.
    const LIST: &str = "\
    1     0 ??       /sbin/launchd
  501     1 ??       /System/Applications/Utilities/Terminal.app/Contents/MacOS/Terminal
  502   501 ttys000  login
  503   502 ttys000  -zsh
  504   503 ttys000  tmux
  611     1 ??       /Users/me/Library/Application Support/iTerm2/iTermServer-3.5.10
  612   611 ttys003  /usr/bin/login
  614   612 ttys003  tmux
  701     1 ??       /Applications/Visual Studio Code.app/Contents/MacOS/Electron
  702   701 ??       /Applications/Visual Studio Code.app/Contents/Frameworks/Code Helper.app/Contents/MacOS/Code Helper
  704   702 ttys005  tmux
  801     1 ??       /usr/sbin/sshd
  804   801 ttys007  tmux
  900   901 ttys008  tmux
  901   900 ttys008  tmux
";

    fn seat(client: i32) -> Option<(App, String)> {
        seat_of(LIST, client).map(|seat| (seat.app, seat.tty.unwrap_or_default()))
    }

    #[test]
    fn the_application_is_an_ancestor_of_the_client() {
        assert_eq!(seat(504), Some((App::Terminal, "/dev/ttys000".into())));
        assert_eq!(seat(614), Some((App::Iterm, "/dev/ttys003".into())));
        let code = App::Other("/Applications/Visual Studio Code.app".into());
        assert_eq!(seat(704), Some((code, "/dev/ttys005".into())), "the outermost bundle");
        assert_eq!(seat(804), None, "somebody far away");
        assert_eq!(seat(900), None, "a list that was taken while processes changed");
        assert_eq!(seat(4), None);
        assert_eq!(seat_of("x\n7\n7 8\n 7 x ttys0 y\n7 1 $(x) relative/X.app/x\n", 7), None);
    }

    fn tools() -> MacTools {
        let [osascript, ps, open] = ["osascript", "ps", "open"].map(PathBuf::from);
        MacTools { notifier: None, osascript, ps, open }
    }

    #[test]
    fn a_tab_is_found_by_its_terminal_and_an_application_by_its_folder() {
        let tty = Some("/dev/ttys000".to_owned());
        let ways_of = |app, tty: &Option<String>| ways(&Seat { app, tty: tty.clone() }, &tools());
        for (app, script, name) in
            [(App::Terminal, TERMINAL_SCRIPT, "Terminal"), (App::Iterm, ITERM_SCRIPT, "iTerm")]
        {
            let tab = ["osascript", "-e", script, "--", "/dev/ttys000"].map(str::to_owned).to_vec();
            let raised = ["open", "-a", name].map(str::to_owned).to_vec();
            assert_eq!(ways_of(app.clone(), &tty), [tab, raised.clone()]);
            assert_eq!(ways_of(app, &None), [raised], "without a terminal no tab is looked for");
        }
        let bundle = "/Applications/\"; do shell script.app";
        assert_eq!(ways_of(App::Other(bundle.into()), &tty), [["open", "-a", bundle]]);
    }

    #[tokio::test]
    async fn a_machine_without_these_programs_says_so() {
        let mut tools = tools();
        tools.ps = "/nowhere/ps".into();
        assert!(raise(1, &tools).await.unwrap_err().starts_with("/nowhere/ps: "));
    }
}

//! A pane that is not ours, perhaps of another server of the user's: when was somebody active who sees it?
//!
//! Nothing is changed there, and no server is started by asking.

use std::path::Path;

use ccmux_policy::UnixMs;

use super::Tmux;
use super::client::{Client, Nonce, args};
use crate::terminal::TerminalError;

impl Tmux {
    /// The window of the pane, then the clients with the window that each shows.
    pub(super) async fn activity_at(
        &self,
        socket: &Path,
        pane: &str,
    ) -> Result<Option<UnixMs>, TerminalError> {
        let nonce = self.nonce.as_str();
        let (window, client) = (
            format!("{nonce}W #{{window_id}}"),
            format!(
                "{nonce}C #{{client_activity}} #{{client_control_mode}} #{{client_readonly}} #{{window_id}}"
            ),
        );
        let list = args(&["display-message", "-p", "-t", pane, &window, ";", "list-clients", "-F", &client]);
        let reply = Client::of_socket(&self.settings, socket).run("list clients", &list).await?;
        Ok(read(&self.nonce, &reply.done("list clients")?.stdout))
    }
}

fn read(nonce: &Nonce, output: &str) -> Option<UnixMs> {
    let window = output.lines().find_map(|line| nonce.strip(line, "W "))?;
    let of_client = |line: &str| {
        let mut fields = line.split(' ');
        let seconds: i64 = fields.next()?.parse().ok()?;
        let (control, readonly) = (fields.next()?, fields.next()?);
        let shows_it = fields.next()? == window && !window.is_empty();
        (control == "0" && readonly == "0" && shows_it).then_some(UnixMs(seconds * 1000))
    };
    output.lines().filter_map(|line| nonce.strip(line, "C ")).filter_map(of_client).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_count_that_show_the_window_and_can_type() {
        let nonce = Nonce::random();
        let lines =
            ["W @3", "C 10 0 0 @3", "C 90 0 0 @4", "C 80 1 0 @3", "C 70 0 1 @3", "C 20 0 0 @3", "C x"];
        let output: String = lines.iter().map(|line| format!("{}{line}\n", nonce.as_str())).collect();
        assert_eq!(read(&nonce, &output), Some(UnixMs(20_000)));
        assert_eq!(read(&nonce, &output.replace("W @3", "W ")), None);
    }
}

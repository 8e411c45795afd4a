//! A pane is shown to whoever is attached, wherever they are.

use super::*;

/// Somebody attached: a client in a pane of a server of its own.
struct Attached(Server);

impl Attached {
    fn to(server: &Server, session: &str) -> Self {
        let outer = Server::new();
        let inner = format!("exec env -u TMUX tmux -L {} attach-session -t '={session}'", server.name);
        let args = ["new-session", "-d", "-x", "100", "-y", "30", inner.as_str()];
        outer.user(&args);
        wait_for(|| !server.user(&["list-clients", "-t", &format!("={session}")]).is_empty());
        Self(outer)
    }

    fn types(&self, key: &str) {
        self.0.user(&["send-keys", key]);
    }
}

fn wait_for(fact: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !fact() {
        assert!(Instant::now() < end, "it did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn at(server: &Server, pane: &str) -> Elsewhere {
    Elsewhere::new(Path::new(&server.user(&["display-message", "-p", "#{socket_path}"])), pane.to_owned())
}

/// Session `work` with windows `one` and `two`, two panes in the second, and session `other`. Returns the first pane of
/// window `two`; everybody looks elsewhere.
fn rooms(server: &Server) -> String {
    server.user(&["new-session", "-d", "-s", "work", "-n", "one", "cat"]);
    let pane = server.user(&["new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "work", "-n", "two", "cat"]);
    server.user(&["split-window", "-t", &pane, "cat"]);
    server.user(&["select-window", "-t", "work:one"]);
    server.user(&["new-session", "-d", "-s", "other", "cat"]);
    pane
}

#[tokio::test]
async fn the_window_and_the_pane_are_selected_for_whoever_is_attached() {
    let server = Server::new();
    let pane = rooms(&server);
    assert_eq!(at(&server, &pane).show().await, Ok(Shown { client: None }), "the next one sees it");
    assert_eq!(server.user(&["display-message", "-p", "-t", "=work:", "#{pane_id}"]), pane);
    server.user(&["select-window", "-t", "work:one"]);
    let _human = Attached::to(&server, "work");
    let shown = at(&server, &pane).show().await.unwrap();
    assert_eq!(shown.client.unwrap().to_string(), server.user(&["list-clients", "-F", "#{client_pid}"]));
    assert_eq!(server.user(&["list-clients", "-F", "#{session_name} #{pane_id}"]), format!("work {pane}"));
}

#[tokio::test]
async fn whoever_is_in_another_session_is_switched() {
    let server = Server::new();
    let pane = rooms(&server);
    let _human = Attached::to(&server, "other");
    at(&server, &pane).show().await.unwrap();
    assert_eq!(server.user(&["list-clients", "-F", "#{session_name} #{pane_id}"]), format!("work {pane}"));
    let gone = at(&server, "%99").show().await;
    assert!(matches!(gone, Err(TerminalError::NoPane(_))), "{gone:?}");
}

#[tokio::test]
async fn only_whoever_looks_at_the_pane_counts_as_active_there() {
    let server = Server::new();
    let pane = rooms(&server);
    let human = Attached::to(&server, "work");
    assert_eq!(at(&server, &pane).active_at().await, Ok(None), "another window is shown");
    let attached: i64 = server.user(&["list-clients", "-F", "#{client_activity}"]).parse().unwrap();
    at(&server, &pane).show().await.unwrap();
    wait_for(|| {
        human.types("x");
        server.user(&["list-clients", "-F", "#{client_activity}"]).parse::<i64>().unwrap() > attached
    });
    let active_at = at(&server, &pane).active_at().await.unwrap().unwrap();
    assert!(active_at.0 > attached * 1000, "{active_at:?} {attached}");
}

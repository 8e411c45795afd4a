//! Output and silence of the pane, and the pipe that tells of them.

use super::*;

struct Watched {
    news: mpsc::Receiver<PaneNews>,
    task: tokio::task::JoinHandle<()>,
}

impl Watched {
    fn new(server: &Server) -> Self {
        let (sender, news) = mpsc::channel(16);
        let tmux = Arc::clone(&server.tmux);
        Self { news, task: tokio::spawn(async move { tmux.watch_output(sender).await }) }
    }

    async fn next(&mut self) -> PaneNews {
        tokio::time::timeout(Duration::from_secs(20), self.news.recv())
            .await
            .expect("news in time")
            .expect("news")
    }
}

fn is_piped(server: &Server) -> bool {
    server.user(&["display-message", "-p", "-t", "=ccmux:", "#{pane_pipe}"]) == "1"
}

#[tokio::test]
async fn output_and_silence_are_told_once_each() {
    let server = Server::new();
    let pane = server.start(&["sh", "-c", "stty -echo; exec cat"]).await;
    let mut watched = Watched::new(&server);
    assert_eq!(watched.next().await, PaneNews::Silent, "silent from the start");
    let begun = Instant::now();
    for _ in 0..3 {
        server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
    }
    assert_eq!(watched.next().await, PaneNews::Active);
    assert_eq!(watched.next().await, PaneNews::Silent);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(watched.news.try_recv().is_err());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_process_stays_between_the_pane_and_us() {
    let server = Server::new();
    let pane = server.start(&["cat"]).await;
    let mut watched = Watched::new(&server);
    watched.next().await;
    assert!(is_piped(&server));
    let of_server = server.user(&["display-message", "-p", "#{pid}"]);
    until("only the agent is left", async || {
        let children = std::fs::read_to_string(format!("/proc/{of_server}/task/{of_server}/children"));
        children.expect("a server").trim() == pane.pid.to_string()
    })
    .await;
}

#[tokio::test]
async fn since_when_the_pane_is_silent_is_known_as_long_as_it_is_watched() {
    let server = Server::new();
    let pane = server.start(&["sh", "-c", "stty -echo; exec cat"]).await;
    let silent_since = async || server.capture().await.silent_since;
    assert_eq!(silent_since().await, None, "nobody watches");
    let mut watched = Watched::new(&server);
    assert_eq!(watched.next().await, PaneNews::Silent);
    let before = silent_since().await.expect("watched");
    server.capture().await;
    assert_eq!(silent_since().await, Some(before), "a look is no output");
    server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
    assert_eq!(watched.next().await, PaneNews::Active);
    assert!(silent_since().await > Some(before));
    drop(watched.news);
    watched.task.await.expect("no panic");
    assert_eq!(silent_since().await, None);
}

/// Field fault 18.
#[tokio::test]
async fn a_pipe_that_breaks_is_mounted_again() {
    let server = Server::new();
    let pane = server.start(&["sh", "-c", "stty -echo; exec cat"]).await;
    let mut watched = Watched::new(&server);
    assert_eq!(watched.next().await, PaneNews::Silent);
    server.user(&["pipe-pane", "-t", &pane.id]);
    assert_eq!(watched.next().await, PaneNews::Silent, "mounted, and nothing came");
    server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
    assert_eq!(watched.next().await, PaneNews::Active);
}

#[tokio::test]
async fn a_new_agent_is_watched_in_the_old_pane_and_in_a_new_server() {
    let server = Server::new();
    let script = "stty -echo; echo hello; exec cat";
    let mut watched = Watched::new(&server);
    let pane = server.start(&["sh", "-c", script]).await;
    watched.heard_something().await;
    kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
    server.dead().await;
    server.start(&["sh", "-c", script]).await;
    watched.heard_something().await;
    server.user(&["kill-server"]);
    until("the server is gone", async || server.tmux.find().await == Ok(None)).await;
    let pane = server.start(&["sh", "-c", script]).await;
    watched.heard_something().await;
    server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
    assert_eq!(watched.next().await, PaneNews::Active);
}

impl Watched {
    /// Up to the silence that follows.
    async fn heard_something(&mut self) {
        while self.next().await != PaneNews::Silent {}
    }
}

#[tokio::test]
async fn the_watch_ends_with_its_listener_and_takes_socket_and_pipe_along() {
    let server = Server::new();
    let pane = server.start(&["cat"]).await;
    let mut watched = Watched::new(&server);
    watched.next().await;
    assert!(server.tmux.settings.sink_socket.exists());
    drop(watched.news);
    tokio::time::timeout(Duration::from_secs(10), watched.task).await.expect("it ends").expect("no panic");
    assert!(!server.tmux.settings.sink_socket.exists());
    // tmux notices when it next has something to write.
    server.tmux.inject(guard(&pane), vec!["text".to_owned()]).await.expect("typed");
    until("the pipe is gone", async || !is_piped(&server)).await;
}

#[tokio::test]
async fn whoever_waits_for_output_is_told_of_what_came_after_the_moment_and_of_nothing_before() {
    let server = Server::new();
    let pane = server.start(&["sh", "-c", "stty -echo; exec cat"]).await;
    let mut watched = Watched::new(&server);
    assert_eq!(watched.next().await, PaneNews::Silent);
    let before = tokio::time::Instant::now();
    server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
    assert_eq!(watched.next().await, PaneNews::Active);
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, server.tmux.wrote_after(before)).await.expect("it was told");
    assert_eq!(watched.next().await, PaneNews::Silent);
    let mut later = Box::pin(server.tmux.wrote_after(tokio::time::Instant::now()));
    assert!(tokio::time::timeout(Duration::ZERO, &mut later).await.is_err(), "nothing was written since");
    server.tmux.inject(guard(&pane), vec!["more\n".to_owned()]).await.expect("typed");
    tokio::time::timeout(limit, later).await.expect("it was told");
}

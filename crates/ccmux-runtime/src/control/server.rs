//! Accepts connections on `control.sock` and answers line by line.
//!
//! A peer of another uid is hung up on. A frame that can't be read is answered with what is wrong in it; the connection
//! stays usable.

use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::Event;
use ccmux_wire::WIRE_VERSION;
use ccmux_wire::control::{ErrorCode, Reply, Request};
use ccmux_wire::halves;
use ccmux_wire::hook::{HookFrame, HookReply, MAX_FRAME_BYTES};
use ccmux_wire::opencode::OpencodeHello;
use nix::unistd::Uid;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::attention::AttentionDesk;
use super::hooks::{HookFront, session_of};
use super::interrupt::InterruptDesk;
use super::notes::NotesDesk;
use super::principal::{Principal, Sender, of_hook, of_tool};
use super::reload::Reloader;
use super::requests::Answers;
use super::{opencode, permission};
use super::{questions, tools};
use crate::afar::{self, Waiting};
use crate::body::logged;
use crate::containers::ContainerDesk;
use crate::mcp::Tools;
use crate::metrics::Metrics;
use crate::terminal::Terminal;

/// A hook's event must find room in the queue within that time; the hook itself gives up at 300 ms.
const HOOK_WITHIN: Duration = Duration::from_millis(200);
/// More at once are hung up on: descriptors are needed for tmux and for channels, too. Subscribers are counted elsewhere.
const MAX_CONNECTIONS: usize = 512;
/// The first line must come within that time, and each line once it has begun: a connection that says nothing takes the
/// place of one that would.
const LINE_WITHIN: Duration = Duration::from_secs(30);
/// At shutdown a tool that is being done gets this long: who asked for it must know what became of it.
const TOOL_ENDS_WITHIN: Duration = Duration::from_secs(2);
/// After a failed accept (no descriptors left) this long nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Everything a connection needs.
#[derive(Debug)]
pub struct Desk<T> {
    /// Answers clients.
    pub answers: Answers<T>,
    /// Reads hooks.
    pub hooks: HookFront,
    /// Knows what waits for somebody.
    pub attention: AttentionDesk,
    /// Answers from afar.
    pub afar: afar::Answers,
    /// Stops turns.
    pub interrupt: InterruptDesk,
    /// Knows what agents leave for each other.
    pub notes: NotesDesk,
    /// Reads again what can be.
    pub reloader: Reloader,
    /// Does Claude's tools.
    pub tools: Tools,
    /// Where hooks' events go.
    pub events: mpsc::Sender<Event>,
    /// The owned session's token.
    pub token: String,
    /// Counts hooks.
    pub metrics: Metrics,
    /// Makes directories for containers.
    pub containers: ContainerDesk,
    /// Claude is told to ask through its question tool.
    pub enforce_questions: bool,
}

/// The task.
#[derive(Debug)]
pub struct Control<T> {
    /// Shared by all connections.
    pub desk: Arc<Desk<T>>,
    /// Bound by the caller.
    pub listener: UnixListener,
    /// Ends all connections.
    pub shutdown: CancellationToken,
}

impl<T: Terminal> Control<T> {
    /// Runs until shutdown.
    pub async fn run(self) {
        let connections = TaskTracker::new();
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let stream = tokio::select! {
                () = self.shutdown.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match stream {
                Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => {
                        let (desk, shutdown) = (Arc::clone(&self.desk), self.shutdown.clone());
                        connections.spawn(serve(desk, stream, place, shutdown));
                    }
                    Err(_) => tracing::warn!(event = "control.full", connections = MAX_CONNECTIONS),
                },
                Err(error) => {
                    tracing::warn!(event = "control.accept_failed", %error);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }
}

/// What a line led to.
enum Answer {
    Line(Vec<u8>),
    Stream(ccmux_wire::output::Wish),
    Channels,
    /// A hook that waits for somebody far away.
    Hold(Waiting),
    Opencode(OpencodeHello),
}

async fn serve<T: Terminal>(
    desk: Arc<Desk<T>>,
    stream: UnixStream,
    place: OwnedSemaphorePermit,
    shutdown: CancellationToken,
) {
    let Ok(peer) = stream.peer_cred() else { return };
    if peer.uid() != Uid::effective().as_raw() {
        tracing::warn!(event = "control.refused", uid = peer.uid());
        return;
    }
    let mut stream = BufReader::new(stream);
    let mut has_spoken = false;
    loop {
        let line = tokio::select! {
            () = shutdown.cancelled() => return,
            line = next_line(&mut stream, has_spoken) => line,
        };
        has_spoken = true;
        let Some(line) = line else { return };
        let request = parse(&line);
        let late = ends(&shutdown, matches!(request, Ok(Request::Tool(_))));
        let answer = tokio::select! {
            () = late => return,
            answer = desk.answer(request, peer.pid()) => answer,
        };
        match answer {
            Answer::Channels => return tools::tell_channels(stream, desk.tools.changes(), shutdown).await,
            Answer::Opencode(hello) => {
                let Ok(_place) = Arc::clone(&desk.attention.opencodes).try_acquire_owned() else { return };
                drop(place);
                return opencode::follow(stream, hello, desk.attention.ears.clone(), shutdown).await;
            }
            Answer::Line(reply) => {
                if stream.get_mut().write_all(&reply).await.is_err() {
                    return;
                }
            }
            Answer::Hold(waiting) => return hold(stream, waiting, shutdown).await,
            Answer::Stream(wish) => {
                drop(place);
                let broadcast = desk.answers.turns.broadcast().clone();
                return broadcast.subscribe(stream.into_inner(), Some(wish), shutdown).await;
            }
        }
    }
}

/// The hook stays for one more line. It is let go without one when the dialog is gone, time is up, or the daemon stops.
async fn hold(mut stream: BufReader<UnixStream>, mut waiting: Waiting, shutdown: CancellationToken) {
    let wait = HookReply { wait_s: Some(waiting.wait_s()), ..HookReply::ok() };
    if stream.get_mut().write_all(&line_of_reply(&wait)).await.is_err() {
        return;
    }
    let printed = tokio::select! {
        () = shutdown.cancelled() => None,
        // It says nothing more: whatever comes is its end.
        _gone = stream.read_u8() => None,
        printed = waiting.outcome() => printed,
    };
    if let Some(stdout) = printed {
        let reply = HookReply { stdout: Some(stdout), ..HookReply::ok() };
        if let Err(error) = stream.get_mut().write_all(&line_of_reply(&reply)).await {
            tracing::warn!(event = "permission.not_printed", %error);
        }
    }
}

/// When an answer is no longer waited for.
async fn ends(shutdown: &CancellationToken, does_a_tool: bool) {
    shutdown.cancelled().await;
    if does_a_tool {
        sleep(TOOL_ENDS_WITHIN).await;
    }
}

/// The next line, for which one that has spoken before may take any time to begin.
async fn next_line(stream: &mut BufReader<UnixStream>, has_spoken: bool) -> Option<Vec<u8>> {
    if has_spoken {
        stream.fill_buf().await.ok()?;
    }
    match timeout(LINE_WITHIN, read_line(stream)).await {
        Ok(line) => line,
        Err(_elapsed) => {
            tracing::info!(event = "control.idle", "a connection was hung up on: no whole line came in time");
            None
        }
    }
}

/// A line without its newline; `None` at the end, or when a line is longer than any frame may be.
async fn read_line(stream: &mut BufReader<UnixStream>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let limit = MAX_FRAME_BYTES as u64 + 1;
    let read = stream.take(limit).read_until(b'\n', &mut line).await.ok()?;
    (read > 0 && line.len() <= MAX_FRAME_BYTES).then_some(line)
}

impl<T: Terminal> Desk<T> {
    async fn answer(&self, request: Result<Request, Box<Reply>>, peer: Option<i32>) -> Answer {
        match request {
            Err(reply) => line_of(&reply),
            Ok(Request::Hook(frame)) => self.hook(&frame, peer).await,
            Ok(Request::Subscribe(wish)) => Answer::Stream(wish),
            Ok(Request::Channels) => Answer::Channels,
            Ok(Request::Container(request)) => line_of(&self.containers.owner(request, peer).await),
            Ok(Request::Opencode(hello)) => Answer::Opencode(hello),
            Ok(request) => line_of(&self.request(request).await),
        }
    }

    fn principal(&self, request: &Request) -> Principal {
        match request {
            Request::Tool(call) => of_tool(call, &self.token),
            _ => Principal::Owner,
        }
    }

    async fn request(&self, request: Request) -> Reply {
        let principal = self.principal(&request);
        if !principal.may(&request) {
            let whose = match principal {
                Principal::Owner => "only within a container that `ccmux run` started",
                _ => "not from here: ask as the user who runs the daemon",
            };
            return Reply::refused(ErrorCode::NotAllowed, whose);
        }
        match request {
            Request::Tool(call) => {
                tracing::debug!(event = "tool.called", tool = %call.name, own = principal == Principal::OwnSession);
                tools::tool(&self.tools, call).await
            }
            Request::Send(send) => self.answers.send(send).await,
            Request::Status => self.answers.status().await,
            Request::Why => self.answers.why().await,
            Request::Screen { ansi } => self.answers.screen(ansi).await,
            Request::Broadcast(shown) => self.answers.broadcast(shown),
            Request::Reload => self.reload().await,
            Request::Inbox(request) => self.answers.inbox(request).await,
            Request::Attention { unlike } => self.attention.standing(unlike).await,
            Request::Mute(mute) => self.attention.mute(mute).await,
            Request::Notify(news) => self.notes.news(news),
            Request::TestRoute { route } => self.attention.test(&route).await,
            Request::Permission(request) => permission::answer(&self.afar, request).await,
            Request::Interrupt => self.interrupt.ask().await,
            Request::Hook(_)
            | Request::Subscribe(_)
            | Request::Channels
            | Request::Container(_)
            | Request::Guest(_)
            | Request::Opencode(_) => Reply::refused(ErrorCode::NotAllowed, "not here"),
        }
    }

    async fn reload(&self) -> Reply {
        match self.reloader.reload().await {
            Ok(reloaded) => Reply { reload: Some(reloaded), ..Reply::ok() },
            Err(why) => Reply::refused(ErrorCode::Rejected, why),
        }
    }

    /// Answered at once: what follows from a hook is nothing that Claude should wait for, unless somebody far away may
    /// answer what it asks.
    async fn hook(&self, frame: &HookFrame, peer: Option<i32>) -> Answer {
        let agent = self.answers.agent.borrow().as_ref().map(|agent| agent.pid);
        let principal = of_hook(frame, Sender { pid: peer, token: &self.token, agent });
        self.metrics.hooked(&frame.event);
        note_hook(frame, &principal);
        let origin = principal.origin();
        let doubled = self.hooks.came_already(frame, origin);
        let waiting = self.ask_from_afar(frame, &principal, doubled);
        if doubled {
            return waiting.map_or_else(|| line_of(&HookReply::ok()), Answer::Hold);
        }
        self.attention.hook(frame, origin, &self.hooks);
        if let Some(event) = self.hooks.event_of(frame, origin)
            && timeout(HOOK_WITHIN, self.events.send(event)).await.is_err()
        {
            tracing::error!(event = "hook.dropped", hook = %frame.event);
        }
        match waiting {
            Some(waiting) => Answer::Hold(waiting),
            None => line_of(&self.hook_reply(frame, &principal).await),
        }
    }

    /// What the hook prints, if anything.
    async fn hook_reply(&self, frame: &HookFrame, principal: &Principal) -> HookReply {
        let reply = match principal {
            // A path that comes from elsewhere than this user's own processes is none of this machine.
            Principal::OwnSession | Principal::Foreign(_) => self.notes.hook(frame).await,
            Principal::Owner | Principal::Container(_) => HookReply::ok(),
        };
        let instruction = || self.instruction(&frame.event).filter(|_| *principal == Principal::OwnSession);
        HookReply { stdout: reply.stdout.or_else(instruction), ..HookReply::ok() }
    }

    /// Sessions that others run are answered at their terminals.
    fn ask_from_afar(&self, frame: &HookFrame, principal: &Principal, doubled: bool) -> Option<Waiting> {
        let session = session_of(&frame.payload).filter(|_| *principal == Principal::OwnSession)?;
        self.afar.hook(frame, &session);
        self.afar.ask(frame, session, doubled)
    }

    /// What a hook of that event has to print.
    pub(crate) fn instruction(&self, event: &str) -> Option<Value> {
        questions::instruction(event).filter(|_| self.enforce_questions)
    }
}

/// A payload holds prompts, last messages and what tools are called with.
fn note_hook(frame: &HookFrame, principal: &Principal) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        let payload = frame.payload.to_string();
        let own = *principal == Principal::OwnSession;
        tracing::debug!(event = "hook.received", hook = %frame.event, own, bytes = payload.len(), body = logged(payload));
    }
}

/// Reads a frame step by step, so that the error names what is wrong.
///
/// # Errors
/// The reply that says what is wrong with it.
pub fn parse(line: &[u8]) -> Result<Request, Box<Reply>> {
    let bad = |why: String| Box::new(Reply::refused(ErrorCode::BadFrame, why));
    let mut value: Value =
        halves::from_slice(line).map_err(|error| bad(format!("the line is no JSON: {error}")))?;
    let Value::Object(fields) = &mut value else {
        return Err(bad("the line is no JSON object".to_owned()));
    };
    match fields.remove("v") {
        None => {}
        Some(version) if version == WIRE_VERSION => {}
        Some(version) => {
            let why =
                format!("version {version} is not spoken here, only {WIRE_VERSION}: update the older side");
            return Err(Box::new(Reply::refused(ErrorCode::BadVersion, why)));
        }
    }
    serde_json::from_value(value).map_err(|error| bad(error.to_string()))
}

fn line_of(reply: &impl Serialize) -> Answer {
    Answer::Line(line_of_reply(reply))
}

fn line_of_reply(reply: &impl Serialize) -> Vec<u8> {
    let mut line =
        serde_json::to_vec(reply).unwrap_or_else(|_| br#"{"ok":false,"code":"internal"}"#.to_vec());
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(line: &str) -> (Option<ErrorCode>, String) {
        let reply = parse(line.as_bytes()).unwrap_err();
        (reply.code, reply.error.unwrap_or_default())
    }

    #[test]
    fn what_is_wrong_with_a_frame_is_named() {
        assert_eq!(error_of("{").0, Some(ErrorCode::BadFrame));
        assert_eq!(error_of("[1]").0, Some(ErrorCode::BadFrame));
        let (code, why) = error_of(r#"{"v":9,"type":"status"}"#);
        assert!(code == Some(ErrorCode::BadVersion) && why.contains('9'), "{why}");
        let (code, why) = error_of(r#"{"v":1,"type":"explode"}"#);
        assert!(code == Some(ErrorCode::BadFrame) && why.contains("explode"), "{why}");
    }

    async fn lines_of(has_spoken: bool, say: &[(&[u8], u64)]) -> (Option<Vec<u8>>, Duration) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let say: Vec<(Vec<u8>, u64)> = say.iter().map(|(text, s)| (text.to_vec(), *s)).collect();
        let speaker = tokio::spawn(async move {
            for (text, pause_s) in say {
                sleep(Duration::from_secs(pause_s)).await;
                theirs.write_all(&text).await.unwrap();
            }
            sleep(Duration::from_secs(3600)).await;
        });
        let begin = tokio::time::Instant::now();
        let line = next_line(&mut BufReader::new(ours), has_spoken).await;
        speaker.abort();
        (line, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_or_only_half_a_line_is_hung_up_on() {
        for said in [&[][..], &[(&b"{"[..], 20)], &[(b"a", 10), (b"b", 10), (b"c", 9)]] {
            let (line, after) = lines_of(false, said).await;
            assert_eq!((line, after.as_secs()), (None, 30), "{said:?}");
        }
        let (line, _) = lines_of(false, &[(b"{", 20), (b"}\n", 9)]).await;
        assert_eq!(line.as_deref(), Some(&b"{}\n"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_spoken_may_pause_between_lines() {
        let (line, after) = lines_of(true, &[(b"{}\n", 3000)]).await;
        assert_eq!((line.as_deref(), after.as_secs()), (Some(&b"{}\n"[..]), 3000));
        let (line, after) = lines_of(true, &[(b"{", 3000)]).await;
        assert_eq!((line, after.as_secs()), (None, 3030));
    }

    #[test]
    fn a_frame_without_a_version_is_of_the_first() {
        assert_eq!(parse(br#"{"type":"status"}"#).unwrap(), Request::Status);
    }
}

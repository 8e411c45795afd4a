//! Who speaks on `control.sock`, as proved by the socket, the token and the process, not as claimed.
//!
//! The first three share a uid: the split keeps mistakes apart, not attackers. A container may be one, and has a socket of
//! its own ([`crate::containers`]).

use ccmux_policy::event::Origin;
use ccmux_wire::container::ContainerId;
use ccmux_wire::control::Request;
use ccmux_wire::hook::HookFrame;
use ccmux_wire::id::SessionId;
use ccmux_wire::tools::ToolCall;

use crate::agent::process::is_descendant;

/// Whoever sent a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The user's client.
    Owner,
    /// A hook of the agent in our pane, or the bridge that it started for its tools.
    OwnSession,
    /// A hook of any other agent of the user.
    Foreign(Option<SessionId>),
    /// Whatever speaks on a container's own socket.
    Container(ContainerId),
}

impl Principal {
    /// Whose session a hook's facts are about.
    pub fn origin(&self) -> Origin {
        match self {
            Self::OwnSession => Origin::Own,
            Self::Owner | Self::Foreign(_) | Self::Container(_) => Origin::Foreign,
        }
    }

    /// Each may use its own verbs only.
    pub fn may(&self, request: &Request) -> bool {
        match self {
            Self::Owner => !matches!(request, Request::Hook(_) | Request::Guest(_)),
            Self::OwnSession => matches!(request, Request::Hook(_) | Request::Tool(_)),
            Self::Foreign(_) => matches!(request, Request::Hook(_)),
            Self::Container(_) => {
                matches!(request, Request::Hook(_) | Request::Tool(_) | Request::Channels | Request::Guest(_))
            }
        }
    }
}

/// What is known of the sender of a hook's frame.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The process at the other end of the socket.
    pub pid: Option<i32>,
    /// Our session's token.
    pub token: &'a str,
    /// The agent in our pane.
    pub agent: Option<i32>,
}

/// Says who sent a hook's frame. Ours: our token, and the agent behind the hook is the one in our pane. A `claude -p` that
/// Claude's own Bash starts inherits the token, but is another process.
pub fn of_hook(frame: &HookFrame, sender: Sender<'_>) -> Principal {
    let session = frame.payload.get("session_id").and_then(|id| id.as_str()).map(SessionId::new);
    let knows_token = frame.token.as_deref().is_some_and(|token| same_bytes(token, sender.token));
    match (knows_token, sender.agent) {
        (true, Some(agent)) if is_agents_hook(frame, sender.pid, agent) => Principal::OwnSession,
        _ => Principal::Foreign(session),
    }
}

/// Says who wants a tool done: our agent, which gave its bridge the token, or the user, who may write to every FIFO
/// anyway.
pub fn of_tool(call: &ToolCall, token: &str) -> Principal {
    match call.token.as_deref().is_some_and(|said| same_bytes(said, token)) {
        true => Principal::OwnSession,
        false => Principal::Owner,
    }
}

/// Claude Code names itself since some version after 2.1.197; before, the hook's parent is the agent, or the `sh -c`
/// that the agent ran it by.
fn is_agents_hook(frame: &HookFrame, hook: Option<i32>, agent: i32) -> bool {
    match (frame.claude_pid, hook) {
        (Some(claude), _) => claude == agent,
        (None, Some(hook)) => is_descendant(hook, agent, 2),
        (None, None) => false,
    }
}

/// Takes the same time wherever they differ.
fn same_bytes(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use ccmux_wire::container::GuestRequest;
    use serde_json::json;

    use super::*;

    fn frame(token: Option<&str>, claude_pid: Option<i32>) -> HookFrame {
        HookFrame {
            event: "Stop".into(),
            token: token.map(str::to_owned),
            claude_pid,
            marks: Default::default(),
            spot: None,
            payload: json!({"session_id": "s"}),
        }
    }

    #[test]
    fn a_hook_is_ours_by_token_and_process_together() {
        let own = std::process::id().cast_signed();
        let parent = crate::agent::process::parent_of(own).unwrap();
        let sender = Sender { pid: Some(own), token: "secret", agent: Some(77) };
        assert_eq!(of_hook(&frame(Some("secret"), Some(77)), sender), Principal::OwnSession);
        let foreign = Principal::Foreign(Some(SessionId::new("s")));
        assert_eq!(
            of_hook(&frame(Some("secret"), Some(78)), sender),
            foreign,
            "a claude -p in Claude's Bash"
        );
        assert_eq!(of_hook(&frame(Some("wrong!"), Some(77)), sender), foreign);
        assert_eq!(of_hook(&frame(None, Some(77)), sender), foreign);
        let by_parent = Sender { agent: Some(parent), ..sender };
        assert_eq!(of_hook(&frame(Some("secret"), None), by_parent), Principal::OwnSession, "an old Claude");
        assert_eq!(of_hook(&frame(Some("secret"), None), sender), foreign);
    }

    #[test]
    fn each_may_use_its_own_verbs_only() {
        let hook = Request::Hook(frame(None, None));
        assert!(Principal::Owner.may(&Request::Status) && !Principal::Owner.may(&hook));
        assert!(Principal::OwnSession.may(&hook) && !Principal::OwnSession.may(&Request::Status));
        assert!(Principal::Foreign(None).may(&hook) && !Principal::Foreign(None).may(&Request::Why));
        let call = ToolCall { name: "x".into(), arguments: Default::default(), token: Some("t".into()) };
        assert_eq!(of_tool(&call, "t"), Principal::OwnSession);
        assert_eq!(of_tool(&call, "another"), Principal::Owner);
        let tool = Request::Tool(call);
        assert!(Principal::Owner.may(&tool) && Principal::OwnSession.may(&tool));
        assert!(!Principal::Foreign(None).may(&tool));
        let container = Principal::Container("abcd".to_owned().try_into().unwrap());
        let guest = Request::Guest(GuestRequest::Ask { question: "?".into(), wait_s: None });
        for allowed in [&hook, &tool, &guest, &Request::Channels] {
            assert!(container.may(allowed), "{allowed:?}");
        }
        let owners = [
            r#"{"type":"send","content":"x"}"#,
            r#"{"type":"status"}"#,
            r#"{"type":"why"}"#,
            r#"{"type":"screen"}"#,
            r#"{"type":"inbox","verb":"list"}"#,
            r#"{"type":"subscribe"}"#,
            r#"{"type":"broadcast","session":"s","turn":[]}"#,
            r#"{"type":"reload"}"#,
            r#"{"type":"attention"}"#,
            r#"{"type":"mute","what":"reply","for_s":1}"#,
            r#"{"type":"test_route","route":"x"}"#,
            r#"{"type":"container","verb":"list"}"#,
            r#"{"type":"permission","verb":"list"}"#,
            r#"{"type":"interrupt"}"#,
            r#"{"type":"notify","repository":"/r"}"#,
        ];
        for owners in owners {
            let request: Request = serde_json::from_str(owners).unwrap();
            assert!(!container.may(&request) && Principal::Owner.may(&request), "{owners}");
        }
        assert!(!Principal::Owner.may(&guest));
    }
}

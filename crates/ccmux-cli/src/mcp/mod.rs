//! `ccmux mcp`: Claude's tools over stdio. Claude starts it, and it stays as long as Claude does, whatever becomes of the
//! daemon: a server that Claude loses for some seconds is gone for the rest of the session.
//!
//! ```text
//! Claude ── initialize, ping, tools/list ──► Bridge            answered at once, daemon or not
//! Claude ── tools/call ───────────────────► Bridge ─► Link ─► control.sock      waits for a daemon that is away
//! Claude ◄─ tools/list_changed ──────────── Bridge ◄─ Link ◄─ control.sock      channels came or went
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`rpc`] | JSON-RPC: lines to requests, answers to lines |
//! | [`link`] | the way to the daemon, found again whenever it is lost |
//!
//! It ends with 0 when Claude closes its input, and at SIGTERM; nothing else may end it, since Claude Code starts no second
//! one. It does no tool itself.

mod link;
mod rpc;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ccmux_wire::hook::TOKEN_VARIABLE;
use ccmux_wire::tools::{self, ToolCall, ToolDone};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

use self::link::Link;
use self::rpc::{Heard, Line};
use crate::failure::Failure;

/// The versions of MCP that it speaks, the newest last: to it, they are all alike.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// For so long the first answer waits for a daemon that is there to tell its channels.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// When Claude has gone, calls that are with the daemon get this long.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// More calls at once are refused.
const MAX_CALLS: usize = 256;

pub fn run(dir: &Path) -> Result<(), Failure> {
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, Arc::new(AtomicBool::new(true)))?;
    }
    let bridge = Arc::new(Bridge::new(dir));
    let following = Arc::clone(&bridge);
    thread::Builder::new().spawn(move || following.link.follow(|| following.tell_changed()))?;
    bridge.listen(&mut io::stdin().lock())?;
    bridge.finish();
    Ok(())
}

/// One Claude at the other end.
struct Bridge {
    link: Link,
    out: Mutex<io::Stdout>,
    token: Option<String>,
    is_initialized: AtomicBool,
    calls: Mutex<Calls>,
    changed: Condvar,
}

/// What is being done. By numbers of our own: a client may use an id again as soon as it has the answer.
#[derive(Default)]
struct Calls {
    begun: u64,
    /// With the requests' ids.
    open: HashMap<u64, Value>,
    /// Claude no longer wants to know: what has not gone to the daemon must not.
    cancelled: HashSet<u64>,
}

impl Bridge {
    fn new(dir: &Path) -> Self {
        Self {
            link: Link::new(dir),
            out: Mutex::new(io::stdout()),
            token: std::env::var(TOKEN_VARIABLE).ok(),
            is_initialized: AtomicBool::new(false),
            calls: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until Claude closes its end.
    fn listen(self: &Arc<Self>, input: &mut impl BufRead) -> Result<(), Failure> {
        while let Some(line) = rpc::next_line(input).map_err(|error| Failure::Failed(error.to_string()))? {
            match line {
                Line::Whole(line) => self.hear(rpc::read(&line))?,
                Line::TooLong => {
                    self.say(&rpc::error(&Value::Null, rpc::INVALID, "the line is too long: 8 MiB at most"))?
                }
            }
        }
        Ok(())
    }

    fn hear(self: &Arc<Self>, heard: Heard) -> io::Result<()> {
        match heard {
            Heard::Request { id, method, params } => self.answer(id, &method, params),
            Heard::Notification { method, params } => {
                match method.as_str() {
                    "notifications/initialized" => self.is_initialized.store(true, Ordering::Relaxed),
                    "notifications/cancelled" => self.cancel(&params["requestId"]),
                    _ => {}
                }
                Ok(())
            }
            Heard::Answer => Ok(()),
            Heard::Nonsense(refusal) => self.say(&refusal),
        }
    }

    fn answer(self: &Arc<Self>, id: Value, method: &str, params: Value) -> io::Result<()> {
        let answer = match method {
            "initialize" => rpc::result(&id, self.hello(&params)),
            "ping" => rpc::result(&id, json!({})),
            "tools/list" => rpc::result(&id, json!({"tools": tools::definitions()})),
            "tools/call" => return self.begin_call(id, params),
            _ => rpc::error(&id, rpc::NO_METHOD, &format!("{method} is not offered here")),
        };
        self.say(&answer)
    }

    fn hello(&self, params: &Value) -> Value {
        let wanted = params["protocolVersion"].as_str();
        let version = VERSIONS.into_iter().find(|version| Some(*version) == wanted);
        json!({
            "protocolVersion": version.unwrap_or(VERSIONS[VERSIONS.len() - 1]),
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": tools::SERVER_NAME, "version": env!("CARGO_PKG_VERSION")},
            "instructions": tools::instructions(self.link.channels_within(FIRST_LOOK).as_deref()),
        })
    }

    /// A call has a thread of its own: one that waits keeps no other up.
    fn begin_call(self: &Arc<Self>, id: Value, params: Value) -> io::Result<()> {
        let Some(call) = self.call_of(params) else {
            return self.say(&rpc::error(&id, rpc::BAD_PARAMS, "a call has a `name`, and `arguments`"));
        };
        let Some(number) = self.number_of(&id) else {
            let why = format!("{MAX_CALLS} calls wait already");
            return self.say(&rpc::result(&id, not_begun(&why)));
        };
        let (bridge, call_id) = (Arc::clone(self), id.clone());
        let spawned = thread::Builder::new().spawn(move || bridge.do_call(number, &call_id, &call));
        // Not our end, which Claude would never get over.
        spawned.map(drop).or_else(|error| {
            self.end_call(number);
            self.say(&rpc::result(&id, not_begun(&error.to_string())))
        })
    }

    /// `None`: there are too many.
    fn number_of(&self, id: &Value) -> Option<u64> {
        let mut calls = self.calls();
        if calls.open.len() >= MAX_CALLS {
            return None;
        }
        calls.begun += 1;
        let number = calls.begun;
        calls.open.insert(number, id.clone());
        Some(number)
    }

    fn do_call(&self, number: u64, id: &Value, call: &ToolCall) {
        if let Some(done) = self.link.call(call, &|| self.calls().cancelled.contains(&number)) {
            // Whoever doesn't read has gone, and then the input ends, too.
            let _ = self.say(&rpc::result(id, result_of(done)));
        }
        self.end_call(number);
    }

    fn call_of(&self, params: Value) -> Option<ToolCall> {
        let Value::Object(mut params) = params else { return None };
        let name = params.get("name")?.as_str()?.to_owned();
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => serde_json::Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return None,
        };
        Some(ToolCall { name, arguments, token: self.token.clone() })
    }

    fn end_call(&self, number: u64) {
        let mut calls = self.calls();
        calls.open.remove(&number);
        calls.cancelled.remove(&number);
        self.changed.notify_all();
    }

    fn cancel(&self, id: &Value) {
        let mut calls = self.calls();
        let Calls { open, cancelled, .. } = &mut *calls;
        cancelled.extend(open.iter().filter(|(_, of)| *of == id).map(|(number, _)| *number));
        drop(calls);
        self.link.wake();
    }

    /// Claude has gone. What waits for the daemon is given up; what is with it may end.
    fn finish(&self) {
        {
            let mut calls = self.calls();
            calls.cancelled = calls.open.keys().copied().collect();
        }
        self.link.wake();
        let calls = self.calls();
        // Late or not: nobody reads what they give.
        drop(self.changed.wait_timeout_while(calls, ENDS_WITHIN, |calls| !calls.open.is_empty()));
    }

    fn tell_changed(&self) {
        if self.is_initialized.load(Ordering::Relaxed) {
            let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            // As above.
            let _ = self.say(&news);
        }
    }

    fn say(&self, message: &Value) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(format!("{message}\n").as_bytes())?;
        out.flush()
    }
}

fn not_begun(why: &str) -> Value {
    result_of(ToolDone { text: format!("{why}; nothing was done, try again later"), is_error: true })
}

/// What MCP calls a result.
fn result_of(done: ToolDone) -> Value {
    json!({"content": [{"type": "text", "text": done.text}], "isError": done.is_error})
}

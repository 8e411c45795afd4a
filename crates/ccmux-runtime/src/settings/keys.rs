//! Every key with its variable and its meaning: config/ccmux.toml is written from this list.
//!
//! Defaults are not known here: they stand in [`Settings`], and a test holds the two against each other.

use serde_json::Value;

use super::Settings;
use super::channels::{CHANNEL_KEYS, ChannelSettings};

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.name`, or `name`.
    pub path: &'static str,
    /// The variable that sets it, if any.
    pub variable: Option<&'static str>,
    /// What it means, for config/ccmux.toml.
    pub meaning: &'static str,
}

const fn key(path: &'static str, variable: &'static str, meaning: &'static str) -> Key {
    Key { path, variable: Some(variable), meaning }
}

const fn plain(path: &'static str, meaning: &'static str) -> Key {
    Key { path, variable: None, meaning }
}

/// All keys, in the order of the file.
pub const KEYS: &[Key] = &[
    key(
        "runtime_dir",
        "CCMUX_RUNTIME_DIR",
        "FIFOs and sockets; made with mode 0700, refused if others could write there",
    ),
    key("state_dir", "CCMUX_STATE_DIR", "the databases of messages and turns, generated files"),
    key("tmux_session", "CCMUX_TMUX_SESSION", "name of the tmux session that the agent runs in"),
    key(
        "tmux_socket",
        "CCMUX_TMUX_SOCKET",
        "name of the tmux server's socket (tmux -L); empty: tmux's default server",
    ),
    key(
        "idle_threshold",
        "CCMUX_IDLE_THRESHOLD",
        "seconds without a key press before anything is injected; 0: don't wait",
    ),
    key(
        "silence_timeout",
        "CCMUX_SILENCE_TIMEOUT",
        "seconds of silence of the pane that call for a look when no hook told",
    ),
    plain(
        "stop_agent_on_exit",
        "end the agent when the daemon stops; by default it goes on and is adopted at the next start",
    ),
    plain(
        "enforce_questions",
        "tell Claude with each prompt to ask through its question tool, so that its questions are dialogs that can be told",
    ),
    key(
        "agent.command",
        "CCMUX_AGENT_COMMAND",
        "what runs in the pane: split like a shell does, run without one; ccmux's own arguments go to the end, or where {args} stands",
    ),
    key("agent.profile", "CCMUX_AGENT_PROFILE", "which screen rules: claude-code"),
    key(
        "agent.cwd",
        "CCMUX_AGENT_CWD",
        "working directory, made if missing; Claude never trusts the home folder for good",
    ),
    plain("agent.allow_home", "allow the home folder or / as working directory"),
    plain("agent.restart_on_exit", "start the agent again after it ended by itself with 0 (/exit)"),
    plain(
        "agent.max_rss",
        "bytes of memory above which the agent is started anew, between two turns, with its conversation; 0: never",
    ),
    plain("agent.env", "further variables for the agent: env = { NAME = \"value\" }"),
    plain(
        "draft.max_hold",
        "seconds that a draft in the prompt box may keep messages waiting before it is put away (Ctrl-S) until they are in; 0: for ever",
    ),
    plain(
        "proxy.expect",
        "a warning tells if HTTP_PROXY or HTTPS_PROXY of the agent are anything else; empty: no check",
    ),
    key(
        "backoff.initial",
        "CCMUX_BACKOFF_INITIAL",
        "seconds before the first restart; doubled for each further one",
    ),
    key("backoff.cap", "CCMUX_BACKOFF_CAP", "longest pause before a restart, in seconds"),
    key("hook.path", "CCMUX_HOOK_SCRIPT", "where the hook binary is copied to; Claude runs it from there"),
    key(
        "mcp.port",
        "CCMUX_MCP_PORT",
        "port on 127.0.0.1 of the HTTP server with Claude's tools; 0: any, the same one after a restart",
    ),
    plain(
        "mcp.entry",
        "how Claude comes to its tools: stdio (it starts `ccmux mcp`, which outlives every daemon), http or sse",
    ),
    plain(
        "mcp.auth",
        "token: requests need the bearer token in the state directory; none: for bare clients on a single-user machine",
    ),
    plain("out.wait", "seconds that a message of Claude's waits for a program that reads the out.* FIFO"),
    plain(
        "out.linger",
        "seconds that an out.* FIFO stays open after a message: a reader between two lines must not lose any",
    ),
    key("log.file", "CCMUX_LOG_FILE", "JSON lines, rotated at 16 MiB, four kept; the same goes to stderr"),
    plain("log.level", "error, warn, info or debug"),
    plain(
        "log.bodies",
        "log the texts of messages and turns, too, e.g. to find out what a program really sends; false: their length and a hash alone",
    ),
    plain(
        "tcp.listen",
        "address for three-line senders (event, window, message), e.g. \"127.0.0.1:8080\"; empty: none",
    ),
    plain(
        "tcp.token_file",
        "file whose first line every sender must know; needed where tcp.listen is not loopback",
    ),
    plain("limits.message_bytes", "largest message; a bigger one is rejected whole"),
    plain(
        "limits.batch_bytes",
        "largest prompt made of several messages; a single bigger message goes alone",
    ),
    plain("limits.queue_messages", "most messages that wait; beyond that, writers wait"),
    plain("limits.queue_bytes", "most bytes that wait; beyond that, writers wait"),
    plain("limits.subscriber_bytes", "a subscriber of output.sock that falls this far behind is let go"),
    plain(
        "retention.days",
        "days that messages and turns are kept; 0: for ever. What waits, or is uncertain and was not seen, is never forgotten",
    ),
    plain(
        "retention.bytes",
        "bytes of a database (messages, turns) above which the oldest are forgotten; 0: no matter how many",
    ),
    plain(
        "permission.channel",
        "the channel where Claude's permissions and questions are told (out.NAME) and answered (in.NAME); empty: at the terminal alone",
    ),
    plain(
        "permission.wait",
        "seconds that an answer from afar is waited for; the terminal can answer meanwhile",
    ),
    plain(
        "permission.allowed",
        "who may answer by that channel: values of meta.sender; empty: whoever can write to the FIFO",
    ),
    key(
        "attention.enabled",
        "CCMUX_NOTIFICATION_ENABLED",
        "tell people that somebody is waited for; the older CLAUDE_NOTIFICATION_ENABLED counts, too",
    ),
    key(
        "attention.debug",
        "CCMUX_NOTIFICATION_DEBUG",
        "log what begins and ends to wait; the older CLAUDE_NOTIFICATION_DEBUG counts, too",
    ),
    plain(
        "attention.sessions",
        "owned: the session that ccmux runs; all: every session of yours whose hooks come here",
    ),
    plain(
        "attention.routes",
        "names of [routes.NAME] for every kind that has none of its own: the first one that works takes the notice",
    ),
    plain(
        "attention.suppress_when_focused",
        "a notice waits while somebody was active at the pane within focus_window, and is dropped if they act",
    ),
    plain("attention.focus_window", "seconds"),
    plain("attention.dedup_window", "seconds in which the same thing is told once"),
    plain(
        "attention.quiet_hours",
        "e.g. \"22:00-07:00\", local time: notices wait until they are over; empty: none",
    ),
    key(
        "attention.reply.after",
        "CCMUX_NOTIFICATION_THRESHOLD",
        "a turn is over and nobody went on: the silence reminder: seconds before the first notice; the older CLAUDE_NOTIFICATION_THRESHOLD counts, too",
    ),
    plain("attention.reply.routes", "the first one that works takes the notice; empty: attention.routes"),
    plain(
        "attention.reply.steps",
        "further notices while it waits: { after = seconds since it began, routes = [...] }",
    ),
    plain(
        "attention.reply.cooldown",
        "seconds after a notice in which no other one of the kind and session begins",
    ),
    plain("attention.permission.after", "a tool call waits for permission: seconds before the first notice"),
    plain(
        "attention.permission.routes",
        "the first one that works takes the notice; empty: attention.routes",
    ),
    plain(
        "attention.permission.steps",
        "further notices while it waits: { after = seconds since it began, routes = [...] }",
    ),
    plain(
        "attention.permission.cooldown",
        "seconds after a notice in which no other one of the kind and session begins",
    ),
    plain("attention.question.after", "Claude asks something: seconds before the first notice"),
    plain("attention.question.routes", "the first one that works takes the notice; empty: attention.routes"),
    plain(
        "attention.question.steps",
        "further notices while it waits: { after = seconds since it began, routes = [...] }",
    ),
    plain(
        "attention.question.cooldown",
        "seconds after a notice in which no other one of the kind and session begins",
    ),
    plain(
        "attention.subagent_reply.after",
        "a sub-agent is done; off without routes of its own: seconds before the first notice",
    ),
    plain(
        "attention.subagent_reply.routes",
        "the first one that works takes the notice; empty: attention.routes",
    ),
    plain(
        "attention.subagent_reply.steps",
        "further notices while it waits: { after = seconds since it began, routes = [...] }",
    ),
    plain(
        "attention.subagent_reply.cooldown",
        "seconds after a notice in which no other one of the kind and session begins",
    ),
    plain(
        "attention.failure.after",
        "a turn failed, or the agent keeps ending: seconds before the first notice",
    ),
    plain("attention.failure.routes", "the first one that works takes the notice; empty: attention.routes"),
    plain(
        "attention.failure.steps",
        "further notices while it waits: { after = seconds since it began, routes = [...] }",
    ),
    plain(
        "attention.failure.cooldown",
        "seconds after a notice in which no other one of the kind and session begins",
    ),
    plain(
        "attention.stuck.after",
        "messages can't go in, or nobody knows whether they did: seconds before the first notice",
    ),
    plain("attention.stuck.routes", "the first one that works takes the notice; empty: attention.routes"),
    plain(
        "attention.stuck.steps",
        "further notices while it waits: { after = seconds since it began, routes = [...] }",
    ),
    plain(
        "attention.stuck.cooldown",
        "seconds after a notice in which no other one of the kind and session begins",
    ),
    plain("attention.message.after", "somebody sent you a message: seconds before the first notice"),
    plain("attention.message.routes", "the first one that works takes the notice; empty: attention.routes"),
    plain(
        "attention.message.steps",
        "further notices while it waits: { after = seconds since it began, routes = [...] }",
    ),
    plain(
        "attention.message.cooldown",
        "seconds after a notice in which no other one of the kind and session begins",
    ),
];

/// The value at a key, in settings written as JSON.
pub fn value_at(settings: &Value, path: &str) -> Value {
    path.split('.').try_fold(settings, |value, part| value.get(part)).cloned().unwrap_or(Value::Null)
}

/// config/ccmux.toml: every key with its default, as comments.
pub fn default_file() -> String {
    let defaults = serde_json::to_value(Settings::defaults(None)).unwrap_or_default();
    let mut text = String::from(
        "# ccmux: every key with its default. Copy to ~/.config/ccmux/ccmux.toml and remove the # of what you change.\n\
         # Order of precedence: defaults, /etc/ccmux/ccmux.toml, ~/.config/ccmux/ccmux.toml (or --config FILE,\n\
         # CCMUX_CONFIG), variables, flags. `ccmuxd --print-config` shows every value with its origin.\n",
    );
    let mut table = "";
    for key in KEYS {
        let (own_table, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if own_table != table {
            text.push_str(&format!("\n[{own_table}]\n"));
            table = own_table;
        }
        push_key(&mut text, key, name, &value_at(&defaults, key.path));
    }
    push_channel(&mut text);
    text.push_str(super::routes::ROUTES_IN_THE_FILE);
    text.push_str(super::opencode::IN_THE_FILE);
    text
}

/// A channel's keys: the table is a comment too, there is no channel called NAME.
fn push_channel(text: &mut String) {
    text.push_str(
        "\n# What is particular about one channel. Give its name for NAME; one with a dot in quotes: [channels.\"a.b\"]\n\
         #[channels.NAME]\n",
    );
    let sample =
        ChannelSettings { wait: Some(Settings::defaults(None).out.wait), ..ChannelSettings::default() };
    let sample = serde_json::to_value(sample).unwrap_or_default();
    for key in CHANNEL_KEYS {
        let name = key.path.rsplit('.').next().unwrap_or_default();
        push_key(text, key, name, &value_at(&sample, name));
    }
}

fn push_key(text: &mut String, key: &Key, name: &str, default: &Value) {
    let variable = key.variable.map(|variable| format!(" ({variable})")).unwrap_or_default();
    text.push_str(&format!("\n# {}{variable}\n", key.meaning));
    text.push_str(&format!("#{name} = {}\n", toml_text(default)));
}

/// A default as TOML writes it; all of them are scalars, but for the empty table of variables.
fn toml_text(value: &Value) -> String {
    match value {
        Value::Object(_) => "{}".to_owned(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            if number.fract() == 0.0 { format!("{number:.0}") } else { number.to_string() }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(prefix: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => fields.iter().for_each(|(name, value)| {
                let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                leaves(&path, value, found);
            }),
            _ => found.push(prefix.to_owned()),
        }
    }

    #[test]
    fn the_list_names_every_setting_and_no_other() {
        let mut found = Vec::new();
        leaves("", &serde_json::to_value(Settings::defaults(None)).unwrap(), &mut found);
        let mut listed: Vec<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
        // The keys of a channel are listed beside its type.
        listed.push("channels".to_owned());
        // A route's keys depend on its type.
        listed.push("routes".to_owned());
        listed.push("opencode".to_owned());
        found.sort();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn the_file_without_its_comment_signs_holds_the_defaults() {
        let active: String = default_file()
            .lines()
            .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let mut read: Settings = toml::from_str(&active).unwrap();
        let channel = read.channels.remove(&"NAME".parse().unwrap()).unwrap();
        let wait = Some(read.out.wait);
        assert_eq!(channel, ChannelSettings { wait, ..ChannelSettings::default() });
        assert_eq!(read, Settings::defaults(None));
    }

    #[test]
    fn variables_are_named_once() {
        let mut variables: Vec<_> = KEYS.iter().filter_map(|key| key.variable).collect();
        let count = variables.len();
        variables.sort_unstable();
        variables.dedup();
        assert_eq!(variables.len(), count);
    }
}

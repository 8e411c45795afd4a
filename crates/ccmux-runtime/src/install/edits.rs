//! What is ours in Claude Code's own files, and how it gets in and out.
//!
//! ```text
//! settings.json   hooks.EVENT[] ← {"hooks":[{"type":"command","command":".../ccmux-hook","timeout":5}]}
//!                 permissions.allow[] ← "mcp__ccmux__send_to_channel", ...
//! .claude.json    mcpServers.ccmux ← {...}
//! ```
//!
//! The content is what the session's generated files hold, made by the same functions. It opens no file.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::{Document, DocumentError, Step};
use crate::agent::mcp_entry::SERVER_NAME;
use crate::mcp::tools;

const HOOKS: &str = "hooks";
const ALLOW: [&str; 2] = ["permissions", "allow"];
const SERVER: [&str; 2] = ["mcpServers", SERVER_NAME];
/// What our hook is called, wherever an earlier version put it.
const HOOK_NAME: &str = "ccmux-hook";

/// Why a document was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It does not have the form that Claude Code reads.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// Somebody else's server has our name.
    #[error("`mcpServers.{SERVER_NAME}` is another program's: give that one another name")]
    OthersServer,
    /// Found before anything was written: what is not ours would not have come out as it went in.
    #[error("it can't be changed without harm to the rest (a bug of ccmux)")]
    Harm,
}

/// Which of Claude Code's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// `settings.json`: hooks and permissions.
    Settings,
    /// `.claude.json`: MCP servers, beside much that Claude remembers.
    State,
}

/// What is to be put in.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// As [`crate::agent::hook_settings`] makes it.
    pub settings: Value,
    /// One entry of `mcpServers`, if there is anything to connect to.
    pub server: Option<Value>,
}

/// Knows what is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ours {
    /// `hook.path`, absolute.
    pub hook: PathBuf,
}

impl Wanted {
    /// For people to paste, where we may not write.
    pub fn snippet(&self, which: Which) -> Option<String> {
        match which {
            Which::Settings => Some(format!("{:#}", self.settings)),
            Which::State => {
                self.server.as_ref().map(|server| format!("{:#}", nested(&SERVER, server.clone())))
            }
        }
    }
}

impl Ours {
    /// Puts what is wanted in, and takes out what is ours and not wanted any more.
    ///
    /// # Errors
    /// If the document has another form, or would not come out well.
    pub fn put_in(&self, which: Which, document: &mut Document, wanted: &Wanted) -> Result<(), EditError> {
        self.guarded(which, document, |document| match which {
            Which::Settings => self.put_settings(document, &wanted.settings),
            Which::State => match &wanted.server {
                Some(server) => self.put_server(document, server),
                None => self.take_server(document, &Value::Null),
            },
        })
    }

    /// Takes out what is ours, and what it left empty unless that was there `before`.
    ///
    /// # Errors
    /// If the document has another form, or would not come out well.
    pub fn take_out(&self, which: Which, document: &mut Document, before: &Value) -> Result<(), EditError> {
        self.guarded(which, document, |document| match which {
            Which::Settings => {
                self.take_hooks(document, before, &|_| true)?;
                self.take_permissions(document, before)
            }
            Which::State => self.take_server(document, before),
        })
    }

    /// Whether anything in there is ours.
    pub fn is_in(&self, which: Which, document: &Document) -> Result<bool, DocumentError> {
        let whole = whole(document)?;
        Ok(self.others(which, whole.clone()) != pruned(which, whole))
    }

    fn guarded(
        &self,
        which: Which,
        document: &mut Document,
        edit: impl FnOnce(&mut Document) -> Result<(), EditError>,
    ) -> Result<(), EditError> {
        let others = self.others(which, whole(document)?);
        edit(document)?;
        if self.others(which, whole(document)?) == others { Ok(()) } else { Err(EditError::Harm) }
    }

    fn put_settings(&self, document: &mut Document, wanted: &Value) -> Result<(), EditError> {
        let hooks = wanted[HOOKS].as_object().cloned().unwrap_or_default();
        // With its key: an event that Claude Code does not know stops its start with a dialog, also without hooks.
        self.take_hooks(document, &nested(&[HOOKS], Value::Null), &|event| !hooks.contains_key(event))?;
        for (event, groups) in hooks {
            let path = [HOOKS, event.as_str()];
            let there = list(document, &path)?;
            let ours = there.iter().filter(|group| self.is_our_group(group));
            let wanted: Vec<&Value> = groups.as_array().into_iter().flatten().collect();
            if ours.eq(wanted.iter().copied()) && self.count_hooks(&there) == wanted.len() {
                continue;
            }
            self.take_hooks(document, &Value::Bool(true), &|other| other == event)?;
            for group in wanted {
                document.push(&path, group)?;
            }
        }
        let there = list(document, &ALLOW)?;
        let missing = wanted["permissions"]["allow"].as_array().into_iter().flatten();
        for tool in missing.filter(|tool| !there.contains(tool)) {
            document.push(&ALLOW, tool)?;
        }
        Ok(())
    }

    /// Takes our hooks out of some events. With `before` a mere `true`, nothing that is left empty goes with them.
    fn take_hooks(
        &self,
        document: &mut Document,
        before: &Value,
        of: &dyn Fn(&str) -> bool,
    ) -> Result<(), EditError> {
        let events = match document.value(&[Step::Key(HOOKS)])? {
            None => return Ok(()),
            Some(Value::Object(events)) => events,
            Some(_) => return Err(wrong(HOOKS, "an object").into()),
        };
        for event in events.keys().filter(|event| of(event)) {
            let groups = list(document, &[HOOKS, event])?;
            for (index, group) in groups.iter().enumerate().rev() {
                self.take_hooks_of_group(
                    document,
                    &[Step::Key(HOOKS), Step::Key(event), Step::Index(index)],
                    group,
                )?;
            }
            let had_ours = self.count_hooks(&groups) > 0;
            if had_ours && list(document, &[HOOKS, event])?.is_empty() && !there(before, &[HOOKS, event]) {
                document.remove(&[Step::Key(HOOKS), Step::Key(event)])?;
            }
        }
        remove_if_empty(document, &[HOOKS], before, events.is_empty())
    }

    fn take_hooks_of_group(
        &self,
        document: &mut Document,
        path: &[Step<'_>],
        group: &Value,
    ) -> Result<(), EditError> {
        let hooks = group[HOOKS].as_array().map_or(&[][..], Vec::as_slice);
        let ours: Vec<usize> = (0..hooks.len()).filter(|index| self.is_our_hook(&hooks[*index])).collect();
        if !ours.is_empty() && ours.len() == hooks.len() {
            return Ok(document.remove(path)?);
        }
        for index in ours.into_iter().rev() {
            document.remove(&[path, &[Step::Key(HOOKS), Step::Index(index)]].concat())?;
        }
        Ok(())
    }

    fn take_permissions(&self, document: &mut Document, before: &Value) -> Result<(), EditError> {
        let there = list(document, &ALLOW)?;
        for (index, _) in there.iter().enumerate().filter(|(_, rule)| is_our_rule(rule)).rev() {
            document.remove(&[Step::Key(ALLOW[0]), Step::Key(ALLOW[1]), Step::Index(index)])?;
        }
        remove_if_empty(document, &ALLOW, before, there.is_empty())?;
        remove_if_empty(document, &ALLOW[..1], before, there.is_empty())
    }

    fn put_server(&self, document: &mut Document, server: &Value) -> Result<(), EditError> {
        match document.value(&SERVER.map(Step::Key))? {
            Some(there) if there == *server => Ok(()),
            Some(there) if !is_our_server(&there) => Err(EditError::OthersServer),
            _ => Ok(document.set(&SERVER, server)?),
        }
    }

    fn take_server(&self, document: &mut Document, before: &Value) -> Result<(), EditError> {
        let there = document.value(&SERVER.map(Step::Key))?;
        if there.is_some_and(|there| is_our_server(&there)) {
            document.remove(&SERVER.map(Step::Key))?;
            remove_if_empty(document, &SERVER[..1], before, false)?;
        }
        Ok(())
    }

    fn is_our_hook(&self, hook: &Value) -> bool {
        let words = hook["command"].as_str().and_then(|command| shell_words::split(command).ok());
        match words.as_deref() {
            Some([program]) => {
                Path::new(program) == self.hook
                    || Path::new(program).file_name().is_some_and(|name| name == HOOK_NAME)
            }
            _ => false,
        }
    }

    fn is_our_group(&self, group: &Value) -> bool {
        group[HOOKS].as_array().is_some_and(|hooks| hooks.iter().any(|hook| self.is_our_hook(hook)))
    }

    fn count_hooks(&self, groups: &[Value]) -> usize {
        let hooks = groups.iter().filter_map(|group| group[HOOKS].as_array()).flatten();
        hooks.filter(|hook| self.is_our_hook(hook)).count()
    }

    /// A document's value without what is ours, and without what is empty where ours would be.
    fn others(&self, which: Which, mut whole: Value) -> Value {
        match which {
            Which::Settings => {
                for groups in members(&mut whole, &[HOOKS]).filter_map(Value::as_array_mut) {
                    for hooks in groups.iter_mut().filter_map(|group| array(group, &[HOOKS])) {
                        hooks.retain(|hook| !self.is_our_hook(hook));
                    }
                }
                if let Some(rules) = array(&mut whole, &ALLOW) {
                    rules.retain(|rule| !is_our_rule(rule));
                }
            }
            Which::State => {
                if let Some(servers) = at(&mut whole, &SERVER[..1]).and_then(Value::as_object_mut)
                    && servers.get(SERVER_NAME).is_some_and(is_our_server)
                {
                    servers.remove(SERVER_NAME);
                }
            }
        }
        pruned(which, whole)
    }
}

/// Without what is empty where ours would be.
fn pruned(which: Which, mut whole: Value) -> Value {
    let paths: &[&[&str]] = match which {
        Which::Settings => &[&[HOOKS], &ALLOW, &ALLOW[..1]],
        Which::State => &[&SERVER[..1]],
    };
    if which == Which::Settings {
        for groups in members(&mut whole, &[HOOKS]).filter_map(Value::as_array_mut) {
            groups.retain(|group| group[HOOKS].as_array().is_none_or(|hooks| !hooks.is_empty()));
        }
        if let Some(events) = at(&mut whole, &[HOOKS]).and_then(Value::as_object_mut) {
            events.retain(|_, groups| !is_empty(groups));
        }
    }
    for path in paths {
        let Some((last, way)) = path.split_last() else { continue };
        if let Some(parent) = at(&mut whole, way).and_then(Value::as_object_mut)
            && parent.get(*last).is_some_and(is_empty)
        {
            parent.remove(*last);
        }
    }
    whole
}

fn at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(*key))
}

fn array<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Vec<Value>> {
    at(value, path).and_then(Value::as_array_mut)
}

fn members<'a>(value: &'a mut Value, path: &[&str]) -> impl Iterator<Item = &'a mut Value> {
    at(value, path).and_then(Value::as_object_mut).into_iter().flat_map(|members| members.values_mut())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

fn is_our_rule(rule: &Value) -> bool {
    [tools::SEND, tools::LIST].iter().any(|tool| *rule == format!("mcp__{SERVER_NAME}__{tool}"))
}

/// `ccmux mcp`, or our HTTP server.
fn is_our_server(server: &Value) -> bool {
    let is_bridge = server["command"].as_str().is_some_and(|program| Path::new(program).ends_with("ccmux"))
        && server["args"].as_array().is_some_and(|words| words.iter().any(|word| word == "mcp"));
    let is_http = server["url"].as_str().is_some_and(|url| {
        let rest = url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split_once('/'));
        rest.is_some_and(|(port, route)| port.parse::<u16>().is_ok() && ["mcp", "sse"].contains(&route))
    });
    is_bridge || is_http
}

fn whole(document: &Document) -> Result<Value, DocumentError> {
    Ok(document.value(&[])?.unwrap_or_else(|| Value::Object(serde_json::Map::new())))
}

fn list(document: &Document, path: &[&str]) -> Result<Vec<Value>, DocumentError> {
    let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Key).collect();
    match document.value(&steps)? {
        None => Ok(Vec::new()),
        Some(Value::Array(elements)) => Ok(elements),
        Some(_) => Err(wrong(&path.join("."), "a list")),
    }
}

fn wrong(place: &str, wanted: &'static str) -> DocumentError {
    DocumentError::Kind { place: place.to_owned(), wanted }
}

/// Whether `before` had it; a mere `true` had everything.
fn there(before: &Value, path: &[&str]) -> bool {
    *before == Value::Bool(true) || path.iter().try_fold(before, |value, key| value.get(*key)).is_some()
}

fn remove_if_empty(
    document: &mut Document,
    path: &[&str],
    before: &Value,
    was_empty: bool,
) -> Result<(), EditError> {
    let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Key).collect();
    if !was_empty && !there(before, path) && document.value(&steps)?.is_some_and(|value| is_empty(&value)) {
        document.remove(&steps)?;
    }
    Ok(())
}

fn nested(path: &[&str], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |inner, key| Value::Object(std::iter::once(((*key).to_owned(), inner)).collect()))
}

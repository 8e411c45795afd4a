//! What a turn does, step by step, for each script word. Pure: a word goes in, steps come out.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ids;
use crate::words::{self, Word};

/// How long a short answer takes to begin; with hooks and drawing a short turn takes about 150 ms.
const THINKING: Duration = Duration::from_millis(120);
const HEAD_OF_PROMPT: usize = 120;
const HEAD_OF_RESULT: usize = 200;

/// One step of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing new to see but the spinner.
    Wait(Duration),
    /// A bit of the text block under way.
    Delta(String),
    /// The message is complete, with all its blocks.
    Message(Vec<Block>),
    /// The API refused, with this status; Claude Code says this about it.
    Fail(u16, String),
    /// The stream broke: no message at all.
    Cut,
}

/// A content block of the model's message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Thinking(String),
    Text(String),
    Call(Call),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub input: Value,
    /// Asks the human whatever the mode is (`perm:`).
    pub always_asks: bool,
}

impl Call {
    pub fn new(name: &str, input: Value) -> Self {
        Self { id: ids::prefixed("toolu_", 20), name: name.to_owned(), input, always_asks: false }
    }

    /// A field of the input, as text.
    pub fn text(&self, key: &str) -> &str {
        self.input[key].as_str().unwrap_or_default()
    }
}

impl Block {
    pub fn as_json(&self) -> Value {
        match self {
            Self::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": "bW9jaw=="}),
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Call(call) => {
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
            }
        }
    }
}

/// The steps of a prompt.
pub fn of_prompt(prompt: &str) -> VecDeque<Step> {
    let steps = match Word::of(prompt) {
        Word::Say(text) => answer(vec![Block::Text(text)]),
        Word::Think(text) => {
            answer(vec![Block::Thinking("Let me think about it.".into()), Block::Text(text)])
        }
        Word::Slow(seconds) => slow(seconds),
        Word::Silent(seconds) => late(seconds, format!("was silent {seconds:?}")),
        Word::Ping(seconds) => late(seconds, "after the pings".into()),
        Word::Gap(seconds) => gap(seconds),
        Word::Big(size) => answer(vec![Block::Text("x".repeat(size))]),
        Word::Error(status, text) => vec![Step::Wait(THINKING), Step::Fail(status, text)],
        Word::Cut(text) => vec![
            Step::Wait(THINKING),
            Step::Delta(if text.is_empty() { "partial".into() } else { text }),
            Step::Wait(THINKING),
            Step::Cut,
        ],
        Word::Echo => answer(vec![Block::Text(echo(prompt))]),
        other => answer(call(other)),
    };
    steps.into()
}

/// The steps after a tool's result.
pub fn of_result(result: &str) -> VecDeque<Step> {
    let head: String = result.chars().take(HEAD_OF_RESULT).collect();
    answer(vec![Block::Text(format!("done {head}").trim_end().to_owned())]).into()
}

fn echo(prompt: &str) -> String {
    let head: String = prompt.chars().take(HEAD_OF_PROMPT).collect();
    format!("echo[{}]: {head}", prompt.chars().count())
}

fn answer(blocks: Vec<Block>) -> Vec<Step> {
    vec![Step::Wait(THINKING), Step::Message(blocks)]
}

fn late(seconds: f64, text: String) -> Vec<Step> {
    vec![Step::Wait(words::seconds(seconds)), Step::Message(vec![Block::Text(text)])]
}

fn gap(seconds: f64) -> Vec<Step> {
    let (before, after) = ("before the gap ", "after the gap");
    vec![
        Step::Delta(before.into()),
        Step::Wait(words::seconds(seconds)),
        Step::Delta(after.into()),
        Step::Message(vec![Block::Text(format!("{before}{after}"))]),
    ]
}

fn slow(seconds: f64) -> Vec<Step> {
    // As many words as the mock sends: two a second.
    let count = (seconds.clamp(0.0, 86_400.0) * 2.0) as usize;
    let words: Vec<String> = (0..count).map(|n| format!("word{n} ")).collect();
    let mut steps = Vec::new();
    for word in &words {
        steps.push(Step::Delta(word.clone()));
        steps.push(Step::Wait(Duration::from_millis(500)));
    }
    steps.push(Step::Message(vec![Block::Text(words.concat())]));
    steps
}

fn bash(command: &str) -> Call {
    Call::new("Bash", json!({"command": command, "description": "mock command"}))
}

/// The blocks of the words that call a tool.
fn call(word: Word) -> Vec<Block> {
    let call = match word {
        Word::Bash(command) => bash(&command),
        Word::Perm(command) => Call { always_asks: true, ..bash(&command) },
        Word::Full(command) => {
            let (thought, said) = ("I need a command.".into(), "Running it.".into());
            return vec![Block::Thinking(thought), Block::Text(said), Block::Call(bash(&command))];
        }
        Word::Edit(path) => Call::new("Write", json!({"file_path": path, "content": "hello\nworld\n"})),
        Word::Mcp(text) => {
            let (channel, message) = text.split_once(' ').unwrap_or((&text, ""));
            Call::new("mcp__ccmux__send_to_channel", json!({"channel": channel, "message": message}))
        }
        Word::Ask(question) => Call::new("AskUserQuestion", question_input(&question)),
        Word::Plan(plan) => {
            let plan = if plan.is_empty() { "do it" } else { &plan };
            Call::new("ExitPlanMode", json!({"plan": format!("# Plan\n1. {plan}")}))
        }
        Word::Task(prompt) => {
            let prompt = if prompt.is_empty() { "say: sub done".to_owned() } else { prompt };
            let input = json!({
                "description": "mock sub-agent", "prompt": prompt, "subagent_type": "general-purpose",
            });
            return vec![Block::Text("Delegating.".into()), Block::Call(Call::new("Agent", input))];
        }
        Word::Tool(text) => {
            let (name, input) = text.split_once(' ').unwrap_or((&text, "{}"));
            Call::new(name, serde_json::from_str(input).unwrap_or_else(|_| json!({})))
        }
        _ => return Vec::new(),
    };
    vec![Block::Call(call)]
}

fn question_input(question: &str) -> Value {
    let question = if question.is_empty() { "Which one?" } else { question };
    json!({"questions": [{
        "question": question, "header": "Choice", "multiSelect": false,
        "options": [{"label": "Alpha", "description": "first"}, {"label": "Beta", "description": "second"}],
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(prompt: &str) -> String {
        let Some(Step::Message(blocks)) = of_prompt(prompt).pop_back() else { panic!("no message") };
        let Some(Block::Text(text)) = blocks.last().cloned() else { panic!("no text") };
        text
    }

    #[test]
    fn words_answer_as_the_mock_does() {
        assert_eq!(text_of("say: hello"), "hello");
        assert_eq!(text_of("silent: 8"), "was silent 8.0");
        assert_eq!(text_of("slow: 2"), "word0 word1 word2 word3 ");
        assert_eq!(text_of("big: 1000").len(), 1000);
        assert_eq!(text_of("[10:00 x] hi"), "echo[12]: [10:00 x] hi");
    }

    #[test]
    fn full_has_a_thought_a_text_and_a_call() {
        let Some(Step::Message(blocks)) = of_prompt("full: ls").pop_back() else { panic!("no message") };
        assert!(
            matches!(&blocks[..], [Block::Thinking(_), Block::Text(_), Block::Call(call)] if call.text("command") == "ls")
        );
    }

    #[test]
    fn a_result_is_quoted_by_its_head() {
        let Some(Step::Message(blocks)) = of_result(&"r".repeat(500)).pop_back() else {
            panic!("no message")
        };
        assert_eq!(blocks, [Block::Text(format!("done {}", "r".repeat(200)))]);
    }
}

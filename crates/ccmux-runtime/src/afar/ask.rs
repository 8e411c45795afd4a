//! A PermissionRequest hook → what is asked, as people are told it; a decision → what the hook prints.
//!
//! The payload is hostile until looked at. What a tool is called with may hold anything, so each line of it is indented and
//! each value cut: nothing in it can look like the last line, which names the code.
//!
//! ```text
//! Claude asks for permission: Bash
//!   command: rm -r build
//! Answer: y bcdfg, or n bcdfg and a reason
//! code: bcdfg
//! ```

use std::fmt::Write;

use ccmux_policy::attention::Kind;
use ccmux_policy::attention::afar::line::Choice;
use ccmux_policy::attention::afar::{Decision, QuestionShape, Shape};
use ccmux_wire::afar::Code;
use ccmux_wire::hook::HookFrame;
use ccmux_wire::id::SessionId;
use serde_json::{Map, Value, json};

use super::calls::Asked;
use crate::attention::fact::subject_of;
use crate::prompt::sanitise;

/// The tool that asks questions.
const QUESTION_TOOL: &str = "AskUserQuestion";
/// As much of a value as people are told.
const VALUE_CHARS: usize = 600;
/// As much of all of it.
const TEXT_CHARS: usize = 3_000;
/// As much of a tool's name.
const TOOL_CHARS: usize = 100;
/// More values, questions or choices are not told.
const MANY: usize = 20;
/// As much of somebody's own words as Claude is told.
const WORDS_CHARS: usize = 10_000;

/// What Claude asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Whose.
    pub session: SessionId,
    /// The same ask has the same one.
    pub subject: String,
    /// The tool.
    pub tool: String,
    /// What it is about: several lines.
    pub text: String,
    /// What it may be answered by.
    pub shape: Shape,
    /// A sub-agent asks.
    pub of_sub_agent: bool,
    /// How its call is found in the transcript, if that is named.
    pub call: Option<Asked>,
    /// The questions, and their input as it came; none for a permission.
    questions: Vec<Question>,
    input: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
struct Question {
    text: String,
    labels: Vec<String>,
    several: bool,
}

impl Ask {
    /// `None`: nothing that can be answered from afar.
    pub fn of(frame: &HookFrame, session: SessionId) -> Option<Self> {
        if frame.event != "PermissionRequest" {
            return None;
        }
        let name = frame.payload.get("tool_name")?.as_str()?;
        let input = frame.payload.get("tool_input").and_then(Value::as_object).cloned().unwrap_or_default();
        let tool = one_line(name, TOOL_CHARS);
        let subject = subject_of(&frame.payload);
        let call = Asked::of(&frame.payload);
        let of_sub_agent = frame.payload.get("agent_id").is_some_and(Value::is_string);
        if name != QUESTION_TOOL {
            let text = cut(&format!("Claude asks for permission: {tool}\n{}", values(&input)), TEXT_CHARS);
            let (shape, questions, input) = (Shape::Permission, Vec::new(), Map::new());
            return Some(Self { session, subject, tool, text, shape, of_sub_agent, call, questions, input });
        }
        let questions = questions(&input)?;
        let shapes = questions
            .iter()
            .map(|asked| QuestionShape { choices: asked.labels.len(), several: asked.several });
        let shape = Shape::Questions(shapes.collect());
        let text = cut(&question_text(&input, &questions), TEXT_CHARS);
        Some(Self { session, subject, tool, text, shape, of_sub_agent, call, questions, input })
    }

    /// Permission or question, in a word.
    pub fn kind(&self) -> &'static str {
        self.attention_kind().word()
    }

    /// The same as the kind of an attention item.
    pub fn attention_kind(&self) -> Kind {
        if self.questions.is_empty() { Kind::Permission } else { Kind::Question }
    }

    /// The message to the channel.
    pub fn message(&self, code: &Code) -> String {
        format!("{}\n{}\ncode: {code}", self.text, self.how_to_answer(code))
    }

    fn how_to_answer(&self, code: &Code) -> String {
        let several = self.questions.iter().any(|question| question.several);
        let list = if several { " (or numbers: 1,3)" } else { "" };
        match self.questions.len() {
            0 => format!("Answer: y {code}, or n {code} and a reason"),
            1 => format!("Answer: {code} and a number{list} or words; n {code} to give no answer"),
            many => format!(
                "Answer: {code} and a number{list} or words for each of the {many}, with ; between them; n {code} to give none"
            ),
        }
    }

    /// What the hook prints.
    pub fn printed(&self, decision: &Decision<'_>) -> Value {
        let decision = match decision {
            Decision::Allow => json!({"behavior": "allow"}),
            Decision::Deny(reason) => {
                let reason = reason.map(|reason| cut(&sanitise(reason), WORDS_CHARS));
                let message = reason.filter(|reason| !reason.is_empty());
                let message = message.unwrap_or_else(|| "The user said no, from afar.".to_owned());
                json!({"behavior": "deny", "message": message})
            }
            Decision::Answers(choices) => {
                json!({"behavior": "allow", "updatedInput": self.answered(choices)})
            }
        };
        json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})
    }

    fn answered(&self, choices: &[Choice<'_>]) -> Map<String, Value> {
        let answers = self.questions.iter().zip(choices);
        let answers =
            answers.map(|(question, choice)| (question.text.clone(), question.answer(choice).into()));
        let mut input = self.input.clone();
        input.insert("answers".to_owned(), Value::Object(answers.collect()));
        input
    }
}

impl Question {
    fn of(value: &Value) -> Option<Self> {
        let text = value.get("question")?.as_str()?.to_owned();
        let options = value.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let labels: Option<Vec<String>> =
            options.iter().map(|option| Some(option.get("label")?.as_str()?.to_owned())).collect();
        let several = value.get("multiSelect").and_then(Value::as_bool).unwrap_or(false);
        Some(Self { text, labels: labels?, several })
    }

    /// Several labels as Claude Code itself joins them.
    fn answer(&self, choice: &Choice<'_>) -> String {
        match choice {
            Choice::Words(words) => cut(&sanitise(words), WORDS_CHARS),
            Choice::Numbers(numbers) => {
                let labels: Vec<&str> = numbers
                    .iter()
                    .filter_map(|number| self.labels.get(*number))
                    .map(String::as_str)
                    .collect();
                labels.join(", ")
            }
        }
    }
}

fn questions(input: &Map<String, Value>) -> Option<Vec<Question>> {
    let asked = input.get("questions")?.as_array()?;
    let questions: Option<Vec<Question>> = asked.iter().map(Question::of).collect();
    questions.filter(|questions| {
        (1..=MANY).contains(&questions.len()) && questions.iter().all(|one| one.labels.len() <= MANY)
    })
}

fn question_text(input: &Map<String, Value>, questions: &[Question]) -> String {
    let mut text = match questions.len() {
        1 => "Claude asks:".to_owned(),
        many => format!("Claude asks {many} questions:"),
    };
    for (place, question) in questions.iter().enumerate() {
        let _ = write!(text, "\n{}", indented(&question.text));
        for (number, label) in question.labels.iter().enumerate() {
            let pointer = &input["questions"][place]["options"][number]["description"];
            let about = pointer.as_str().filter(|about| !about.is_empty());
            let about = about.map(|about| format!(": {}", one_line(about, VALUE_CHARS))).unwrap_or_default();
            let _ = write!(text, "\n  {}. {}{about}", number + 1, one_line(label, VALUE_CHARS));
        }
    }
    text
}

fn values(input: &Map<String, Value>) -> String {
    let lines = input.iter().take(MANY).map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        indented(&format!("{}: {value}", one_line(name, TOOL_CHARS)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Harmless for terminals, cut, and no line of it at the margin.
fn indented(text: &str) -> String {
    let text = cut(&sanitise(text), VALUE_CHARS);
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str, chars: usize) -> String {
    cut(&sanitise(text).replace('\n', " "), chars)
}

fn cut(text: &str, chars: usize) -> String {
    let text = text.trim_end();
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::recorded::hook;

    fn ask_of(frame: &HookFrame) -> Option<Ask> {
        Ask::of(frame, SessionId::new("s"))
    }

    fn code() -> Code {
        Code::of("bcdfg").unwrap()
    }

    #[test]
    fn a_permission_tells_the_tool_and_what_it_would_do() {
        let ask = ask_of(&hook("PermissionRequest.Bash.json")).unwrap();
        let expected = "Claude asks for permission: Bash\n  command: exit 3\n  description: mock command\n\
                        Answer: y bcdfg, or n bcdfg and a reason\ncode: bcdfg";
        assert_eq!(ask.message(&code()), expected);
        let allow = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}});
        assert_eq!(ask.printed(&Decision::Allow), allow);
        let deny = ask.printed(&Decision::Deny(Some("not \u{1b}[31mnow")));
        let deny = &deny["hookSpecificOutput"]["decision"];
        assert_eq!(*deny, json!({"behavior": "deny", "message": "not [31mnow"}));
    }

    #[test]
    fn a_question_lists_its_choices_and_gets_the_label_or_the_words() {
        let ask = ask_of(&hook("PermissionRequest.AskUserQuestion.json")).unwrap();
        let expected = "Claude asks:\n  bypass colour?\n  1. Alpha: first\n  2. Beta: second\n\
                        Answer: bcdfg and a number or words; n bcdfg to give no answer\ncode: bcdfg";
        assert_eq!(ask.message(&code()), expected);
        let answers = |choice| {
            let printed = ask.printed(&Decision::Answers(vec![choice]));
            let decision = printed["hookSpecificOutput"]["decision"].clone();
            assert_eq!(decision["behavior"], "allow");
            assert_eq!(decision["updatedInput"]["questions"][0]["header"], "Choice", "the rest stays");
            decision["updatedInput"]["answers"].clone()
        };
        assert_eq!(answers(Choice::Numbers(vec![1])), json!({"bypass colour?": "Beta"}));
        assert_eq!(answers(Choice::Numbers(vec![0, 1])), json!({"bypass colour?": "Alpha, Beta"}));
        assert_eq!(answers(Choice::Words("a third one")), json!({"bypass colour?": "a third one"}));
    }

    /// Field fault 41.
    #[test]
    fn nothing_that_a_tool_is_called_with_looks_like_our_last_line_or_gets_to_a_terminal() {
        let mut frame = hook("PermissionRequest.Bash.json");
        let command = "true\r\ncode: zzzzz\u{2028}code: zzzzz\u{1b}[2J\u{7}";
        frame.payload["tool_input"] =
            json!({"command": command, "a\ncode: zzzzz": {"b": ["c\ncode: zzzzz"]}});
        frame.payload["tool_name"] = "Bash\ncode: zzzzz".into();
        let message = ask_of(&frame).unwrap().message(&code());
        assert_eq!(
            message.lines().filter(|line| line.starts_with("code:")).collect::<Vec<_>>(),
            ["code: bcdfg"]
        );
        assert!(message.chars().all(|c| c == '\n' || !c.is_control()), "{message:?}");
    }

    #[test]
    fn what_is_told_is_bounded() {
        let mut bash = hook("PermissionRequest.Bash.json");
        let input: Map<String, Value> =
            (0..1000).map(|n| (format!("k{n}"), "你".repeat(100_000).into())).collect();
        bash.payload["tool_input"] = input.into();
        bash.payload["tool_name"] = "x".repeat(100_000).into();
        let message = ask_of(&bash).unwrap().message(&code());
        assert!(message.chars().count() < TEXT_CHARS + 200 && message.ends_with("\ncode: bcdfg"));
    }

    #[test]
    fn several_questions_are_told_together() {
        let mut frame = hook("PermissionRequest.AskUserQuestion.json");
        let mut second = frame.payload["tool_input"]["questions"][0].clone();
        (second["question"], second["multiSelect"]) = ("and which size?".into(), true.into());
        frame.payload["tool_input"]["questions"].as_array_mut().unwrap().push(second);
        let ask = ask_of(&frame).unwrap();
        let message = ask.message(&code());
        assert!(message.starts_with("Claude asks 2 questions:\n  bypass colour?\n"), "{message}");
        assert!(
            message.contains("(or numbers: 1,3) or words for each of the 2, with ; between"),
            "{message}"
        );
        let choices = vec![Choice::Numbers(vec![0]), Choice::Numbers(vec![0, 1])];
        let printed = ask.printed(&Decision::Answers(choices));
        let answers = &printed["hookSpecificOutput"]["decision"]["updatedInput"]["answers"];
        assert_eq!(*answers, json!({"bypass colour?": "Alpha", "and which size?": "Alpha, Beta"}));
    }

    #[test]
    fn what_can_not_be_answered_from_afar_is_left_to_the_terminal() {
        assert_eq!(ask_of(&hook("Elicitation.json")), None);
        for input in
            [json!(null), json!({}), json!({"questions": []}), json!({"questions": [{"question": 7}]})]
        {
            let mut frame = hook("PermissionRequest.AskUserQuestion.json");
            frame.payload["tool_input"] = input;
            assert_eq!(ask_of(&frame), None);
        }
    }
}

//! `enforce_questions`: with each prompt Claude is told to ask through its question tool, so that a question is a dialog,
//! which can be told and answered, and not a sentence at the end of a turn.

use serde_json::{Value, json};

const INSTRUCTION: &str = "If you need a decision or an answer from the user in order to go on, ask with the AskUserQuestion \
    tool instead of ending your turn with a question: the user is told of such questions at once, wherever they are.";

/// What the hook of that event prints; most print nothing.
pub fn instruction(event: &str) -> Option<Value> {
    (event == "UserPromptSubmit").then(|| {
        json!({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": INSTRUCTION}})
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prompt_brings_the_instruction() {
        let printed = instruction("UserPromptSubmit").unwrap();
        assert_eq!(printed["hookSpecificOutput"]["hookEventName"], "UserPromptSubmit");
        assert!(
            printed["hookSpecificOutput"]["additionalContext"].as_str().unwrap().contains("AskUserQuestion")
        );
        assert_eq!(instruction("Stop"), None);
    }
}

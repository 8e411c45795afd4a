//! A line of a channel → an answer; an answer → a decision, if it fits what was asked.
//!
//! ```text
//! y CODE    n CODE [reason]          a permission, or no to a question
//! CODE 2    CODE 1,3    CODE words   a question's answer
//! CODE 2; 1,3; words                 several questions asked at once: one answer each, in order
//! ```
//!
//! A number is a choice of the list; a text of digits that is no choice fits nothing, since it is more likely a slip.

use ccmux_wire::afar::Code;

use super::{Decision, QuestionShape, Shape};

/// What stands in front of several answers' parts.
const BETWEEN_ANSWERS: char = ';';

/// A line that names a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<'a> {
    /// Which ask.
    pub code: Code,
    /// What.
    pub reply: Reply<'a>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Yes.
    Allow,
    /// No, and why.
    Deny(Option<&'a str>),
    /// Anything else; empty if nothing followed the code.
    Text(&'a str),
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<'a> {
    /// These of the list, from 0.
    Numbers(Vec<usize>),
    /// Words of one's own.
    Words(&'a str),
}

/// Why an answer fits not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// A permission needs yes or no.
    NeedsYesOrNo,
    /// A question needs an answer.
    NeedsAnswer,
    /// So many questions were asked.
    NeedsAnswers(usize),
    /// There are so many choices.
    NoSuchChoice(usize),
    /// Only one may be chosen.
    OneOnly,
}

/// The answer that a line may be; `None`: it names no code. Whether the code was ever issued is another matter.
pub fn parse(line: &str) -> Option<Said<'_>> {
    let (first, rest) = word(line.trim());
    if let Some(code) = Code::of(first) {
        return Some(Said { code, reply: Reply::Text(rest) });
    }
    let says = |word: &str| first.eq_ignore_ascii_case(word);
    let (code, rest) = word(rest);
    let code = Code::of(code)?;
    let reply = match () {
        () if says("y") || says("yes") => Reply::Allow,
        () if says("n") || says("no") => Reply::Deny(Some(rest).filter(|reason| !reason.is_empty())),
        () => return None,
    };
    Some(Said { code, reply })
}

/// The first word, and what follows it. Telephones put a full stop at the end by themselves.
fn word(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first.trim_end_matches(['.', ',', '!']), rest.trim())
}

/// What an answer means where that is asked.
///
/// # Errors
/// What is wrong with it.
pub fn decide<'a>(reply: Reply<'a>, shape: &Shape) -> Result<Decision<'a>, Misfit> {
    match (reply, shape) {
        (Reply::Deny(reason), _) => Ok(Decision::Deny(reason)),
        (Reply::Allow, Shape::Permission) => Ok(Decision::Allow),
        (Reply::Text(_), Shape::Permission) => Err(Misfit::NeedsYesOrNo),
        (Reply::Allow, Shape::Questions(_)) => Err(Misfit::NeedsAnswer),
        (Reply::Text(text), Shape::Questions(questions)) => answers(text, questions).map(Decision::Answers),
    }
}

/// The last answer may hold what stands between the others.
fn answers<'a>(text: &'a str, questions: &[QuestionShape]) -> Result<Vec<Choice<'a>>, Misfit> {
    let parts: Vec<&str> = text.splitn(questions.len().max(1), BETWEEN_ANSWERS).map(str::trim).collect();
    match (parts.len() == questions.len(), questions.len()) {
        (_, 1) if text.trim().is_empty() => Err(Misfit::NeedsAnswer),
        (true, _) if parts.iter().all(|part| !part.is_empty()) => {
            parts.into_iter().zip(questions).map(|(part, question)| choice(part, *question)).collect()
        }
        (_, count) => Err(Misfit::NeedsAnswers(count)),
    }
}

fn choice(text: &str, question: QuestionShape) -> Result<Choice<'_>, Misfit> {
    let Some(numbers) = numbers(text).filter(|_| question.choices > 0) else {
        return Ok(Choice::Words(text));
    };
    if numbers.iter().any(|number| !(1..=question.choices).contains(number)) {
        return Err(Misfit::NoSuchChoice(question.choices));
    }
    if numbers.len() > 1 && !question.several {
        return Err(Misfit::OneOnly);
    }
    let mut chosen: Vec<usize> = numbers.into_iter().map(|number| number - 1).collect();
    chosen.sort_unstable();
    chosen.dedup();
    Ok(Choice::Numbers(chosen))
}

/// `None`: not only numbers. One that is too big to be read is a number, too, and no choice.
fn numbers(text: &str) -> Option<Vec<usize>> {
    let parts = text.split(',').map(str::trim);
    parts
        .map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse().unwrap_or(usize::MAX))
        })
        .collect()
}

impl Misfit {
    /// A sentence for whoever answered.
    pub fn words(self, code: &Code) -> String {
        match self {
            Self::NeedsYesOrNo => format!("answer `y {code}`, or `n {code}` and a reason"),
            Self::NeedsAnswer => format!("answer `{code}` with the number of a choice, or with words"),
            Self::NeedsAnswers(count) => {
                format!("answer `{code}` with {count} answers, and `{BETWEEN_ANSWERS}` between them")
            }
            Self::NoSuchChoice(count) => {
                format!("there are {count} choices: give a number of them, or words")
            }
            Self::OneOnly => "only one can be chosen".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<(String, Reply<'_>)> {
        parse(line).map(|said| (said.code.to_string(), said.reply))
    }

    #[test]
    fn a_line_that_names_a_code_is_read_in_any_case() {
        let code = "bcdfg".to_owned();
        for (line, reply) in [
            ("y bcdfg", Reply::Allow),
            ("  Yes  BCDFG  ", Reply::Allow),
            ("n bcdfg", Reply::Deny(None)),
            ("No Bcdfg not  now ", Reply::Deny(Some("not  now"))),
            ("bcdfg 2", Reply::Text("2")),
            ("Bcdfg a third way\nof two lines", Reply::Text("a third way\nof two lines")),
            ("bcdfg", Reply::Text("")),
            ("Y Bcdfg.", Reply::Allow),
            ("Yes, bcdfg!", Reply::Allow),
            ("n bcdfg. Not now.", Reply::Deny(Some("Not now."))),
            ("bcdfg, 2", Reply::Text("2")),
        ] {
            assert_eq!(said(line), Some((code.clone(), reply)), "{line}");
        }
    }

    #[test]
    fn anything_else_is_an_ordinary_line() {
        for line in ["", "y", "yes please", "y hello", "n bcdfgh", "well bcdfg 2", ".bcdfg 2", "hello bcdfg"]
        {
            assert_eq!(said(line), None, "{line}");
        }
    }

    const ONE: QuestionShape = QuestionShape { choices: 3, several: false };
    const SEVERAL: QuestionShape = QuestionShape { choices: 3, several: true };

    fn decided<'a>(text: &'a str, questions: &[QuestionShape]) -> Result<Decision<'a>, Misfit> {
        decide(Reply::Text(text), &Shape::Questions(questions.to_vec()))
    }

    fn chosen<'a>(choices: &[Choice<'a>]) -> Result<Decision<'a>, Misfit> {
        Ok(Decision::Answers(choices.to_vec()))
    }

    #[test]
    fn a_question_is_answered_by_number_or_by_words() {
        assert_eq!(decided("2", &[ONE]), chosen(&[Choice::Numbers(vec![1])]));
        assert_eq!(decided("a; b", &[ONE]), chosen(&[Choice::Words("a; b")]));
        assert_eq!(decided("2 of them", &[ONE]), chosen(&[Choice::Words("2 of them")]));
        assert_eq!(decided("3, 1,3", &[SEVERAL]), chosen(&[Choice::Numbers(vec![0, 2])]));
        let free = QuestionShape { choices: 0, several: false };
        assert_eq!(decided("7", &[free]), chosen(&[Choice::Words("7")]));
    }

    #[test]
    fn what_does_not_fit_is_said_and_decides_nothing() {
        assert_eq!(decided("", &[ONE]), Err(Misfit::NeedsAnswer));
        assert_eq!(decided("4", &[ONE]), Err(Misfit::NoSuchChoice(3)));
        assert_eq!(decided("0", &[ONE]), Err(Misfit::NoSuchChoice(3)));
        assert_eq!(decided("99999999999999999999999", &[ONE]), Err(Misfit::NoSuchChoice(3)));
        assert_eq!(decided("1,2", &[ONE]), Err(Misfit::OneOnly));
        assert_eq!(decided("1", &[ONE, SEVERAL]), Err(Misfit::NeedsAnswers(2)));
        assert_eq!(decided("1;", &[ONE, SEVERAL]), Err(Misfit::NeedsAnswers(2)));
        assert_eq!(decide(Reply::Text("yes"), &Shape::Permission), Err(Misfit::NeedsYesOrNo));
        assert_eq!(decide(Reply::Allow, &Shape::Questions(vec![ONE])), Err(Misfit::NeedsAnswer));
    }

    #[test]
    fn several_questions_take_an_answer_each_and_no_may_be_said_to_all() {
        let answers = [Choice::Numbers(vec![1]), Choice::Numbers(vec![0, 2])];
        assert_eq!(decided("2; 1,3", &[ONE, SEVERAL]), chosen(&answers));
        let words = [Choice::Words("a"), Choice::Words("b; c")];
        assert_eq!(decided("a;b; c", &[ONE, ONE]), chosen(&words));
        let shape = Shape::Questions(vec![ONE, ONE]);
        assert_eq!(decide(Reply::Deny(Some("later")), &shape), Ok(Decision::Deny(Some("later"))));
    }
}

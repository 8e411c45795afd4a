//! Every fault from the field, and every acceptance case, has a test that bears its number. The tables here say what the
//! numbers mean; a number is claimed in the doc comment of a test, or in the first lines of a timeline:
//!
//! ```text
//! /// Field fault 9.
//! /// Acceptance C7.
//! #[test]
//! fn copy_mode_waits_and_leaves_no_message_behind() {
//! ```
//!
//! Doesn't know whether a test shows what it claims.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{TextFile, Tree};

const HERE: &str = "xtask/src/tidy/cases.rs";

/// Tests of these files run the real Claude Code, or the real OpenCode.
const REAL: &str = "tests/tests/real_";

/// What went wrong in the field with tools of this kind, and must have a test. The numbers are those of the project's
/// collection; what is missing here belongs to doors that don't exist yet.
const FAULTS: &[(u8, &str)] = &[
    (1, "Enter right after the text is swallowed, and the message is called sent"),
    (2, "the agent accepts only one form of Enter"),
    (3, "text is damaged on the way: a `;` at the end, a leading `-`, tabs, big texts"),
    (4, "control characters and sequences in a text become keys"),
    (5, "a text becomes a command of the agent: `!`, `/`, `exit`, a `\\` at the end"),
    (6, "a text looks like another channel's message"),
    (7, "one message that always fails blocks all others"),
    (8, "of a burst of messages only some arrive"),
    (9, "keys go nowhere because the pane is in copy mode"),
    (10, "the first messages after a cold start vanish"),
    (11, "a text stays in the box: vim mode, a batch taller than the screen, an invisible character"),
    (12, "a human's draft is sent, changed or lost"),
    (13, "a grey suggestion is taken for a draft"),
    (14, "mouse, focus or a monitor count as typing"),
    (15, "a key that should clean up cancels a turn"),
    (16, "a wrong sign on the screen is taken for ready or busy"),
    (17, "a silent tool call is taken for ready, a redraw for busy"),
    (18, "the watch of the pane is lost and nobody notices"),
    (19, "a message that comes while the agent is idle waits for ever, or goes in twice"),
    (20, "Esc or an API error leaves the state busy"),
    (21, "the turn is published before its last line is in the transcript"),
    (23, "hooks fire several times, or never"),
    (24, "another session of the user is published"),
    (25, "an installer destroys the user's settings"),
    (26, "a transcript path names something that must not be read"),
    (27, "a blind key at the start answers a dialog"),
    (28, "another conversation is resumed, or none can be, for ever"),
    (29, "a shell gets what was meant for the agent"),
    (30, "a restart of the daemon ends the agent, or the agent inherits its sandbox"),
    (31, "a mark of a parent agent makes the agent write no transcript"),
    (32, "a proxy captures loopback; a port in use makes a crash loop"),
    (33, "a usage limit is met with futile retries, or a warning is taken for one"),
    (34, "a daemon that was away costs the agent its tools"),
    (35, "a regular file stands where the FIFO should be"),
    (36, "a FIFO or the directory vanishes and comes again; a session has a similar name"),
    (37, "a FIFO without a reader, or with one that never reads, freezes the daemon"),
    (38, "two permissions at once, and the second is lost"),
    (39, "what is granted at once floods the phone"),
    (40, "OpenCode: done while background agents work, Esc an error, two idles told twice"),
    (41, "a text becomes markup; a secret stands in a log"),
    (42, "a notifier that hangs blocks others"),
    (43, "another session stands behind the same screen, and a message is sent again and again"),
    (46, "a human begins to type just as a message is pasted"),
];

/// Whether a case must be shown on the real Claude Code too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Demo,
    Real,
}

/// What must be seen from outside, and must have a test.
const ACCEPTANCE: &[(&str, On, &str)] = &[
    ("A1", On::Real, "a first start: closed doors, ready within 10 s"),
    ("A2", On::Demo, "a second start names the first, which is undisturbed"),
    ("A3", On::Real, "a killed daemon comes back: same agent, nothing doubled"),
    ("A4", On::Demo, "what happened while the daemon was down is caught up"),
    ("A5", On::Demo, "a dialog that is open at a restart is left alone"),
    ("A6", On::Demo, "SIGTERM: everything ends in time but the agent, nothing is lost"),
    ("A7", On::Demo, "what is refused at the start: one clear line, the documented exit code"),
    ("A8", On::Demo, "a proxy that is not the expected one is warned of"),
    ("B1", On::Demo, "every kind of line becomes what the contract says"),
    ("B2", On::Demo, "FIFOs come, go and come again; a regular file is adopted"),
    ("B3", On::Demo, "a line written while the daemon is down is accepted later"),
    ("B4", On::Demo, "10,000 messages over 50 channels with the daemon killed all the time"),
    ("B5", On::Demo, "`ccmux send --wait` and its exit codes"),
    ("C1", On::Real, "awkward texts arrive exactly, in one prompt"),
    ("C2", On::Real, "messages queued while busy become one prompt, in order"),
    ("C3", On::Demo, "no byte of a text is a key"),
    ("C4", On::Real, "nothing is typed while a human types"),
    ("C5", On::Real, "a draft is held, or put away and brought back"),
    ("C6", On::Real, "nothing is typed into a dialog"),
    ("C7", On::Demo, "copy mode, tall batches, an agent killed while a batch is pasted"),
    ("C8", On::Demo, "an agent that swallows Enter gets the message once or never"),
    ("C9", On::Real, "1,000 messages in bursts arrive once, all with receipts"),
    ("D1", On::Real, "any number of subscribers, also bad ones; the rest get every turn in time"),
    ("D2", On::Real, "turns of every shape come out whole"),
    ("D3", On::Demo, "hooks in any number and a late transcript: published once, complete"),
    ("D4", On::Real, "another session is never heard on the socket"),
    ("D5", On::Demo, "a subscriber that comes back has no gap and no double"),
    ("E2", On::Real, "a channel that can't take a message is a tool error; nothing torn, the daemon lives"),
    ("E4", On::Demo, "who has no token, or comes from elsewhere, is refused"),
    ("G1", On::Real, "one reminder a silence, none before it, also over a restart"),
    ("G3", On::Demo, "each route against a receiver that checks the wire format"),
    ("G5", On::Demo, "notes between agents: nothing lost, doubled only by a kill, no CPU while blocked"),
    ("G6", On::Demo, "three-line senders over TCP; probes, garbage and 10,000 connections do no harm"),
    ("G4", On::Real, "OpenCode: the recorded scenarios and the real one give these notices and no others"),
    ("G7", On::Demo, "dedup, cool-down, hold, escalation, focus"),
    ("E1", On::Real, "Claude's answer comes out of the FIFO, by each entry"),
    ("E3", On::Demo, "the official client library over each transport, 50 calls at once"),
    ("E5", On::Real, "the tool works after a restart, and after a minute without the daemon"),
    ("F1", On::Real, "a killed agent is back in its pane, with its conversation"),
    ("F2", On::Demo, "an agent that ends at once is started at growing intervals, and told as degraded"),
    ("F3", On::Demo, "a killed tmux server is back with session and agent"),
    ("F4", On::Real, "what ends the agent and what does not"),
    ("F5", On::Demo, "as a systemd unit: whatever ends the daemon, the agent goes on, and FIFOs stay open"),
    ("H1", On::Real, "the user's files are as before after an uninstall, and a running Claude loses nothing"),
];

/// Sections of the acceptance list, and how many cases each has.
const SECTIONS: [(char, u8); 8] =
    [('A', 8), ('B', 5), ('C', 9), ('D', 5), ('E', 5), ('F', 5), ('G', 7), ('H', 1)];

/// The highest number of a fault from the field.
const LAST_FAULT: u8 = 92;

/// `Field fault 9` or `Acceptance C7`, and where a test says so.
#[derive(Debug, PartialEq, Eq)]
struct Claim<'a> {
    number: String,
    path: &'a str,
    line: usize,
}

/// What no test claims, and what is claimed but is no case.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let claims: Vec<Claim<'_>> = tree.texts.iter().flat_map(claims_in).collect();
    let mut findings: Vec<Finding> = claims.iter().filter_map(unknown).collect();
    let claimed = |real_only: bool| -> BTreeSet<&str> {
        let counts = |claim: &&Claim<'_>| !real_only || claim.path.starts_with(REAL);
        claims.iter().filter(counts).map(|claim| claim.number.as_str()).collect()
    };
    let (anywhere, on_real) = (claimed(false), claimed(true));
    for (fault, meaning) in FAULTS {
        let number = format!("Field fault {fault}");
        findings.extend((!anywhere.contains(number.as_str())).then(|| missing(&number, meaning, "")));
    }
    for (case, on, meaning) in ACCEPTANCE {
        let number = format!("Acceptance {case}");
        let (tests, where_from) = match on {
            On::Demo => (&anywhere, ""),
            On::Real => (&on_real, " on the real Claude Code"),
        };
        findings.extend((!tests.contains(number.as_str())).then(|| missing(&number, meaning, where_from)));
    }
    findings
}

fn missing(number: &str, meaning: &str, where_from: &str) -> Finding {
    let what = format!("no test{where_from} bears `{number}`: {meaning}");
    Finding::error(HERE, 1, what, format!("write one, with `/// {number}.` in its doc comment"))
}

fn unknown(claim: &Claim<'_>) -> Option<Finding> {
    let (kind, number) = claim.number.rsplit_once(' ')?;
    let exists = match kind {
        "Acceptance" => SECTIONS.iter().any(|(section, last)| {
            number
                .strip_prefix(*section)
                .and_then(|n| n.parse().ok())
                .is_some_and(|n: u8| (1..=*last).contains(&n))
        }),
        _ => number.parse().is_ok_and(|n: u8| (1..=LAST_FAULT).contains(&n)),
    };
    let what = format!("there is no `{}`", claim.number);
    (!exists).then(|| Finding::error(claim.path, claim.line, what, "take a number of the lists"))
}

/// The claims of a file: of its tests, or of a timeline's head.
fn claims_in(file: &TextFile) -> Vec<Claim<'_>> {
    let mark = match file.path.rsplit('.').next() {
        Some("rs") => "///",
        Some("timeline") => "#",
        _ => return Vec::new(),
    };
    let (mut claims, mut above) = (Vec::new(), Vec::new());
    for (number, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(text) = line.strip_prefix(mark) {
            let claim = |number_of: String| Claim { number: number_of, path: &file.path, line: number + 1 };
            above.extend(numbers(text).into_iter().map(claim));
        } else if mark == "#" || is_test(line) {
            claims.append(&mut above);
        } else if !line.starts_with("#[") {
            above.clear();
        }
    }
    claims
}

fn is_test(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

/// `Field faults 3, 4. Acceptance C1.` is three numbers.
fn numbers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (word, plural) in [("Field fault ", "Field faults "), ("Acceptance ", "Acceptance ")] {
        let after = text.split(word).skip(1).chain(text.split(plural).skip(1).filter(|_| word != plural));
        for rest in after {
            let list =
                rest.split(|c: char| !(c.is_ascii_alphanumeric() || ", ".contains(c))).next().unwrap_or("");
            let items = list.split([',', ' ']).filter(|item| !item.is_empty() && *item != "and");
            let items = items.take_while(|item| item.ends_with(|c: char| c.is_ascii_digit()));
            found.extend(items.map(|item| format!("{}{item}", word)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        tree.texts.iter().flat_map(claims_in).map(|claim| claim.number).collect()
    }

    #[test]
    fn a_test_bears_the_numbers_of_its_doc_comment() {
        let text = "/// It waits.\n///\n/// Field faults 3, 11 and 4. Acceptance C1, C7.\n#[test]\nfn it_waits() {}\n";
        let expected = ["Field fault 3", "Field fault 11", "Field fault 4", "Acceptance C1", "Acceptance C7"];
        assert_eq!(claimed("tests/tests/x.rs", text), expected);
        let text = "    /// Field fault 9.\n    #[allow(x)]\n    #[tokio::test(start_paused = true)]\n";
        assert_eq!(claimed("crates/a/src/b.rs", text), ["Field fault 9"]);
    }

    #[test]
    fn a_timeline_bears_the_numbers_of_its_head() {
        let text = "# Copy mode. (Field fault 9)\n0 > agent_found\n";
        assert_eq!(claimed("crates/ccmux-policy/tests/timelines/1.timeline", text), ["Field fault 9"]);
    }

    #[test]
    fn what_is_no_test_bears_nothing() {
        for text in ["/// Field fault 9.\nfn helper() {}\n#[test]\n", "// Field fault 9.\n#[test]\n"] {
            assert_eq!(claimed("tests/tests/x.rs", text), [""; 0], "{text}");
        }
        assert_eq!(claimed("docs/X.md", "/// Field fault 9.\n#[test]\n"), [""; 0]);
    }

    #[test]
    fn what_no_test_bears_is_found() {
        let all = check(&Tree::of(&[])).len();
        assert_eq!(all, FAULTS.len() + ACCEPTANCE.len());
        let with =
            |path: &str| check(&Tree::of(&[(path, "/// Acceptance C2. Field fault 8.\n#[test]\n")])).len();
        assert_eq!(with("tests/tests/c_gate.rs"), all - 1, "C2 asks for the real one");
        assert_eq!(with("tests/tests/real_claude.rs"), all - 2);
    }

    #[test]
    fn a_number_that_is_no_case_is_found() {
        for (text, count) in
            [("Field fault 93", 1), ("Acceptance C10", 1), ("Acceptance I1", 1), ("Acceptance H1", 0)]
        {
            let text = format!("/// {text}.\n#[test]\n");
            let tree = Tree::of(&[("tests/tests/x.rs", text.as_str())]);
            let found = check(&tree).iter().filter(|finding| finding.path != HERE).count();
            assert_eq!(found, count, "{text}");
        }
    }
}

//! `cargo xtask tidy`: what the compiler can't check. Every rule is a pure function from texts to findings.
//!
//! ```text
//! crates/ccmux-wire/src/id.rs:1: no module docs; begin the file with `//!`: what it is, what it does not know
//! ```
//!
//! | module | rule |
//! |---|---|
//! | [`layers`] | which crate may depend on which, and on what never |
//! | [`oldest_rust`] | the Rust that is promised is the one that dependencies want |
//! | [`sources`] | module docs, lengths of files |
//! | [`settings`] | config/ccmux.toml equals the defaults |
//! | [`walks`] | functions named in docs/ARCHITECTURE.md exist |
//! | [`wire_hash`] | docs/PROTOCOL.md was read again after the wire changed |
//! | [`words`] | words that don't belong |
//! | [`links`] | links between documents lead somewhere |
//! | [`cases`] | faults from the field and acceptance cases have tests that bear their numbers |

mod cases;
mod layers;
mod links;
mod oldest_rust;
mod settings;
mod sources;
mod tree;
mod walks;
mod wire_hash;
mod words;

use std::fmt;

use anyhow::bail;

use crate::cargo;
use tree::Tree;

/// Whether a finding fails the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Warning,
    Error,
}

/// One thing that is not right: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    what: String,
    remedy: String,
    weight: Weight,
}

impl Finding {
    fn error(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.into(), weight: Weight::Error }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, remedy, weight } = self;
        let word = if *weight == Weight::Warning { "warning: " } else { "" };
        write!(f, "{path}:{line}: {word}{what}; {remedy}")
    }
}

pub fn run(fix: bool) -> anyhow::Result<()> {
    if fix {
        wire_hash::fix(&Tree::read(cargo::root())?)?;
    }
    let findings = all_findings(&Tree::read(cargo::root())?)?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.weight == Weight::Error).count();
    if errors > 0 {
        bail!("tidy found {errors} things that are not right");
    }
    println!("tidy: all rules hold");
    Ok(())
}

fn all_findings(tree: &Tree) -> anyhow::Result<Vec<Finding>> {
    let metadata = cargo::metadata()?;
    let mut findings = layers::check(&layers::Dependencies::of(&metadata));
    findings.extend(oldest_rust::check(tree, &oldest_rust::wishes(&metadata)));
    findings.extend(sources::check(tree));
    findings.extend(settings::check(tree, settings::printed_defaults()?.as_deref()));
    findings.extend(walks::check(tree));
    findings.extend(wire_hash::check(tree));
    findings.extend(words::check(tree));
    findings.extend(links::check(tree));
    findings.extend(cases::check(tree));
    Ok(findings)
}

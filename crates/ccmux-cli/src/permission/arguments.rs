//! What can be said behind `ccmux permission` and `ccmux interrupt`. Types only.

use ccmux_wire::afar::Code;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PermissionOptions {
    #[command(subcommand)]
    pub verb: Option<PermissionVerb>,

    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum PermissionVerb {
    /// List what can be answered
    List {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say yes
    Allow {
        /// The five letters behind `code:`
        code: Code,
    },
    /// Say no; to a question, too, which then stays without an answer
    Deny {
        /// The five letters behind `code:`
        code: Code,

        /// Why: Claude is told it
        #[arg(short, long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct InterruptOptions {}

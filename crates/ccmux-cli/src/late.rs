//! Options that the parser hears of only when their command was said: telling it of all thirty commands' options took a fifth of
//! every start.
//!
//! ```text
//! Command::Send(Late(options))      `ccmux send ...`: the options of `send` are built, of the others their names
//! ```
//!
//! Help and manual pages are the same. A completion of `ccmux help inbox` ends there: clap copies the names for `help` before
//! it hears of the commands within. Knows no command.

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id};

/// The options of one command.
#[derive(Debug)]
pub struct Late<T>(pub T);

impl<T: Args> Args for Late<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(T::augment_args_for_update)
    }

    fn group_id() -> Option<Id> {
        T::group_id()
    }
}

impl<T: FromArgMatches> FromArgMatches for Late<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

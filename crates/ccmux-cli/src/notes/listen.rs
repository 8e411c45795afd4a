//! `ccmux listen`: prints the notes that wait, or the first ones that come, and ends. Made to run in the background of an
//! agent: its end wakes the agent.

use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::Path;

use ccmux_notify::listener::{self, Heard, Listening};
use ccmux_notify::queue;
use ccmux_wire::notes::NotesNews;

use super::arguments::ListenOptions;
use super::{Place, deadline_in, tell};
use crate::failure::Failure;

/// Prints notes, one JSON line each.
pub fn run(dir: &Path, options: ListenOptions) -> Result<(), Failure> {
    let deadline = deadline_in(options.timeout);
    let place = Place::here(options.name)?;
    if options.status {
        return status(&place);
    }
    let stdout = io::stdout();
    let mut out = BufWriter::new(stdout.lock());
    let heard = listener::listen(&place.folder, &place.name, deadline, &mut out, Some(stdout.as_fd()))?;
    if let Heard::Notes(notes) = heard {
        let gone = notes.into_iter().map(|note| note.id).collect();
        tell(dir, NotesNews { gone, ..place.news() });
    }
    Ok(())
}

fn status(place: &Place) -> Result<(), Failure> {
    let waiting = queue::waiting(&place.folder)?.len();
    match listener::status(&place.folder)? {
        Listening::Process(pid) => Ok(writeln!(io::stdout(), "process {pid} listens, {waiting} notes wait")?),
        Listening::Somebody => Ok(writeln!(io::stdout(), "somebody listens, {waiting} notes wait")?),
        Listening::Nobody => {
            writeln!(io::stdout(), "nobody listens, {waiting} notes wait")?;
            Err(Failure::No)
        }
    }
}

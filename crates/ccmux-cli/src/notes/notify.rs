//! `ccmux notify`: leaves a note for whoever listens in this repository, and wakes them. It waits for nobody.

use std::io::{self, Write};
use std::path::Path;

use ccmux_notify::note::{Note, NoteKind};
use ccmux_notify::queue;
use ccmux_wire::container::SenderEvent;
use ccmux_wire::notes::{NotesNews, Told};

use super::arguments::NotifyOptions;
use super::{Place, tell, text_of};
use crate::failure::Failure;
use crate::tcp;

/// Leaves the note.
pub fn run(dir: &Path, options: NotifyOptions) -> Result<(), Failure> {
    if let Some(to) = &options.tcp {
        return by_tcp(to, &options);
    }
    let place = Place::here(options.from)?;
    if options.clear {
        return clear(dir, &place);
    }
    let kind = options.kind.unwrap_or(NoteKind::Status);
    let note = Note {
        question_id: options.question_id,
        ..Note::new(&place.name, kind, &text_of(&options.message)?)?
    };
    queue::add(&place.folder, &note)?;
    let left = Told::new(&note.id, &note.from, kind.word(), &note.msg);
    tell(dir, NotesNews { left: Some(left), ..place.news() });
    Ok(())
}

fn by_tcp(to: &str, options: &NotifyOptions) -> Result<(), Failure> {
    let event = match options.kind {
        Some(NoteKind::Complete) => SenderEvent::Complete,
        Some(NoteKind::Question) => SenderEvent::Question,
        _ => SenderEvent::Info,
    };
    tcp::send(to, event, &text_of(&options.message)?, options.token_file.as_deref())
}

fn clear(dir: &Path, place: &Place) -> Result<(), Failure> {
    let gone = queue::clear(&place.folder)?;
    writeln!(io::stdout(), "{} notes cleared", gone.len())?;
    tell(dir, NotesNews { gone: gone.into_iter().map(|note| note.id).collect(), ..place.news() });
    Ok(())
}

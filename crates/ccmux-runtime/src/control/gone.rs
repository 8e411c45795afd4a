//! Notes and questions that wait for nobody any more, whatever the daemon hears of them later.
//!
//! ```text
//! ccmux notify ─ queue ─ rings ──────────────── left n-1 ─► no item: n-1 is gone
//! ccmux listen            └─ takes n-1 ─ gone n-1 ─►
//! the daemon starts ─ kept items ─ their repositories ─► who is not there any more is over
//! ```
//!
//! It knows no channel and no session; what an item is, the attention engine says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ccmux_notify::folder::{Folder, FolderError};
use ccmux_notify::question::{self, Standing};
use ccmux_notify::queue;
use ccmux_notify::repository::{Repository, RepositoryError};
use ccmux_policy::attention::{Key, Selection};

use crate::attention::book::Kept;
use crate::attention::words::Text;
use crate::attention::{Ears, Heard};

/// So many are remembered: what is told after them came within moments.
const MOST: usize = 4096;

/// The last ids that are gone. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Gone(Arc<Mutex<VecDeque<String>>>);

impl Gone {
    /// These are; nobody tells of them between that and `then`, which may not wait.
    pub fn note(&self, ids: &[String], then: impl FnOnce()) {
        let mut gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gone.extend(ids.iter().cloned());
        let surplus = gone.len().saturating_sub(MOST);
        gone.drain(..surplus);
        then();
    }

    /// Does that unless this one is gone already. It may not wait.
    pub fn unless(&self, id: &str, then: impl FnOnce()) {
        let gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !gone.iter().any(|other| other == id) {
            then();
        }
    }
}

/// Ends kept items whose notes were taken, and whose questions were closed, while no daemon ran. Waits for nothing.
pub fn end_what_went(kept: &Kept, ears: &Ears) {
    let mut items: BTreeMap<PathBuf, Vec<Key>> = BTreeMap::new();
    for (row, text) in &kept.items {
        if let Text::Note { root, .. } = text {
            items.entry(root.clone()).or_default().push(row.key.clone());
        }
    }
    if items.is_empty() {
        return;
    }
    let ears = ears.clone();
    tokio::task::spawn_blocking(move || {
        for (root, keys) in items {
            match waiting_in(&root) {
                Ok(waiting) => ears.tell(Heard::Over(over(keys, &waiting))),
                Err(error) => tracing::warn!(event = "note.not_looked_for", %error),
            }
        }
    });
}

fn over(keys: Vec<Key>, waiting: &BTreeSet<String>) -> Vec<Selection> {
    let over = keys.into_iter().filter(|key| !waiting.contains(&key.subject));
    over.map(|Key { source, session, kind, subject }| Selection {
        subject: Some(subject),
        ..Selection::session(source, session).kind(kind)
    })
    .collect()
}

/// The ids of notes and open questions. Where there is no repository any more, nothing waits.
fn waiting_in(root: &Path) -> Result<BTreeSet<String>, NotRead> {
    if !root.exists() {
        return Ok(BTreeSet::new());
    }
    let folder = Folder::open(&Repository::find(root)?)?;
    let open = question::all(&folder)?.into_iter().filter(|asked| asked.standing == Standing::Open);
    let notes = queue::waiting(&folder)?.into_iter().map(|note| note.id);
    Ok(notes.chain(open.map(|asked| asked.id)).collect())
}

/// Why nobody knows what waits.
#[derive(Debug, thiserror::Error)]
enum NotRead {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ccmux_notify::note::{Note, NoteKind};
    use ccmux_policy::UnixMs;
    use ccmux_policy::attention::{Kind, Row, Source};
    use ccmux_wire::id::SessionId;

    use super::*;

    #[test]
    fn only_the_last_ids_are_remembered() {
        let gone = Gone::default();
        let ids: Vec<String> = (0..=MOST).map(|n| format!("n-{n}")).collect();
        gone.note(&ids, || {});
        let mut told = Vec::new();
        for id in [&ids[0], &ids[1], &ids[MOST]] {
            gone.unless(id, || told.push(id.clone()));
        }
        assert_eq!(told, [ids[0].clone()]);
    }

    fn item(kind: Kind, subject: &str, root: &Path) -> (Row, Text) {
        let (source, session) = (Source::Ccmux, SessionId::new("app"));
        let key = Key { source, session, kind, subject: subject.to_owned() };
        let row = Row { key, began: UnixMs(1), base: UnixMs(1), step: 0, due: None, held: false };
        let [title, body] = ["t", "b"].map(str::to_owned);
        (row, Text::Note { title, body, root: root.to_owned() })
    }

    #[tokio::test]
    async fn what_went_while_no_daemon_ran_is_over_and_what_waits_is_not() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["objects", "refs"] {
            fs::create_dir_all(dir.path().join(".git").join(name)).unwrap();
        }
        fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let root = dir.path();
        let folder = Folder::open(&Repository::find(root).unwrap()).unwrap();
        let note = Note::new("a", NoteKind::Status, "x").unwrap();
        queue::add(&folder, &note).unwrap();
        let (open, _) = question::ask(&folder, "a", "which?").unwrap();
        let (closed, _) = question::ask(&folder, "a", "when?").unwrap();
        question::acknowledge(&folder, &closed.id, "b").unwrap();
        let items = [
            (Kind::Message, note.id.as_str()),
            (Kind::Message, "n-taken"),
            (Kind::Question, open.id.as_str()),
            (Kind::Question, closed.id.as_str()),
        ];
        let mut items: Vec<_> = items.map(|(kind, id)| item(kind, id, root)).into();
        items.push(item(Kind::Message, "n-elsewhere", &root.join("moved")));
        let (ears, mut heard) = Ears::new();
        end_what_went(&Kept { items, ..Kept::default() }, &ears);
        drop(ears);
        let mut over = Vec::new();
        while let Some(Heard::Over(which)) = heard.recv().await {
            over.extend(which.into_iter().filter_map(|which| which.subject));
        }
        assert_eq!(over, ["n-taken", closed.id.as_str(), "n-elsewhere"]);
    }
}

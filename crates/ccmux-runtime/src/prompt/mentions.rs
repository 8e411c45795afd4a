//! `@path` at the start of a word makes Claude attach the file before the model decides anything; a channel must not.

/// What an `@` becomes: it looks alike and mentions nothing.
const HARMLESS: char = '\u{ff20}';

/// `text` with U+FF20 for each `@` at the start of a word whose token `exists` as a path for the agent, or names a server's
/// resource (`@server:`). Other `@` stay.
pub fn neutralise_mentions(text: &str, exists: &dyn Fn(&str) -> bool) -> String {
    if !text.contains('@') {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    let mut starts_word = true;
    for (at, c) in text.char_indices() {
        let mentions = c == '@' && starts_word && is_mention(&text[at + 1..], exists);
        safe.push(if mentions { HARMLESS } else { c });
        starts_word = c.is_whitespace();
    }
    safe
}

fn is_mention(after: &str, exists: &dyn Fn(&str) -> bool) -> bool {
    if let Some(quoted) = after.strip_prefix('"') {
        let path = quoted.split(['"', '\n']).next().unwrap_or_default();
        return names_server(path) || candidates(path).any(exists);
    }
    let token = after.split(char::is_whitespace).next().unwrap_or_default();
    names_server(token) || candidates(token).any(exists)
}

/// `server:resource`.
fn names_server(token: &str) -> bool {
    token.split_once(':').is_some_and(|(server, _)| !server.is_empty())
}

/// The token, and what is left of it without punctuation at its end or a `#L1-9` behind it.
fn candidates(token: &str) -> impl Iterator<Item = &str> {
    let whole = token.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '_');
    let file = token.split('#').next().unwrap_or_default();
    [token, whole, file].into_iter().filter(|path| !path.is_empty())
}

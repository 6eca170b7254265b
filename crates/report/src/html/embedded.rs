//! The records themselves in the page, so that a page is enough to have the figures back.

use serde::Serialize;

/// A record as JSON that may stand in a `script` element.
#[derive(Debug, Serialize)]
pub(crate) struct Embedded {
    letter: String,
    json: String,
}

/// One line of JSON. No character in it can end the element or begin a comment in it: `<` occurs in strings only, where
/// `\u003c` means the same.
pub(crate) fn embedded(letter: &str, record: &impl Serialize) -> Result<Embedded, serde_json::Error> {
    let json = serde_json::to_string(record)?.replace('<', "\\u003c");
    Ok(Embedded { letter: letter.to_owned(), json })
}

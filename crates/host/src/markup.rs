//! Text within HTML and SVG.

/// Text that comes from a host or an archive, as it stands between tags and in quoted attributes.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

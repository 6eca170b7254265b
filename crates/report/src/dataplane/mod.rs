//! Dataplane experiments: what a device under test carries, at which latency and loss.
//!
//! ```text
//! record::DataplaneRecord -> json (file, schema/dataplane-v1.schema.json)
//!                         -> table, csv (text)
//!                         -> html (one self-contained page)
//! ```
//! `figures` and `words` say what table and page share, so that both tell the same.

mod csv;
mod figures;
mod html;
mod json;
mod parts;
pub mod record;
mod table;
mod table_notes;
mod words;

pub use csv::render_dataplane_csv;
pub use html::{STYLE, render_dataplane_html};
pub use json::read_dataplane_record;
pub use record::DataplaneRecord;
pub use table::render_dataplane_table;

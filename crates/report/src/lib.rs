//! Records of measurements: what one holds, how its figures are computed, compared and shown.
//!
//! This crate knows no sockets and no clocks. Round trips come in as nanoseconds, records and text go out:
//!
//! ```text
//! round trips -> statistics::Distribution -> record::Record -> json (file, schema/record-v2.schema.json)
//!                                                           -> render (terminal, other tools' formats)
//!                                                           -> html (one self-contained page)
//!                                            two records    -> compare (verdict per cell)
//! trials      ->                             dataplane::DataplaneRecord -> the same, for devices under test
//! ```
#![forbid(unsafe_code)]

pub mod compare;
pub mod dataplane;
pub mod html;
pub mod json;
pub mod load;
pub mod record;
pub mod render;
pub mod statistics;

pub use compare::{CompareOptions, Comparison, Figure, Quantity, Verdict, compare, render_comparison};
pub use dataplane::{
    DataplaneRecord, read_dataplane_record, render_dataplane_csv, render_dataplane_html, render_dataplane_table,
};
pub use html::{HtmlError, render_html};
pub use json::{
    Document, ReadError, WriteError, ensure_writable, read_document, read_record, write_json, write_record,
    write_record_to, write_text,
};
pub use render::{Format, RenderError, TableOptions, render, render_table};

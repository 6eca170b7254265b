//! fio, and what writes JSON of the same shape. Of its latencies the one of completion is taken (`clat`), else the
//! whole one (`lat`, which `--lat_percentiles=1` prints instead).

use crate::subject::Figure::{BitsPerSecond, P50Ns, P99Ns, P999Ns, RatePerSecond};
use crate::subject::readers::form::{Field, Form, Notation, Part, Reader, Rule};
use crate::subject::readers::units::Quantity;
use crate::subject::readers::units::Unit;

pub const READER: Reader = Reader {
    name: "fio",
    forms: &[
        Form {
            known_by: "the object of fio --output-format=json, with 'jobs'",
            latency: Some(LATENCY),
            notation: Notation::Json { marks: &["/jobs/0"], error: None, parts: PARTS, rules: FIELDS },
        },
        Form {
            known_by: "'(groupid=..., jobs=...): err=' of fio",
            latency: Some(LATENCY),
            notation: Notation::Text { marks: &[r"^\S.*: \(groupid=[0-9]+, jobs=[0-9]+\): err="], rules: LINES },
        },
    ],
    of_several: "let fio run one job or --group_reporting, and either reads or writes",
};

const LATENCY: &str = "the time of an operation, as fio prints it";
const IOS: &[&str] = &["/total_ios", "/io_bytes"];

const PARTS: &[Part] = &[
    Part { at: "/jobs/0/read", used: IOS },
    Part { at: "/jobs/0/write", used: IOS },
    Part { at: "/jobs/0/trim", used: IOS },
    Part { at: "/jobs/1/read", used: IOS },
    Part { at: "/jobs/1/write", used: IOS },
    Part { at: "/jobs/1/trim", used: IOS },
];

const FIELDS: &[Field] = &[
    field(Quantity::Figure(RatePerSecond), "/iops", ""),
    field(Quantity::Figure(BitsPerSecond), "/bw_bytes", "B/s"),
    field(Quantity::Figure(BitsPerSecond), "/bw", "KiB/s"),
    field(Quantity::Figure(P50Ns), "/clat_ns/percentile/50.000000", "ns"),
    field(Quantity::Figure(P50Ns), "/lat_ns/percentile/50.000000", "ns"),
    field(Quantity::Figure(P50Ns), "/clat/percentile/50.000000", "usec"),
    field(Quantity::Figure(P99Ns), "/clat_ns/percentile/99.000000", "ns"),
    field(Quantity::Figure(P99Ns), "/lat_ns/percentile/99.000000", "ns"),
    field(Quantity::Figure(P99Ns), "/clat/percentile/99.000000", "usec"),
    field(Quantity::Figure(P999Ns), "/clat_ns/percentile/99.900000", "ns"),
    field(Quantity::Figure(P999Ns), "/lat_ns/percentile/99.900000", "ns"),
    field(Quantity::Figure(P999Ns), "/clat/percentile/99.900000", "usec"),
    field(Quantity::Messages, "/total_ios", ""),
];

const LINES: &[Rule] = &[
    rule(Quantity::Figure(RatePerSecond), r"\bIOPS=(?<value>[^\skMG,]+)(?<unit>[kMG]?)"),
    rule(Quantity::Figure(BitsPerSecond), r"\bBW=\S+ \((?<value>[^\skMGT)]+?)(?<unit>[kMG]?B/s)\)"),
    rule(Quantity::Figure(P50Ns), r"\bclat percentiles \((?<unit>\w+)\):[^(]*? 50\.00th=\[ *(?<value>[^\s\]]+)\]"),
    rule(Quantity::Figure(P50Ns), r"\blat percentiles \((?<unit>\w+)\):[^(]*? 50\.00th=\[ *(?<value>[^\s\]]+)\]"),
    rule(Quantity::Figure(P99Ns), r"\bclat percentiles \((?<unit>\w+)\):[^(]*? 99\.00th=\[ *(?<value>[^\s\]]+)\]"),
    rule(Quantity::Figure(P99Ns), r"\blat percentiles \((?<unit>\w+)\):[^(]*? 99\.00th=\[ *(?<value>[^\s\]]+)\]"),
    rule(Quantity::Figure(P999Ns), r"\bclat percentiles \((?<unit>\w+)\):[^(]*? 99\.90th=\[ *(?<value>[^\s\]]+)\]"),
    rule(Quantity::Figure(P999Ns), r"\blat percentiles \((?<unit>\w+)\):[^(]*? 99\.90th=\[ *(?<value>[^\s\]]+)\]"),
    rule(Quantity::Elapsed, r"\bBW=\S+ \(\S+\) ?\([^/)]+/(?<value>[0-9]+)(?<unit>msec)\)"),
];

const fn field(quantity: Quantity, at: &'static str, unit: &'static str) -> Field {
    Field { quantity, at, unit: Unit::Is(unit) }
}

const fn rule(quantity: Quantity, pattern: &'static str) -> Rule {
    Rule { quantity, pattern, unit: Unit::Beside }
}

//! netperf: the classic tables of `*_RR` and `*_STREAM`, and what the selectors of the omni tests print with `-k` and
//! `-o`.

use crate::subject::Figure::{BitsPerSecond, P50Ns, P99Ns, RatePerSecond};
use crate::subject::readers::form::{Field, Form, Notation, Reader, Rule};
use crate::subject::readers::units::Quantity;
use crate::subject::readers::units::Unit;

pub const READER: Reader = Reader {
    name: "netperf",
    forms: &[
        Form {
            known_by: "netperf's table that ends in 'per sec' (not with -P 0, which leaves the titles out)",
            latency: None,
            notation: Notation::Text {
                marks: &[r"^bytes +[Bb]ytes +bytes +bytes +secs\. +per sec\b"],
                rules: TRANSACTIONS,
            },
        },
        Form {
            known_by: "netperf's table that ends in '10^6bits/sec'",
            latency: None,
            notation: Notation::Text { marks: &[r"^bytes +bytes .*secs\.? .*(?:bits|Bytes)/sec\b"], rules: STREAM },
        },
        Form {
            known_by: "lines of netperf's -k, as in 'P50_LATENCY=33'",
            latency: Some(LATENCY),
            notation: Notation::Text {
                marks: &[r"^(?:THROUGHPUT|TRANSACTION_RATE|P50_LATENCY|P99_LATENCY)="],
                rules: KEYS,
            },
        },
        Form {
            known_by: "titles of netperf's -o, as in '99th Percentile Latency Microseconds'",
            latency: Some(LATENCY),
            notation: Notation::Columns { marks: &["99th Percentile Latency Microseconds"], rules: COLUMNS },
        },
        Form {
            known_by: "titles of netperf's -o, as in 'Throughput,Throughput Units'",
            latency: None,
            notation: Notation::Columns { marks: &["Throughput", "Throughput Units"], rules: COLUMNS },
        },
    ],
    of_several: "run netperf once, with one test",
};

const LATENCY: &str = "the round trip of a transaction, as netperf prints it";

/// The first line below the titles; what `-c -C` adds stands behind it.
const TRANSACTIONS: &[Rule] = &[
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"secs\. +per sec\b.*\n\s*(?:\S+ +){4}\S+ +(?<value>\S+)",
        unit: Unit::Is(""),
    },
    Rule {
        quantity: Quantity::Elapsed,
        pattern: r"secs\. +per sec\b.*\n\s*(?:\S+ +){4}(?<value>\S+)",
        unit: Unit::Is("s"),
    },
];

/// A UDP test has a second line: what was received.
const STREAM: &[Rule] = &[
    Rule {
        quantity: Quantity::Figure(BitsPerSecond),
        pattern: r"secs\.? +# +# +(?<unit>\S+/sec)\b.*\n\s*\S.*\n *\S+ +\S+ +\S+ +(?<value>\S+)",
        unit: Unit::Beside,
    },
    Rule {
        quantity: Quantity::Figure(BitsPerSecond),
        pattern: r"secs\. +(?<unit>[0-9A-Za-z^]+/sec)\b.*\n\s*(?:\S+ +){3}\S+ +(?<value>\S+)",
        unit: Unit::Beside,
    },
];

const KEYS: &[Rule] = &[
    Rule { quantity: Quantity::Figure(P50Ns), pattern: r"^P50_LATENCY=(?<value>\S+)", unit: Unit::Is("usec") },
    Rule { quantity: Quantity::Figure(P99Ns), pattern: r"^P99_LATENCY=(?<value>\S+)", unit: Unit::Is("usec") },
    Rule { quantity: Quantity::Figure(RatePerSecond), pattern: r"^TRANSACTION_RATE=(?<value>\S+)", unit: Unit::Is("") },
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"(?s)^THROUGHPUT=(?<value>\S+)$.*?^THROUGHPUT_UNITS=(?<unit>Trans/s)",
        unit: Unit::Beside,
    },
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"(?s)^THROUGHPUT_UNITS=(?<unit>Trans/s).*?^THROUGHPUT=(?<value>\S+)",
        unit: Unit::Beside,
    },
    Rule {
        quantity: Quantity::Figure(BitsPerSecond),
        pattern: r"(?s)^THROUGHPUT=(?<value>\S+)$.*?^THROUGHPUT_UNITS=(?<unit>\S*(?:bits|Bytes)/s)",
        unit: Unit::Beside,
    },
    Rule {
        quantity: Quantity::Figure(BitsPerSecond),
        pattern: r"(?s)^THROUGHPUT_UNITS=(?<unit>\S*(?:bits|Bytes)/s).*?^THROUGHPUT=(?<value>\S+)",
        unit: Unit::Beside,
    },
    Rule { quantity: Quantity::Elapsed, pattern: r"^ELAPSED_TIME=(?<value>\S+)", unit: Unit::Is("s") },
];

const COLUMNS: &[Field] = &[
    Field { quantity: Quantity::Figure(P50Ns), at: "50th Percentile Latency Microseconds", unit: Unit::Is("usec") },
    Field { quantity: Quantity::Figure(P99Ns), at: "99th Percentile Latency Microseconds", unit: Unit::Is("usec") },
    Field { quantity: Quantity::Figure(RatePerSecond), at: "Throughput", unit: Unit::At("Throughput Units") },
    Field { quantity: Quantity::Figure(BitsPerSecond), at: "Throughput", unit: Unit::At("Throughput Units") },
];

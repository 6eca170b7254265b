//! redis-benchmark. Its latency is the response time of a request, of a whole batch with `-P`.

use crate::subject::Figure::{P50Ns, P99Ns, RatePerSecond};
use crate::subject::readers::form::{Field, Form, Notation, Reader, Rule};
use crate::subject::readers::units::Quantity;
use crate::subject::readers::units::Unit;

pub const READER: Reader = Reader {
    name: "redis-benchmark",
    forms: &[
        Form {
            known_by: "titles of redis-benchmark --csv: \"test\",\"rps\"",
            latency: Some(LATENCY),
            notation: Notation::Columns { marks: &["test", "rps"], rules: COLUMNS },
        },
        Form {
            known_by: "'throughput summary: ... requests per second' of redis-benchmark",
            latency: Some(LATENCY),
            notation: Notation::Text { marks: &["^ *throughput summary: "], rules: SUMMARY },
        },
        Form {
            known_by: "'GET: ... requests per second' of redis-benchmark -q",
            latency: Some(LATENCY),
            notation: Notation::Text { marks: &[r"^\S[^:\n]*: \S+ requests per second"], rules: QUIET },
        },
        Form {
            known_by: "'... requests completed in ... seconds' of redis-benchmark 5",
            latency: None,
            notation: Notation::Text {
                marks: &["^ *[0-9]+ requests completed in ", "^[0-9]\\S* requests per second"],
                rules: FIVE,
            },
        },
    ],
    of_several: "give redis-benchmark one test, as in -t get",
};

const LATENCY: &str = "the response time of a request, as redis-benchmark prints it";

const COLUMNS: &[Field] = &[
    Field { quantity: Quantity::Figure(RatePerSecond), at: "rps", unit: Unit::Is("") },
    Field { quantity: Quantity::Figure(P50Ns), at: "p50_latency_ms", unit: Unit::Is("ms") },
    Field { quantity: Quantity::Figure(P99Ns), at: "p99_latency_ms", unit: Unit::Is("ms") },
];

const SUMMARY: &[Rule] = &[
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"^ *throughput summary: (?<value>\S+) requests per second",
        unit: Unit::Is(""),
    },
    Rule {
        quantity: Quantity::Figure(P50Ns),
        pattern: r"avg +min +p50 +p95 +p99 +max *\n *\S+ +\S+ +(?<value>\S+)",
        unit: Unit::Is("ms"),
    },
    Rule {
        quantity: Quantity::Figure(P99Ns),
        pattern: r"avg +min +p50 +p95 +p99 +max *\n *\S+ +\S+ +\S+ +\S+ +(?<value>\S+)",
        unit: Unit::Is("ms"),
    },
    REQUESTS,
];

const QUIET: &[Rule] = &[
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"^\S[^:\n]*: (?<value>\S+) requests per second",
        unit: Unit::Is(""),
    },
    Rule {
        quantity: Quantity::Figure(P50Ns),
        pattern: r"requests per second, p50=(?<value>\S+) msec",
        unit: Unit::Is("ms"),
    },
];

const FIVE: &[Rule] = &[
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"^(?<value>[0-9]\S*) requests per second",
        unit: Unit::Is(""),
    },
    REQUESTS,
];

const REQUESTS: Rule =
    Rule { quantity: Quantity::Messages, pattern: "^ *(?<value>[0-9]+) requests completed in ", unit: Unit::Is("") };

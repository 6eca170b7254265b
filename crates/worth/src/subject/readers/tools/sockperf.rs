//! sockperf. Its latency is half of a round trip unless `--full-rtt` was given, as the summary says.

use crate::subject::Figure::{BitsPerSecond, P50Ns, P99Ns, P999Ns, RatePerSecond};
use crate::subject::readers::form::{Form, Notation, Reader, Rule};
use crate::subject::readers::units::Quantity;
use crate::subject::readers::units::Unit;

pub const READER: Reader = Reader {
    name: "sockperf",
    forms: &[
        Form {
            known_by: "'sockperf: Summary: Latency is ... usec'",
            latency: Some("half of the round trip, as sockperf prints it"),
            notation: Notation::Text { marks: &[r"^sockperf: Summary: Latency\b"], rules: LATENCY },
        },
        Form {
            known_by: "'sockperf: Summary: Round trip is ... usec'",
            latency: Some("the round trip, as sockperf --full-rtt prints it"),
            notation: Notation::Text { marks: &[r"^sockperf: Summary: Round trip\b"], rules: LATENCY },
        },
        Form {
            known_by: "'sockperf: Summary: Message Rate is ... [msg/sec]'",
            latency: None,
            notation: Notation::Text { marks: &[r"^sockperf: Summary: Message Rate is "], rules: THROUGHPUT },
        },
    ],
    of_several: "run sockperf once, with one server",
};

const LATENCY: &[Rule] = &[
    percentile(Quantity::Figure(P50Ns), r"^sockperf: ---> percentile 50\.000 += +(?<value>\S+)"),
    percentile(Quantity::Figure(P99Ns), r"^sockperf: ---> percentile 99\.000 += +(?<value>\S+)"),
    percentile(Quantity::Figure(P999Ns), r"^sockperf: ---> percentile 99\.900 += +(?<value>\S+)"),
    Rule {
        quantity: Quantity::Messages,
        pattern: r"^sockperf: \[Total Run\] .*\bSentMessages=(?<value>[0-9]+)",
        unit: Unit::Is(""),
    },
];

const THROUGHPUT: &[Rule] = &[
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"^sockperf: Summary: Message Rate is (?<value>\S+) \[msg/sec\]",
        unit: Unit::Is(""),
    },
    Rule {
        quantity: Quantity::Figure(BitsPerSecond),
        pattern: r"^sockperf: Summary: BandWidth is \S+ MBps \((?<value>\S+) Mbps\)",
        unit: Unit::Is("sockperf Mbps"),
    },
    Rule {
        quantity: Quantity::Figure(BitsPerSecond),
        pattern: r"^sockperf: Summary: BandWidth is \S+ GBps \((?<value>\S+) Gbps\)",
        unit: Unit::Is("sockperf Gbps"),
    },
    Rule {
        quantity: Quantity::Messages,
        pattern: r"^sockperf: Total of (?<value>[0-9]+) messages sent in ",
        unit: Unit::Is(""),
    },
];

const fn percentile(quantity: Quantity, pattern: &'static str) -> Rule {
    Rule { quantity, pattern, unit: Unit::Is("usec") }
}

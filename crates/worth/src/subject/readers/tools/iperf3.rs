//! iperf3: what the receiver got.

use crate::subject::Figure::BitsPerSecond;
use crate::subject::readers::form::{Field, Form, Notation, Part, Reader, Rule};
use crate::subject::readers::units::Quantity;
use crate::subject::readers::units::Unit;

pub const READER: Reader = Reader {
    name: "iperf3",
    forms: &[
        Form {
            known_by: "the object of iperf3 -J, with 'start' and 'end'",
            latency: None,
            notation: Notation::Json {
                marks: &["/start", "/end"],
                error: Some("/error"),
                parts: &[
                    Part { at: "/end", used: &["/sum_received/bits_per_second", "/sum/bits_per_second"] },
                    Part { at: "/end/sum_received_bidir_reverse", used: &["/bits_per_second"] },
                ],
                rules: &[
                    Field { quantity: BITS, at: "/sum_received/bits_per_second", unit: Unit::Is("bits/sec") },
                    Field { quantity: BITS, at: "/sum/bits_per_second", unit: Unit::Is("bits/sec") },
                ],
            },
        },
        Form {
            known_by: "the lines of iperf3 that end in 'receiver'",
            latency: None,
            notation: Notation::Text { marks: &[r"^\[ ID\].* Interval ", r"/sec\b.* receiver *$"], rules: LINES },
        },
    ],
    of_several: "let iperf3 measure one direction, and once",
};

const BITS: Quantity = Quantity::Figure(BitsPerSecond);

/// The sum of several streams, else the only stream; in both directions at once there are two of either.
const LINES: &[Rule] = &[
    Rule {
        quantity: BITS,
        pattern: r"^\[SUM\].* (?<value>[0-9]\S*) (?<unit>\S+/sec)\b.* receiver *$",
        unit: Unit::Beside,
    },
    Rule {
        quantity: BITS,
        pattern: r"^\[ *[0-9]+\].* (?<value>[0-9]\S*) (?<unit>\S+/sec)\b.* receiver *$",
        unit: Unit::Beside,
    },
];

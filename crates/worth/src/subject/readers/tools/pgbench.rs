//! pgbench. It prints a mean latency and no percentiles; which is the number of clients divided by the rate unless
//! `--rate` is given: name it with an expression then.

use crate::subject::Figure::RatePerSecond;
use crate::subject::readers::form::{Form, Notation, Reader, Rule};
use crate::subject::readers::units::Quantity;
use crate::subject::readers::units::Unit;

pub const READER: Reader = Reader {
    name: "pgbench",
    forms: &[Form {
        known_by: "'transaction type:' and 'tps =' of pgbench",
        latency: None,
        notation: Notation::Text { marks: &["^transaction type: ", "^tps = "], rules: RULES },
    }],
    of_several: "run pgbench once",
};

/// Before version 14 the rate was printed with the time to connect, and without.
const RULES: &[Rule] = &[
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"^tps = (?<value>\S+) \((?:without initial connection time|excluding connections establishing)\)",
        unit: Unit::Is(""),
    },
    Rule {
        quantity: Quantity::Figure(RatePerSecond),
        pattern: r"^tps = (?<value>\S+) \(including reconnection times\)",
        unit: Unit::Is(""),
    },
    Rule {
        quantity: Quantity::Messages,
        pattern: r"^number of transactions actually processed: (?<value>[0-9]+)",
        unit: Unit::Is(""),
    },
];

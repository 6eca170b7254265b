//! wrk with `--latency`, and wrk2. Without that option there is the rate alone.

use crate::subject::Figure::{P50Ns, P99Ns, P999Ns, RatePerSecond};
use crate::subject::readers::form::{Form, Notation, Reader, Rule};
use crate::subject::readers::units::Quantity;
use crate::subject::readers::units::Unit;

pub const READER: Reader = Reader {
    name: "wrk",
    forms: &[Form {
        known_by: "'Running ... test @ ...' and 'Requests/sec:' of wrk",
        latency: Some("the response time of a request, as wrk prints it"),
        notation: Notation::Text { marks: &["^Running .* test @ ", "^Requests/sec:"], rules: RULES },
    }],
    of_several: "run wrk once; give wrk2 no --u_latency",
};

const RULES: &[Rule] = &[
    percentile(Quantity::Figure(P50Ns), r"^ *50(?:\.000)?% +(?<value>[^\sa-z]+|-?nan)(?<unit>[a-z]*) *$"),
    percentile(Quantity::Figure(P99Ns), r"^ *99(?:\.000)?% +(?<value>[^\sa-z]+|-?nan)(?<unit>[a-z]*) *$"),
    percentile(Quantity::Figure(P999Ns), r"^ *99\.900% +(?<value>[^\sa-z]+|-?nan)(?<unit>[a-z]*) *$"),
    Rule { quantity: Quantity::Figure(RatePerSecond), pattern: r"^Requests/sec: +(?<value>\S+)", unit: Unit::Is("") },
    Rule { quantity: Quantity::Messages, pattern: "^ *(?<value>[0-9]+) requests in ", unit: Unit::Is("") },
];

const fn percentile(quantity: Quantity, pattern: &'static str) -> Rule {
    Rule { quantity, pattern, unit: Unit::Beside }
}

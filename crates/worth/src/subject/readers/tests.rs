use super::expression::compile;
use super::form::Notation;
use super::units::Unit;
use super::*;

/// The patterns of a form: marks, and of the rules with their units.
fn patterns(form: &Form) -> (Vec<&'static str>, Vec<(&'static str, Unit)>) {
    match &form.notation {
        Notation::Text { marks, rules } => {
            (marks.to_vec(), rules.iter().map(|rule| (rule.pattern, rule.unit)).collect())
        }
        Notation::Json { .. } | Notation::Columns { .. } => Default::default(),
    }
}

#[test]
fn tables_have_expressions_that_name_what_is_read() {
    for form in READERS.iter().flat_map(|reader| reader.forms) {
        let (marks, rules) = patterns(form);
        for mark in marks {
            compile(mark).unwrap();
        }
        for (pattern, unit) in rules {
            let regex = compile(pattern).unwrap();
            let names: Vec<_> = regex.group_info().pattern_names(regex_automata::PatternID::ZERO).flatten().collect();
            assert!(names.contains(&"value"), "{pattern}");
            assert_eq!(names.contains(&"unit"), unit == Unit::Beside, "{pattern}");
        }
    }
}

#[test]
fn fixed_units_of_tables_are_units_of_what_is_read() {
    for form in READERS.iter().flat_map(|reader| reader.forms) {
        let fixed: Vec<_> = match &form.notation {
            Notation::Text { rules, .. } => rules.iter().map(|rule| (rule.quantity, rule.unit)).collect(),
            Notation::Json { rules, .. } | Notation::Columns { rules, .. } => {
                rules.iter().map(|rule| (rule.quantity, rule.unit)).collect()
            }
        };
        for (quantity, unit) in fixed {
            assert!(!matches!(unit, Unit::Is(unit) if !units::is_unit_of(quantity, unit)), "{quantity:?} {unit:?}");
        }
    }
}

#[test]
fn every_reader_has_a_name_of_its_own() {
    for name in READERS.map(|reader| reader.name) {
        assert_eq!(READERS.iter().filter(|reader| reader.name == name).count(), 1);
        assert_eq!(reader(name).unwrap().name, name);
    }
    let error = reader("iperf").unwrap_err().to_string();
    assert!(error.contains("'iperf'") && error.contains("iperf3"), "{error}");
}

#[test]
fn colours_and_overprinted_lines_do_not_hide_numbers() {
    let printed = Printed::new(b"\x1b[0;35msockperf: x\x1b[0m\r\nGET: -nan\rGET: 1\n", b"\x1b[");
    assert_eq!(printed.stdout, "sockperf: x\nGET: -nan\nGET: 1\n");
    assert_eq!(printed.stderr, "");
}

use std::fs;
use std::thread::sleep;
use std::time::Instant;

use super::*;

const LIMIT: Duration = Duration::from_secs(20);

fn shell(script: &str, wanted: Wanted) -> UserCommand {
    UserCommand::new(["sh", "-c", script].map(OsString::from).to_vec(), LIMIT, wanted)
}

fn figure(pattern: &str) -> Wanted {
    Wanted::Expression { expression: Expression::new(pattern).unwrap(), more_is_better: false }
}

/// Whether a process is there and not a zombie.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), None | Some('Z' | 'X'))
}

#[track_caller]
fn is_gone_soon(pid: &str) {
    let start = Instant::now();
    while runs(pid) {
        assert!(start.elapsed() < Duration::from_secs(5), "{pid} still runs");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn command_gives_the_figure_that_its_expression_finds() {
    let mut command = shell("echo warm-up; echo took 12.5 us >&2", figure("took ([0-9.]+)"));
    assert_eq!(command.run().unwrap(), Figures::from([(Figure::Less, 12.5)]));
    assert_eq!(command.name(), "sh -c echo warm-up; echo took 12.5 us >&2");
    let more = Wanted::Expression { expression: Expression::new("n=(.*)").unwrap(), more_is_better: true };
    assert_eq!(shell("echo n=3", more).run().unwrap(), Figures::from([(Figure::More, 3.0)]));
}

#[test]
fn tool_recognised_has_figures_and_its_cpu_time_of_a_message() {
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo 'transaction type: x'; \
                  echo 'number of transactions actually processed: 1000'; echo 'tps = 50.5 (without initial connection time)'";
    let mut command = shell(script, Wanted::Recognised);
    let figures = command.run().unwrap();
    assert_eq!(figures[&Figure::RatePerSecond], 50.5);
    // A shell takes milliseconds for the loop, and not a minute.
    assert!((1_000.0..60e6).contains(&figures[&Figure::CpuPerMessageNs]), "{figures:?}");
    assert_eq!(command.latency(), None);
}

#[test]
fn command_that_cannot_be_started_says_why() {
    let mut command = UserCommand::new(vec!["/nonexistent/x".into(), "y".into()], LIMIT, Wanted::Recognised);
    let error = command.run().unwrap_err();
    assert!(matches!(error, SubjectError::Start { .. }) && error.to_string().contains("/nonexistent/x y"), "{error}");
    assert!(matches!(UserCommand::new(Vec::new(), LIMIT, Wanted::Recognised).run(), Err(SubjectError::Start { .. })));
}

#[test]
fn command_that_fails_shows_its_exit_code_and_last_lines() {
    let error = shell("seq 1 20 >&2; echo result; exit 3", figure("(.)")).run().unwrap_err().to_string();
    assert!(error.contains("exit code 3") && error.contains("\n  16") && error.contains("\n  20"), "{error}");
    assert!(!error.contains("\n  15") && !error.contains("\n  result"), "{error}");
    let of_stdout = shell("echo '{\"error\": \"refused\"}'; exit 1", figure("(.)")).run().unwrap_err().to_string();
    assert!(of_stdout.contains("refused"), "{of_stdout}");
    let by_signal = shell("kill -TERM $$", figure("(.)")).run().unwrap_err().to_string();
    assert!(by_signal.contains("signal 15") && by_signal.contains("printed nothing"), "{by_signal}");
}

#[test]
fn command_without_a_figure_says_what_was_looked_for() {
    let error = shell("echo done", figure("took ([0-9.]+)")).run().unwrap_err();
    assert!(
        matches!(error, SubjectError::NoFigure { .. }) && error.to_string().contains("'took ([0-9.]+)'"),
        "{error}"
    );
}

#[test]
fn command_that_takes_too_long_is_killed_with_all_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let script = format!("sleep 1000 & echo $! > {0}; sh -c 'echo $$ >> {0}; sleep 1000; true'", pids.display());
    let argv = ["sh", "-c", &script].map(OsString::from).to_vec();
    let mut command = UserCommand::new(argv, Duration::from_millis(400), figure("(.)"));
    let start = Instant::now();
    let error = command.run().unwrap_err().to_string();
    assert!(error.contains("0.4 s") && start.elapsed() < Duration::from_secs(5), "{error}");
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        is_gone_soon(pid);
    }
}

#[test]
fn command_that_ends_leaves_nothing_in_the_background() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    // The sleep holds the outputs open, too.
    let script = format!("sleep 1000 & echo $! > {}; echo took 5", pid.display());
    let start = Instant::now();
    assert_eq!(shell(&script, figure("took ([0-9]+)")).run().unwrap()[&Figure::Less], 5.0);
    assert!(start.elapsed() < Duration::from_secs(5));
    is_gone_soon(&fs::read_to_string(&pid).unwrap());
}

#[test]
fn process_that_left_the_group_does_not_hold_the_run_up() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let script = format!("setsid sleep 30 & echo $! > {}; sleep 0.1; echo took 5", pid.display());
    let start = Instant::now();
    let figures = shell(&script, figure("took ([0-9]+)")).run();
    let left = fs::read_to_string(&pid).unwrap();
    let left = rustix::process::Pid::from_raw(left.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
    assert_eq!(figures.unwrap()[&Figure::Less], 5.0);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn endless_output_ends_the_command() {
    let error = shell("yes", figure("(.)")).run().unwrap_err().to_string();
    assert!(error.contains("8 MiB"), "{error}");
}

#[test]
fn long_output_on_both_streams_does_not_block() {
    let script =
        "head -c 1000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero | tr '\\0' y >&2; echo; echo took 5";
    assert_eq!(shell(script, figure("took ([0-9]+)")).run().unwrap()[&Figure::Less], 5.0);
}

#[test]
fn command_has_no_input_and_the_plain_locale() {
    assert_eq!(shell("cat; echo locale $LC_ALL 7", figure("locale C ([0-9]+)")).run().unwrap()[&Figure::Less], 7.0);
}

#[test]
fn run_that_lacks_a_figure_of_the_first_one_fails() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("output");
    let mut command = shell(&format!("cat {}", file.display()), Wanted::Recognised);
    fs::write(&file, "THROUGHPUT=5\nTHROUGHPUT_UNITS=Trans/s\nP50_LATENCY=33\nP99_LATENCY=40\n").unwrap();
    assert_eq!(command.run().unwrap().len(), 3);
    fs::write(&file, "P50_LATENCY=33\n").unwrap();
    let error = command.run().unwrap_err().to_string();
    assert!(error.contains("P99Ns"), "{error}");
    fs::write(&file, "THROUGHPUT=5\nTHROUGHPUT_UNITS=Trans/s\nELAPSED_TIME=2\nP50_LATENCY=33\nP99_LATENCY=40\n")
        .unwrap();
    assert_eq!(command.run().unwrap().len(), 3, "a figure more than in the first run is left out");
}

#[test]
fn first_run_says_which_tool_is_read_from_then_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("output");
    let mut command = shell(&format!("cat {}", file.display()), Wanted::Recognised);
    fs::write(&file, "transaction type: x\ntps = 5.5 (without initial connection time)\n").unwrap();
    command.run().unwrap();
    fs::write(&file, "P50_LATENCY=33\n").unwrap();
    let error = command.run().unwrap_err().to_string();
    assert!(error.contains("tps =") && !error.contains("sockperf"), "{error}");
}

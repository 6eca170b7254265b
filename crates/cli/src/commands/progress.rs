//! The progress line: on a terminal only, and drawn between rounds only, so that it disturbs no sample.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nearwire_bench::engine::Observer;

pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    pub fn new(quiet: bool) -> Progress {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Progress { bar, quiet }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Progress {
    fn cell(&mut self, done: usize, total: usize, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(what.to_owned());
        }
    }

    fn note(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if !self.quiet => eprintln!("{text}"),
            None => {}
        }
    }
}

impl nearwire_worth::run::Observer for Progress {
    fn progress(&mut self, done: usize, total: usize, what: &str) {
        self.cell(done, total, what);
    }

    fn note(&mut self, text: &str) {
        Observer::note(self, text);
    }
}

//! The paths, as `nearwire bench` measures them.

use nearwire_bench::bed::TestBed;
use nearwire_bench::experiment::{CellSpec, Experiment};
use nearwire_bench::paths::{PathId, RxMode, TxMode, XdpChoice};
use nearwire_bench::round;
use nearwire_bench::workloads::{RoundPlan, SampleBuffer};
use nearwire_bench::xdp_choice;
use nearwire_report::record::Quantile;
use nearwire_report::statistics::quantiles_of;
use nearwire_sys::tsc::Clock;

use crate::{AnyError, INITIATOR_CPU, RESPONDER_CPU, SIZE_BYTES};

const ROUND_NS: u64 = 200_000_000;
const TOKEN: u32 = 0x7a26_e75b;

pub struct Cells<'a> {
    bed: &'a mut TestBed,
    clock: Clock,
    experiment: Experiment,
    xdp: Option<XdpChoice>,
    buffer: SampleBuffer,
}

impl<'a> Cells<'a> {
    pub fn new(bed: &'a mut TestBed, clock: Clock) -> Result<Cells<'a>, AnyError> {
        let sockets = [
            "udp/spin",
            "tcp/spin",
            "tcp/busy-poll",
            "udp/block",
            "tcp/block",
            "udp/bypass",
            "udp/sockets",
            "tcp/bypass",
        ];
        let mut cells = sockets.iter().map(|path| cell(path, None, None)).collect::<Result<Vec<_>, _>>()?;
        cells.push(cell("frame/packet", Some(TxMode::Frame), Some(RxMode::InPlace))?);
        for (tx, rx) in
            [TxMode::Frame, TxMode::Prepared].into_iter().flat_map(|tx| [(tx, RxMode::Frame), (tx, RxMode::InPlace)])
        {
            cells.push(cell("frame/xdp", Some(tx), Some(rx))?);
        }
        let experiment = Experiment {
            cells,
            cpu_initiator: Some(INITIATOR_CPU),
            cpu_responder: Some(RESPONDER_CPU),
            ..Experiment::default()
        };
        let mut buffer = SampleBuffer::new(1 << 18);
        let setup = experiment.setup(&cell("frame/xdp", None, None)?, bed, TOKEN, 0, None);
        let (xdp, note) = xdp_choice::choose(bed, clock, &setup, &mut buffer)?;
        eprintln!("{note}");
        Ok(Cells { bed, clock, experiment, xdp, buffer })
    }

    pub fn len(&self) -> usize {
        self.experiment.cells.len()
    }

    pub fn name(&self, which: usize) -> String {
        let cell = self.experiment.cells[which];
        match (cell.tx, cell.rx) {
            (Some(tx), Some(rx)) => format!("{} tx {} rx {}", cell.path, tx.name(), rx.name()),
            _ => cell.path.to_string(),
        }
    }

    pub fn frame_names(&self) -> impl Iterator<Item = String> {
        (0..self.len()).filter(|which| !self.experiment.cells[*which].path.is_ip()).map(|which| self.name(which))
    }

    /// p50 and p99.
    pub fn half_rtt_ns(&mut self, which: usize) -> Result<[f64; 2], AnyError> {
        let cell = self.experiment.cells[which];
        let setup = self.experiment.setup(&cell, self.bed, TOKEN, 0, self.xdp.clone());
        let plan = RoundPlan {
            warm_up_messages: self.experiment.warm_up_messages,
            warm_up_ns: self.experiment.warm_up_ns,
            messages: None,
            time_ns: Some(ROUND_NS),
            timeout_ns: self.experiment.timeout_ns,
            cpu: self.experiment.cpu_initiator,
        };
        round::run(self.bed, self.clock, &setup, &plan, &mut self.buffer)?;
        let trips = self.buffer.samples().iter();
        let mut half_rtt_ns: Vec<u64> =
            trips.map(|trip| self.clock.ns(u64::from(trip.received_after_ticks)) / 2).collect();
        let quantiles = quantiles_of(&mut half_rtt_ns);
        let at = |percent| Quantile::at(&quantiles, percent)?.value_ns;
        let both = at(50.0).zip(at(99.0)).ok_or_else(|| format!("{}: no round trips", self.name(which)))?;
        Ok(both.into())
    }
}

fn cell(path: &str, tx: Option<TxMode>, rx: Option<RxMode>) -> Result<CellSpec, AnyError> {
    let path: PathId = path.parse()?;
    Ok(CellSpec { path, tx, rx, size_bytes: SIZE_BYTES, ip_version: path.is_ip().then_some(4), rate_per_second: None })
}

//! The tools whose output is understood, one file each. Texts are those of sockperf 3.7 to 3.10, netperf 2.7,
//! redis-benchmark 5 to 7, iperf3 3.12, wrk 4.1 and wrk2, pgbench 9 to 15, fio 2 and 3.

mod fio;
mod iperf3;
mod netperf;
mod pgbench;
mod redis_benchmark;
mod sockperf;
mod wrk;

use super::form::Reader;

/// All of them.
pub const READERS: [&Reader; 7] = [
    &sockperf::READER,
    &netperf::READER,
    &redis_benchmark::READER,
    &iperf3::READER,
    &wrk::READER,
    &pgbench::READER,
    &fio::READER,
];

use std::fs;
use std::time::Duration;

use nearwire_sys::affinity::allowed_cpus;
use nearwire_sys::tsc::Clock;

use super::*;
use crate::Root;
use crate::topology::Topology;

#[test]
fn interrupts_of_a_cpu_are_named_by_device_or_kind() {
    let directory = tempfile::tempdir().unwrap();
    let text = "            CPU0       CPU2\n  0:         10          3   IO-APIC    2-edge      timer\n 24:          5          7   \
                PCI-MSIX-0000:03:00.0    0-edge      eth4-rx-0\nLOC:        100        200   Local timer interrupts\nERR:          0\n";
    fs::create_dir(directory.path().join("proc")).unwrap();
    fs::write(directory.path().join("proc/interrupts"), text).unwrap();
    let root = Root::directory(directory.path()).unwrap();
    let counts = noise::interrupts(&root, 2);
    let counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(counts, [("Local timer interrupts", 200), ("eth4-rx-0", 7), ("timer", 3)]);
    assert!(noise::interrupts(&root, 1).is_empty());
}

#[test]
fn cpu_watched_reports_its_window_and_consistent_gaps() {
    let root = Root::live().unwrap();
    let cpu = allowed_cpus()[0];
    let found = noise(&root, &Clock::calibrate(), &[cpu], Duration::from_millis(100)).unwrap();
    let [noise] = &found[..] else { panic!("{found:?}") };
    assert!(noise.window_ns >= 99_000_000, "{noise:?}");
    assert!(noise.gaps_over_100_us <= noise.gaps_over_10_us && noise.gaps_over_10_us <= noise.gaps);
    assert!(noise.longest_ns <= noise.gaps_ns && noise.gaps_ns <= noise.window_ns, "{noise:?}");
    assert_eq!(Noise::reading(&found), Reading::value(noise.longest_ns));
}

#[test]
fn busy_neighbour_on_the_watched_cpu_shows_as_long_interruptions() {
    let cpu = allowed_cpus()[0];
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            nearwire_sys::affinity::pin_current_thread(cpu).unwrap();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let found = noise(&Root::live().unwrap(), &Clock::calibrate(), &[cpu], Duration::from_millis(500));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        found.unwrap()
    });
    let rates = found[0].rates();
    // The scheduler lets either run for some milliseconds.
    assert!(rates.longest_ns > 1_000_000 && rates.over_100_us_per_second > 10.0, "{rates:?}");
    assert!(noise_summary(&[rates]).contains(&format!("(CPU {cpu})")), "{rates:?}");
}

#[test]
fn memory_copied_has_a_rate_for_each_pair_of_nodes() {
    let topology = Topology::read(&Root::live().unwrap());
    let rates = memory(&topology, &allowed_cpus()).unwrap();
    let nodes = rates.iter().filter(|rate| rate.cpu_node == rate.memory_node).count();
    assert_eq!(rates.len(), nodes * nodes);
    assert!(rates.iter().all(|rate| rate.bytes_per_s > 50_000_000), "{rates:?}");
}

#[test]
fn cpu_that_is_not_there_cannot_be_probed() {
    let error = clock(&[1_000_000]).unwrap_err();
    assert!(error.to_string().contains("CPU 1000000"), "{error}");
}

// An unoptimised loop does not wait for the multiplication alone.
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[test]
fn clock_reached_is_one_that_processors_have() {
    let reached = clock(&allowed_cpus()[..1]).unwrap();
    assert!((500_000..8_000_000).contains(&reached[0].khz), "{reached:?}");
}

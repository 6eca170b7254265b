//! What the ports of a switch count, as `ovs-ofctl dump-ports` prints it.

use super::OvsError;

/// What the driver of an AF_XDP port counts for each queue: frames for which the ring had no room.
const XDP_DROPPED: &str = "_rx_dropped";

/// What a port counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OvsPortCounters {
    /// Frames that it received.
    pub rx_packets: u64,
    /// Frames that it received and had no room for; `None` where it cannot tell.
    pub rx_dropped: Option<u64>,
    /// Frames that it sent.
    pub tx_packets: u64,
    /// Frames that it could not send; `None` where it cannot tell.
    pub tx_dropped: Option<u64>,
}

/// Of ports 1 and 2.
pub(super) fn read(said: &str) -> Result<[OvsPortCounters; 2], OvsError> {
    let unreadable = || OvsError::Unreadable { command: "ovs-ofctl dump-ports", said: said.to_owned() };
    let port = |number| port_in(said, number).ok_or_else(unreadable);
    Ok([port("1")?, port("2")?])
}

fn port_in(said: &str, number: &str) -> Option<OvsPortCounters> {
    let starts = |line: &str| line.trim_start().strip_prefix("port").map(str::trim_start).map(str::to_owned);
    let mut lines = said.lines().skip_while(|line| {
        starts(line).is_none_or(|rest| rest.split_once(':').is_none_or(|(found, _)| found.trim_matches('"') != number))
    });
    let rx = lines.next()?;
    let tx = lines.next()?;
    let others = lines.take_while(|line| starts(line).is_none());
    let xdp_dropped = others.flat_map(|line| line.split(',')).filter_map(xdp_dropped).reduce(|sum, more| sum + more);
    Some(OvsPortCounters {
        rx_packets: value(rx, "pkts=")?,
        rx_dropped: value(rx, "drop=").or(xdp_dropped),
        tx_packets: value(tx, "pkts=")?,
        tx_dropped: value(tx, "drop="),
    })
}

/// The number behind a name; `None` for `?`.
fn value(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    rest.split([',', ' ']).next()?.parse().ok()
}

/// Of `xsk_queue_0_rx_dropped=0`.
fn xdp_dropped(word: &str) -> Option<u64> {
    let (name, value) = word.trim().split_once('=')?;
    (name.starts_with("xsk_queue_") && name.ends_with(XDP_DROPPED)).then(|| value.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As version 3.1.0 prints it.
    const NETDEV: &str = "\
OFPST_PORT reply (OF1.4) (xid=0x2): 3 ports
  port LOCAL: rx pkts=0, bytes=0, drop=9, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=9, errs=0, coll=0
           duration=0.017s
  port  2: rx pkts=3, bytes=266, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=7, bytes=266, drop=1, errs=0, coll=0
           duration=0.017s
  port  1: rx pkts=8, bytes=516, drop=4, errs=0, frame=0, over=0, crc=0
           tx pkts=3, bytes=696, drop=0, errs=0, coll=0
";
    const AFXDP: &str = "\
OFPST_PORT reply (OF1.4) (xid=0x2): 3 ports
  port  1: rx pkts=6, bytes=516, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=8, bytes=696, drop=?, errs=?, coll=?
           CUSTOM Statistics
                      xsk_queue_0_rx_dropped=5, xsk_queue_0_rx_invalid_descs=1, xsk_queue_0_tx_invalid_descs=1,
                      xsk_queue_1_rx_dropped=2, xsk_queue_1_rx_invalid_descs=1, xsk_queue_1_tx_invalid_descs=1,
  port  2: rx pkts=6, bytes=516, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=11, bytes=946, drop=?, errs=?, coll=?
";

    #[test]
    fn counters_of_netdev_ports_are_read() {
        let one = OvsPortCounters { rx_packets: 8, rx_dropped: Some(4), tx_packets: 3, tx_dropped: Some(0) };
        let two = OvsPortCounters { rx_packets: 3, rx_dropped: Some(0), tx_packets: 7, tx_dropped: Some(1) };
        assert_eq!(read(NETDEV).unwrap(), [one, two]);
    }

    #[test]
    fn drops_of_afxdp_ports_are_those_of_their_queues() {
        let one = OvsPortCounters { rx_packets: 6, rx_dropped: Some(7), tx_packets: 8, tx_dropped: None };
        let two = OvsPortCounters { rx_packets: 6, rx_dropped: None, tx_packets: 11, tx_dropped: None };
        assert_eq!(read(AFXDP).unwrap(), [one, two]);
    }

    #[test]
    fn answer_without_a_port_is_not_understood() {
        let error = read("OFPST_PORT reply (OF1.4) (xid=0x2): 0 ports\n").unwrap_err();
        assert!(matches!(error, OvsError::Unreadable { .. }), "{error}");
    }
}

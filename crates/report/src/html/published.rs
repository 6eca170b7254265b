//! Figures that the papers published, on hardware that is not this one: marks to judge by, not results.

/// One published half round trip.
pub(super) struct Published {
    pub(super) name: &'static str,
    pub(super) half_rtt_ns: f64,
}

pub(super) const PUBLISHED: [Published; 5] = [
    Published { name: "ExaNIC raw frames", half_rtt_ns: 643.0 },
    Published { name: "exasock UDP, 14 B", half_rtt_ns: 805.0 },
    Published { name: "usNIC MPI", half_rtt_ns: 2_130.0 },
    Published { name: "VMA UDP, 256 B", half_rtt_ns: 3_200.0 },
    Published { name: "VMA TCP, 256 B", half_rtt_ns: 3_800.0 },
];

//! Settings that do nothing to what is measured.

/// Parameters of TCP, and others that no datagram of the ends comes to, each with another value than it is found with.
pub const PLACEBOS: [(&str, &str); 20] = [
    ("net.core.optmem_max", "65536"),
    ("net.core.somaxconn", "1024"),
    ("net.ipv4.tcp_adv_win_scale", "2"),
    ("net.ipv4.tcp_autocorking", "false"),
    ("net.ipv4.tcp_base_mss", "512"),
    ("net.ipv4.tcp_comp_sack_delay_ns", "0"),
    ("net.ipv4.tcp_congestion_control", "'reno'"),
    ("net.ipv4.tcp_early_demux", "false"),
    ("net.ipv4.tcp_limit_output_bytes", "1048576"),
    ("net.ipv4.tcp_mtu_probing", "1"),
    ("net.ipv4.tcp_notsent_lowat", "131072"),
    ("net.ipv4.tcp_rmem", "'4096 65536 1048576'"),
    ("net.ipv4.tcp_rto_min_us", "100000"),
    ("net.ipv4.tcp_sack", "false"),
    ("net.ipv4.tcp_slow_start_after_idle", "false"),
    ("net.ipv4.tcp_timestamps", "0"),
    ("net.ipv4.tcp_tso_win_divisor", "2"),
    ("net.ipv4.tcp_wmem", "'4096 65536 1048576'"),
    ("net.ipv4.udp_rmem_min", "8192"),
    ("vm.zone_reclaim_mode", "1"),
];

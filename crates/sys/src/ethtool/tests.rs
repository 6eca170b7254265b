//! Layouts against the kernel's headers; answers against a virtual interface and the ethtool
//! program.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;

use super::layout::*;
use super::*;
use crate::netns;

/// Sizes and offsets printed by a C program with `linux/ethtool.h` and `net/if.h`; the same on all
/// 64-bit ABIs. Arrays of unknown length count 0 there.
#[test]
fn layouts_are_those_of_the_kernel_headers() {
    assert_eq!(size_of::<InterfaceRequest>(), size_of::<libc::ifreq>());
    assert_eq!(align_of::<InterfaceRequest>(), align_of::<libc::ifreq>());
    assert_eq!(offset_of!(InterfaceRequest, data), offset_of!(libc::ifreq, ifr_ifru));

    assert_eq!(size_of::<GetDriverInfo>(), 196);
    assert_eq!(offset_of!(GetDriverInfo, fw_version), 68);
    assert_eq!(offset_of!(GetDriverInfo, bus_info), 100);
    assert_eq!(offset_of!(GetDriverInfo, n_priv_flags), 176);

    assert_eq!(size_of::<GetCoalesce>(), 92);
    assert_eq!(offset_of!(GetCoalesce, tx_coalesce_usecs), 20);
    assert_eq!(offset_of!(GetCoalesce, tx_max_coalesced_frames), 24);
    assert_eq!(offset_of!(GetCoalesce, use_adaptive_rx_coalesce), 40);
    assert_eq!(offset_of!(GetCoalesce, rate_sample_interval), 88);

    assert_eq!(size_of::<GetRings>(), 36);
    assert_eq!(offset_of!(GetRings, tx_max_pending), 16);
    assert_eq!(offset_of!(GetRings, rx_pending), 20);
    assert_eq!(offset_of!(GetRings, tx_pending), 32);

    assert_eq!(size_of::<GetChannels>(), 36);
    assert_eq!(offset_of!(GetChannels, max_combined), 16);
    assert_eq!(offset_of!(GetChannels, rx_count), 20);
    assert_eq!(offset_of!(GetChannels, combined_count), 32);

    assert_eq!(size_of::<GetWakeOnLan>(), 20);
    assert_eq!(size_of::<GetPause>(), 16);
    assert_eq!(size_of::<GetModuleInfo>(), 44);
    assert_eq!(size_of::<GetEnergyEfficient>(), 40);
    assert_eq!(offset_of!(GetEnergyEfficient, eee_active), 16);
    assert_eq!(size_of::<GetHash>(), 24);
    assert_eq!(offset_of!(GetHash, hfunc), 16);
    assert_eq!(offset_of!(GetStatisticNames, data), 12);
    assert_eq!(offset_of!(GetStatistics, data), 8);
    assert_eq!(size_of::<FlowSpec>(), 168);
    assert_eq!(offset_of!(FlowSpec, mask), 76);
    assert_eq!(offset_of!(FlowSpec, ring_cookie), 152);
    assert_eq!(offset_of!(FlowSpec, location), 160);
    assert_eq!(size_of::<GetRule>(), 192);
    assert_eq!(offset_of!(GetRule, spec), 16);
    assert_eq!(offset_of!(GetRule, rss_context), 184);
    assert_eq!(size_of::<CountRules>(), 192);
    assert_eq!(offset_of!(CountRules, rule_count), 184);
    assert_eq!(offset_of!(GetRuleLocations, locations), 188);
    assert_eq!(size_of::<GetRuleLocations>(), 192 + 4 * RULES_MAX);
    assert_eq!(size_of::<GetIndirection>(), 8 + 4 * INDIRECTION_MAX);
    assert_eq!(offset_of!(GetGroup, queues), size_of::<GetHash>());
    assert_eq!(size_of::<GetGroup>(), 24 + 4 * INDIRECTION_MAX);
    assert_eq!(size_of::<GetFec>(), 16);
    assert_eq!(offset_of!(GetFec, fec), 8);
}

#[test]
fn commands_that_write_follow_those_that_read_in_the_kernel_headers() {
    // Each has the number after its twin's.
    assert_eq!([SetWakeOnLan::COMMAND, GetWakeOnLan::COMMAND], [6, 5]);
    assert_eq!([SetCoalesce::COMMAND, GetCoalesce::COMMAND], [15, 14]);
    assert_eq!([SetRings::COMMAND, GetRings::COMMAND], [17, 16]);
    assert_eq!([SetPause::COMMAND, GetPause::COMMAND], [19, 18]);
    assert_eq!([SetFeatures::COMMAND, GetFeatures::COMMAND], [59, 58]);
    assert_eq!([SetChannels::COMMAND, GetChannels::COMMAND], [61, 60]);
    assert_eq!([SetEnergyEfficient::COMMAND, GetEnergyEfficient::COMMAND], [69, 68]);
}

#[test]
fn loopback_offload_switched_off_and_on_is_as_before() {
    let Ok(namespace) = netns::new_network_namespace() else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set and namespaces are refused");
        println!("SKIP cannot make a network namespace");
        return;
    };
    netns::enter(&namespace, || {
        let interface = Interface::open("lo").unwrap();
        let before = interface.features().unwrap();
        assert!(before.get("rx-gro").unwrap().is_active);
        interface.set_feature("rx-gro", false).unwrap();
        assert!(!interface.features().unwrap().get("rx-gro").unwrap().is_active);
        interface.set_feature("rx-gro", true).unwrap();
        assert_eq!(interface.features().unwrap(), before);

        let absent = interface.set_feature("no-such-offload", true).unwrap_err();
        assert!(absent.is_unsupported(), "{absent}");
        let flags = interface.private_flags().unwrap_err();
        assert!(flags.is_unsupported(), "{flags}");
        let refused = interface.set_channels(|channels| channels.combined = 2).unwrap_err();
        assert!(refused.is_unsupported(), "{refused}");
    })
    .unwrap();
}

#[test]
fn layouts_with_open_ends_begin_like_the_kernel_headers() {
    assert_eq!(offset_of!(GetStrings, data), 12);
    assert_eq!(size_of::<GetStrings>(), 12 + STRING_BYTES * FEATURES_MAX);

    assert_eq!(offset_of!(GetStringSetInfo, sset_mask), 8);
    assert_eq!(offset_of!(GetStringSetInfo, data), 16);
    assert_eq!(size_of::<GetStringSetInfo>(), 24);

    assert_eq!(size_of::<FeatureBlock>(), 16);
    assert_eq!(offset_of!(FeatureBlock, active), 8);
    assert_eq!(offset_of!(FeatureBlock, never_changed), 12);
    assert_eq!(offset_of!(GetFeatures, blocks), 8);
    assert_eq!(size_of::<GetFeatures>(), 8 + 16 * FEATURES_MAX / 32);

    assert_eq!(size_of::<SetFeatureBlock>(), 8);
    assert_eq!(offset_of!(SetFeatureBlock, requested), 4);
    assert_eq!(offset_of!(SetFeatures, blocks), 8);
    assert_eq!(size_of::<SetFeatures>(), 8 + 8 * FEATURES_MAX / 32);

    assert_eq!(size_of::<GetTimestamping>(), 44);
    assert_eq!(offset_of!(GetTimestamping, phc_index), 8);
    assert_eq!(offset_of!(GetTimestamping, tx_types), 12);
    assert_eq!(offset_of!(GetTimestamping, rx_filters), 28);

    assert_eq!(offset_of!(GetLinkSettings, duplex), 8);
    assert_eq!(offset_of!(GetLinkSettings, autoneg), 11);
    assert_eq!(offset_of!(GetLinkSettings, link_mode_masks_nwords), 15);
    assert_eq!(offset_of!(GetLinkSettings, link_mode_masks), 48);
    assert_eq!(size_of::<GetLinkSettings>(), 48 + 4 * LINK_MODE_WORDS_MAX);
}

#[test]
fn name_no_interface_can_have_opened_is_refused() {
    for name in ["", "sixteen_letters_", "a\0b"] {
        let opened = Interface::open(name);
        assert!(matches!(opened, Err(EthtoolError::Name { .. })), "{name:?}");
    }
    assert!(Interface::open("fifteen_letters").is_ok());
}

#[test]
fn absent_interface_asked_is_named() {
    let interface = Interface::open("nw-absent").unwrap();
    let error = interface.driver_info().unwrap_err();
    assert!(matches!(error, EthtoolError::NoInterface { .. }), "{error}");
    assert!(matches!(interface.index(), Err(EthtoolError::NoInterface { .. })));
}

#[test]
fn loopback_asked_for_rings_is_unsupported() {
    let interface = Interface::open("lo").unwrap();
    assert!(interface.rings().unwrap_err().is_unsupported());
    assert!(interface.pause().unwrap_err().is_unsupported());
    assert!(interface.energy_efficient().unwrap_err().is_unsupported());
    assert!(interface.fec().unwrap_err().is_unsupported());
    assert!(interface.hash_function().unwrap_err().is_unsupported());
    assert!(interface.flow_rules().unwrap_err().is_unsupported());
    assert!(interface.features().unwrap().get("rx-gro").is_some());
}

#[test]
fn field_without_nul_or_with_odd_bytes_is_text() {
    assert_eq!(text(b"veth\0junk"), "veth");
    assert_eq!(text(b"full"), "full");
    assert_eq!(text(b"\xff\0"), "\u{fffd}");
}

/// The rules of `ethtool -N IF flow-type udp4 dst-port 4321 action 3 loc 7` and its like, as `include/uapi/linux/ethtool.h`
/// lays them out.
#[test]
fn rule_of_the_kernel_is_told_without_its_addresses() {
    let spec = |flow_type: u32, port_at: usize, ring_cookie: u64| {
        let (mut value, mut mask) = ([0; 52], [0; 52]);
        value[..4].copy_from_slice(&[192, 0, 2, 1]);
        value[port_at..port_at + 2].copy_from_slice(&4321_u16.to_be_bytes());
        mask[port_at..port_at + 2].copy_from_slice(&[0xff, 0xff]);
        let (value_extended, mask_extended) = ([0; 20], [0; 20]);
        let (padding, padding_at_end) = (0, 0);
        FlowSpec {
            flow_type,
            value,
            value_extended,
            mask,
            mask_extended,
            padding,
            ring_cookie,
            location: 7,
            padding_at_end,
        }
    };
    let rule = |kind: &str, destination_port, to| FlowRule { location: 7, kind: kind.to_owned(), destination_port, to };
    let queue = |queue| FlowTarget { queue: Some(queue), ..FlowTarget::default() };
    assert_eq!(rules::rule_of(&spec(0x02, 10, 3), 0), rule("udp4", Some(4321), queue(3)));
    assert_eq!(rules::rule_of(&spec(0x05, 34, 3), 0), rule("tcp6", Some(4321), queue(3)));
    // Where the mask leaves bits of the port open, it is no port.
    let mut some_ports = spec(0x8000_0001, 10, 0);
    some_ports.mask[11] = 0xf0;
    assert_eq!(rules::rule_of(&some_ports, 0), rule("tcp4", None, queue(0)));
    let dropped = FlowTarget { is_dropped: true, ..FlowTarget::default() };
    assert_eq!(rules::rule_of(&spec(0x12, 10, u64::MAX), 0), rule("ether", None, dropped));
    let function = FlowTarget { queue: Some(1), virtual_function: Some(2), ..FlowTarget::default() };
    assert_eq!(rules::rule_of(&spec(0x0d, 10, 2 << 32 | 1), 0), rule("ip4", None, function));
    let context = FlowTarget { rss_context: Some(5), ..FlowTarget::default() };
    assert_eq!(rules::rule_of(&spec(0x2000_0000 | 0x02, 10, 0), 5), rule("udp4", Some(4321), context));
    let moved = FlowTarget { queue_offset: 4, ..context };
    assert_eq!(rules::rule_of(&spec(0x2000_0000 | 0x02, 10, 4), 5), rule("udp4", Some(4321), moved));
    assert_eq!(rules::rule_of(&spec(0x13, 10, 0), 0).kind, "kind 0x13");
}

/// Runs `check` in a fresh network namespace with the cable `nw0`-`nw1` in it.
fn with_cable(check: impl FnOnce()) {
    let made = netns::new_network_namespace();
    let namespace = match made {
        Ok(namespace) => namespace,
        Err(error) if std::env::var_os("NEARWIRE_REQUIRE").is_none() => {
            println!("SKIP network namespaces are refused: {error}");
            return;
        }
        Err(error) => panic!("NEARWIRE_REQUIRE is set and namespaces are refused: {error}"),
    };
    let work = move || {
        let Some(output) = run("ip", "link add nw0 type veth peer name nw1") else {
            return;
        };
        assert!(output.is_empty(), "{output}");
        run("ip", "link set nw0 up");
        run("ip", "link set nw1 up");
        check();
    };
    netns::enter(namespace, work).unwrap();
}

/// Runs a program in the thread's network namespace; `None` when it is not installed and need not
/// be.
fn run(program: &str, arguments: &str) -> Option<String> {
    match Command::new(program).args(arguments.split(' ')).output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) if std::env::var_os("NEARWIRE_REQUIRE").is_none() => {
            println!("SKIP {program} is not installed: {error}");
            None
        }
        Err(error) => panic!("NEARWIRE_REQUIRE is set and {program} does not run: {error}"),
    }
}

/// `name: value` lines of ethtool's output; `[fixed]` and the like are left on.
fn lines_of(output: &str) -> BTreeMap<&str, &str> {
    let lines = output.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.trim(), value.trim())).collect()
}

#[test]
fn veth_asked_answers_as_veth() {
    with_cable(|| {
        let interface = Interface::open("nw0").unwrap();
        let driver = interface.driver_info().unwrap();
        assert_eq!(driver.driver, "veth");
        assert_eq!(driver.bus_info, "");

        let link = interface.link_settings().unwrap();
        assert_eq!(link.speed_mbps, Some(10_000));
        assert_eq!(link.duplex, Some(Duplex::Full));
        assert!(!link.is_autonegotiated);

        let channels = interface.channels().unwrap();
        assert!(channels.rx >= 1 && channels.tx >= 1);
        assert!(interface.coalesce().unwrap_err().is_unsupported());
        assert!(interface.group_indirection(1).unwrap_err().is_unsupported());

        let stamps = interface.timestamping().unwrap();
        let software = SoTimestamping::RX_SOFTWARE | SoTimestamping::SOFTWARE;
        assert!(stamps.so_timestamping.contains(software));
        assert!(!stamps.so_timestamping.contains(SoTimestamping::RX_HARDWARE));
    });
}

#[test]
fn counters_of_a_veth_are_those_that_ethtool_prints() {
    with_cable(|| {
        let found = Interface::open("nw0").unwrap().statistics().unwrap();
        let Some(output) = run("ethtool", "-S nw0") else { return };
        let printed: Vec<&str> = output.lines().filter_map(|line| Some(line.split_once(": ")?.0.trim())).collect();
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), printed);
        assert!(found.iter().any(|(name, _)| name == "peer_ifindex"), "{found:?}");
    });
}

#[test]
fn interface_opened_stays_in_its_namespace() {
    let mut inside = None;
    with_cable(|| inside = Some(Interface::open("nw0").unwrap()));
    if let Some(interface) = inside {
        // The socket keeps the namespace alive, and the question is asked from outside.
        assert_eq!(interface.driver_info().unwrap().driver, "veth");
    }
}

#[test]
fn veth_features_switched_are_seen_and_agree_with_ethtool() {
    with_cable(|| {
        let interface = Interface::open("nw0").unwrap();
        for wanted in ["on", "off"] {
            let Some(output) = run("ethtool", &format!("-K nw0 gro {wanted}")) else {
                return;
            };
            assert_eq!(output, "");
            let features = interface.features().unwrap();
            let gro = features.get("rx-gro").unwrap();
            assert_eq!((gro.is_active, gro.is_changeable), (wanted == "on", true));
        }
        assert_agrees_with_ethtool(&interface);
    });
}

#[test]
fn every_interface_here_agrees_with_ethtool() {
    for entry in std::fs::read_dir("/sys/class/net").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let interface = Interface::open(&name).unwrap();
        // bonding_masters is a file among the interfaces.
        if interface.index().is_ok() {
            assert_agrees_with_ethtool(&interface);
        }
    }
}

fn assert_agrees_with_ethtool(interface: &Interface) {
    let name = interface.name();
    let Some(output) = run("ethtool", &format!("-k {name}")) else {
        return;
    };
    let theirs = lines_of(&output);
    let mut compared = 0;
    for feature in interface.features().unwrap().iter() {
        // ethtool shows some under older names, or as a sum of several.
        let Some(theirs) = theirs.get(feature.name.as_str()) else {
            continue;
        };
        let ours = if feature.is_active { "on" } else { "off" };
        assert!(theirs.starts_with(ours), "{name} {}: {theirs}", feature.name);
        let is_fixed = theirs.ends_with("[fixed]");
        assert_eq!(is_fixed, !feature.is_changeable, "{name} {}", feature.name);
        compared += 1;
    }
    assert!(compared > 20, "{compared} offloads compared");
    assert_driver_agrees(interface);
    assert_rings_agree(interface);
}

fn assert_driver_agrees(interface: &Interface) {
    let output = run("ethtool", &format!("-i {}", interface.name())).unwrap();
    let theirs = lines_of(&output);
    match interface.driver_info() {
        Ok(ours) => {
            assert_eq!(theirs["driver"], ours.driver);
            assert_eq!(theirs["version"], ours.version);
            assert_eq!(theirs["bus-info"], ours.bus_info);
            let has_flags = theirs["supports-priv-flags"] == "yes";
            assert_eq!(has_flags, ours.private_flags > 0);
        }
        Err(error) => {
            assert!(error.is_unsupported(), "{error}");
            assert!(theirs.is_empty(), "{theirs:?}");
        }
    }
}

fn assert_rings_agree(interface: &Interface) {
    let output = run("ethtool", &format!("-g {}", interface.name())).unwrap();
    // The first block has the largest values, the second the current ones.
    let (largest, current) = output.split_once("Current").unwrap_or(("", ""));
    let (largest, current) = (lines_of(largest), lines_of(current));
    if let Ok(ours) = interface.rings()
        && current.contains_key("RX")
    {
        assert_eq!(largest["RX"], ours.rx_max.to_string());
        assert_eq!(largest["TX"], ours.tx_max.to_string());
        assert_eq!(current["RX"], ours.rx.to_string());
        assert_eq!(current["TX"], ours.tx.to_string());
    }
}

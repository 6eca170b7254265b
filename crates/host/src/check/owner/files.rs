//! Files of network tools that set properties of interfaces whenever these come up.

use super::link_files::{Fit, link_files};
use super::{Claim, Owner, assignments};
use crate::{Root, catalogue};

const CONNECTIONS: [&str; 2] = ["/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"];

/// What systemd sets by the `.link` file of each interface, or by those before it that perhaps match.
pub(super) fn links(root: &Root, interfaces: &[String]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let files = link_files(root);
    for interface in interfaces {
        for file in &files {
            let fit = file.fits(root, interface);
            if fit == Fit::No {
                continue;
            }
            let keys = assignments(&file.text).filter(|(section, ..)| *section == "Link");
            let ids: Vec<String> = keys.filter_map(|(_, key, _)| id_of(key)).collect();
            let path = &file.path;
            let owner = Owner { tool: format!("systemd ({path})"), advice: format!("change the value in {path}") };
            claims.push(Claim { owner, ids, interface: Some(interface.clone()) });
            if fit == Fit::Yes {
                break;
            }
        }
    }
    claims
}

/// The setting that an option of `[Link]` sets (`systemd.link(5)`).
fn id_of(key: &str) -> Option<String> {
    let mut having = catalogue::settings().filter(|setting| setting.nic.link_names().any(|name| name == key));
    having.next().map(|setting| setting.id.to_owned())
}

/// What connections of `NetworkManager` set (`nm-settings-keyfile(5)`); only root may read them.
pub(super) fn network_manager(root: &Root, interfaces: &[String]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for path in root.files_of(CONNECTIONS, ".nmconnection").into_values() {
        let text = root.read(&path).unwrap_or_default();
        let name = assignments(&text).find(|(section, key, _)| (*section, *key) == ("connection", "interface-name"));
        let ids: Vec<String> = assignments(&text).filter_map(|(section, key, _)| in_connection(section, key)).collect();
        let is_meant = |interface: &&String| name.is_none_or(|(.., name)| name == interface.as_str());
        for interface in interfaces.iter().filter(is_meant).filter(|_| !ids.is_empty()) {
            let tool = format!("NetworkManager ({path})");
            let advice = "change it with nmcli connection modify".to_owned();
            claims.push(Claim { owner: Owner { tool, advice }, ids: ids.clone(), interface: Some(interface.clone()) });
        }
    }
    claims
}

fn in_connection(section: &str, key: &str) -> Option<String> {
    match (section, key.split_once('-')) {
        ("ethernet", _) if key == "mtu" => Some("nic.mtu".to_owned()),
        ("ethtool", Some(("coalesce", rest))) => Some(format!("nic.coalesce.{rest}")),
        ("ethtool", Some(("ring", rest))) => Some(format!("nic.ring.{rest}")),
        ("ethtool", Some(("channels", rest))) => Some(format!("nic.channels.{rest}")),
        ("ethtool", Some(("feature", rest))) => Some(format!("nic.offload.{rest}")),
        ("ethtool", Some(("pause", "autoneg"))) => Some("nic.pause.autoneg".to_owned()),
        ("ethtool", Some(("pause", _))) => Some("nic.pause".to_owned()),
        ("ethtool", Some(("eee", _))) => Some("nic.energy-efficient".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_of_a_link_file_is_of_the_setting_whose_row_names_it() {
        for (option, id) in [
            ("MTUBytes", Some("nic.mtu")),
            ("TxFlowControl", Some("nic.pause")),
            ("TCP6SegmentationOffload", Some("nic.offload.tso")),
            ("RxCoalesceLowSec", Some("nic.coalesce.rx-usecs-low")),
            ("NamePolicy", None),
        ] {
            assert_eq!(id_of(option).as_deref(), id, "{option}");
        }
    }
}

//! Interfaces that a change must not touch unasked: whoever loses one loses the host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nearwire_host::Root;
use nearwire_lab::{interfaces_of_default_routes, route_to};

/// File systems whose server is on the network (`addr=` among their options, or before the `:`).
const NETWORK_FILE_SYSTEMS: [&str; 6] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs"];

/// The interfaces in use, each with what it is used for. Of a copy of a host's files nothing is in use.
pub(in crate::commands) fn interfaces(root: &Root) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if !root.is_live() {
        return found;
    }
    // A host without routes or netlink has nothing to lose here.
    for interface in interfaces_of_default_routes().unwrap_or_default() {
        note(root, &mut found, interface, "it carries the default route");
    }
    let caller = caller(root, std::process::id());
    let storage = storage(root).into_iter().map(|address| (address, "storage is reached through it"));
    for (address, why) in caller.map(|address| (address, "your connection comes in by it")).into_iter().chain(storage) {
        if let Ok(route) = route_to(address)
            && !route.is_local
        {
            note(root, &mut found, route.interface.name, why);
        }
    }
    found
}

/// Notes an interface and those below it: the ports of a bond or a bridge, the parent of a VLAN.
fn note(root: &Root, found: &mut BTreeMap<String, String>, interface: String, why: &str) {
    if found.contains_key(&interface) {
        return;
    }
    let entries = root.list(&format!("/sys/class/net/{interface}")).unwrap_or_default();
    found.insert(interface, why.to_owned());
    for lower in entries.iter().filter_map(|entry| entry.strip_prefix("lower_")) {
        note(root, found, lower.to_owned(), why);
    }
}

/// The address at the other end of the caller's connection, which sshd puts into the environment of what it starts.
/// sudo(8) takes it out again, so that the processes above are asked too.
fn caller(root: &Root, pid: u32) -> Option<IpAddr> {
    const ANCESTORS_MAX: usize = 64;
    let mut pid = pid;
    for _ in 0..ANCESTORS_MAX {
        let environment = root.read(&format!("/proc/{pid}/environ")).unwrap_or_default();
        let found = environment.split('\0').find_map(|variable| variable.strip_prefix("SSH_CONNECTION="));
        if let Some(peer) = found.and_then(|words| address(words.split_whitespace().next()?)) {
            return Some(peer);
        }
        let status = root.read(&format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        pid = parent.and_then(|parent| parent.trim().parse().ok()).filter(|parent| *parent > 1)?;
    }
    None
}

/// The addresses of servers that hold this host's files and disks.
fn storage(root: &Root) -> Vec<IpAddr> {
    let mounts = root.read("/proc/self/mounts").or_else(|_| root.read("/proc/mounts")).unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (source, kind, options) = (words.next()?, words.nth(1)?, words.next()?);
        let is_remote = NETWORK_FILE_SYSTEMS.contains(&kind) || kind.starts_with("fuse.glusterfs");
        let option = options.split(',').find_map(|option| option.strip_prefix("addr="));
        is_remote.then(|| option.and_then(address).or_else(|| server(source)))?
    });
    let each = |directory: &str, file: &str| -> Vec<String> {
        let entries = root.list(directory).unwrap_or_default();
        entries.iter().filter_map(|entry| root.read(&format!("{directory}/{entry}/{file}")).ok()).collect()
    };
    let iscsi = each("/sys/class/iscsi_connection", "address").into_iter().filter_map(|text| address(&text));
    // "traddr=192.0.2.1,trsvcid=4420" of a controller over TCP or RDMA; a PCI address of a local one.
    let nvme = each("/sys/class/nvme", "address").into_iter().filter_map(|text| {
        let target = text.split(',').find_map(|part| part.strip_prefix("traddr=").map(str::to_owned))?;
        address(&target)
    });
    mounted.chain(iscsi).chain(nvme).collect()
}

/// The server in the source of a mount: `192.0.2.1:/export`, `[2001:db8::1]:/export`, `//192.0.2.1/share`.
fn server(source: &str) -> Option<IpAddr> {
    let source = source.trim_start_matches('/');
    match source.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => address(inside),
        None => address(source.split([':', '/']).next()?),
    }
}

/// An address without its zone: `fe80::1%eth0`.
fn address(text: &str) -> Option<IpAddr> {
    text.trim().split('%').next()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn caller_of_ssh_is_found_above_sudo() {
        let host = tempfile::tempdir().unwrap();
        for (pid, parent, environment) in [
            (30, 20, "PATH=/bin\0SUDO_USER=a\0"),
            (20, 10, "SSH_CONNECTION=192.0.2.7 50022 192.0.2.1 22\0"),
            (40, 1, "SSH_CONNECTION=fe80::1%eth0 50022 fe80::2%eth0 22\0"),
            (50, 1, "PATH=/bin\0"),
        ] {
            let directory = host.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("environ"), environment).unwrap();
            std::fs::write(directory.join("status"), format!("Name:\tx\nPPid:\t{parent}\n")).unwrap();
        }
        let root = Root::directory(host.path()).unwrap();
        assert_eq!(caller(&root, 30), Some("192.0.2.7".parse().unwrap()));
        assert_eq!(caller(&root, 40), Some("fe80::1".parse().unwrap()));
        assert_eq!(caller(&root, 50), None);
    }

    #[test]
    fn storage_over_the_network_is_found_by_its_servers() {
        let host = tempfile::tempdir().unwrap();
        let files = [
            (
                "proc/self/mounts",
                "/dev/sda1 / ext4 rw 0 0\n192.0.2.1:/home /home nfs4 rw,vers=4.2,addr=192.0.2.1 0 0\n\
                 [2001:db8::5]:/x /x nfs rw 0 0\n//192.0.2.3/s /s cifs rw,user=a 0 0\nserver:/y /y nfs rw 0 0\n",
            ),
            ("sys/class/iscsi_connection/connection1:0/address", "192.0.2.10\n"),
            ("sys/class/nvme/nvme0/address", "0000:01:00.0\n"),
            ("sys/class/nvme/nvme1/address", "traddr=192.0.2.20,trsvcid=4420,src_addr=192.0.2.2\n"),
        ];
        for (path, text) in files {
            let path = host.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = storage(&Root::directory(host.path()).unwrap());
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1", "2001:db8::5", "192.0.2.3", "192.0.2.10", "192.0.2.20"]);
    }

    #[test]
    fn interface_below_one_in_use_is_in_use_too() {
        let host = tempfile::tempdir().unwrap();
        for directory in ["vlan7/lower_bond0", "bond0/lower_eth0", "bond0/lower_eth1", "eth0", "eth1", "eth2"] {
            std::fs::create_dir_all(host.path().join("sys/class/net").join(directory)).unwrap();
        }
        let mut found = BTreeMap::new();
        note(&Root::directory(host.path()).unwrap(), &mut found, "vlan7".to_owned(), "why");
        assert_eq!(found.keys().collect::<Vec<_>>(), ["bond0", "eth0", "eth1", "vlan7"]);
    }
}

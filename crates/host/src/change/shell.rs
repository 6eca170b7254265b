//! A write as the line of shell that does the same.

use super::{EthtoolParameter, Target};

impl Target {
    /// The line of shell that writes a word here, by the interface's name at the time of planning.
    #[must_use]
    pub fn shell(&self, word: &str) -> String {
        let interface = &quoted(self.device().map_or("", |device| device.interface.as_str()));
        match self {
            Self::File { path, form } => match path.strip_prefix("/proc/sys/") {
                Some(name) => format!("sysctl -w {}={}", quoted(&dotted(name)), quoted(&form.text(word))),
                None => format!("echo {} > {}", quoted(&form.text(word)), quoted(path)),
            },
            Self::InterfaceFile { form, .. } => {
                format!("echo {} > {}", quoted(&form.text(word)), quoted(&self.to_string()))
            }
            // The number of the vector is looked up when the line runs: a reset changes it.
            Self::Irq { vector, .. } => format!(
                "echo {word} > /proc/irq/$(ls /sys/class/net/{interface}/device/msi_irqs | sort -n | sed -n {}p)\
                 /smp_affinity_list",
                vector + 1
            ),
            Self::Link { attribute, .. } => format!("ip link set dev {interface} {} {word}", attribute.word()),
            Self::Ethtool { parameter, .. } => ethtool(interface, parameter, word),
            Self::Partition { path } if word == "none" => {
                format!("echo member > {path}/cpuset.cpus.partition; rmdir {path}")
            }
            // A file that old kernels lack is not made by the second line: control groups take no files.
            Self::Partition { path } => format!(
                "mkdir -p {path} && echo {word} > {path}/cpuset.cpus && echo {word} > {path}/cpuset.cpus.exclusive && \
                 echo isolated > {path}/cpuset.cpus.partition && cat {path}/cpuset.cpus.partition"
            ),
            Self::Service { unit } => {
                format!("systemctl {} {}", if word == "running" { "start" } else { "stop" }, quoted(unit))
            }
        }
    }
}

fn ethtool(interface: &str, parameter: &EthtoolParameter, word: &str) -> String {
    let is_on = |is_on| if is_on { "on" } else { "off" };
    let words = match parameter {
        EthtoolParameter::Pause => {
            format!("rx {} tx {}", is_on(word.contains("rx")), is_on(word.contains("tx")))
        }
        EthtoolParameter::Feature(name) => format!("{name} {}", is_on(matches!(word, "on" | "off, requested"))),
        EthtoolParameter::WakeOnLan if word == "off" => "wol d".to_owned(),
        parameter => format!("{} {word}", parameter.word()),
    };
    format!("ethtool {} {interface} {words}", parameter.flag())
}

/// A parameter of the kernel as sysctl(8) names it, where dots and slashes change places.
fn dotted(path: &str) -> String {
    let swap = |c| match c {
        '/' => '.',
        '.' => '/',
        c => c,
    };
    path.chars().map(swap).collect()
}

/// In single quotes where the shell would read more into it.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:+@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

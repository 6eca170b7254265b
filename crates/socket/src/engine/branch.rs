//! Engines that another one founds: on the same interfaces, with queues of their own. See [`crate::engines`].

use nearwire_frames::ports::xdp::{XdpMode, XdpPort};
use nearwire_frames::steering::FlowFilter;
use nearwire_stack::Offers;

use super::{Attached, Engine};
use crate::config::Config;
use crate::reason::Reason;
use crate::status::Writer;

/// The first release whose generic path locks the fill ring that sockets share ("xsk: Fix race condition in AF_XDP generic RX
/// path", `xsk_generic_rcv` in net/xdp/xsk.c). Before, two CPUs could give one buffer to two frames.
const GENERIC_LOCKED: (u32, u32) = (6, 15);

fn locks_generic_rings() -> bool {
    let uname = rustix::system::uname();
    is_at_least(uname.release().to_str().unwrap_or_default(), GENERIC_LOCKED)
}

/// Whether a release as in "6.18.5-generic" is this one or a later one.
fn is_at_least(release: &str, least: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= least
}

impl Engine {
    /// Founds one. It has all ports that this one has, and opens none itself.
    ///
    /// # Errors
    /// A port has no lane left for it, or the kernel refuses a socket or its tables.
    pub(crate) fn found(&mut self, config: &Config, page: &Writer) -> Result<Engine, Reason> {
        // A lane that is given away has nothing left to send.
        self.flush();
        let mut founded = Engine::open(config, page.clone()).map_err(|error| error.reason())?;
        founded.is_branch = true;
        founded.capture_asked = self.capture_asked;
        for attached in self.interfaces.attached.iter_mut().filter(|attached| attached.failed.is_none()) {
            if attached.port.config().mode == XdpMode::Generic && !locks_generic_rings() {
                self.take_back(&mut founded);
                return Err(Reason::EngineFailed);
            }
            match attached.port.share() {
                Ok(port) => founded.adopt(attached, port),
                Err(error) => {
                    self.take_back(&mut founded);
                    return Err(Reason::of_failure(&error));
                }
            }
        }
        Ok(founded)
    }

    fn adopt(&mut self, of: &Attached, port: XdpPort) {
        let port_id = self.stack.attach_port(of.ifindex, Offers::default());
        self.interfaces.adopt(Attached::new(of.ifindex, &of.name, of.is_veth, port, port_id));
    }

    /// Takes the ports of an engine that this one founded. `false`: they were taken before.
    pub(crate) fn take_back(&mut self, founded: &mut Engine) -> bool {
        for other in std::mem::take(&mut founded.interfaces.attached) {
            // The next share gets these sockets.
            other.port.receive_sockets().for_each(|socket| founded.watch.remove(socket));
            let founder = self.interfaces.attached.iter_mut().find(|attached| attached.ifindex == other.ifindex);
            if let Some(attached) = founder {
                // Refused where the founder's port is another one by now: the share has ended by itself.
                let _ = attached.port.unshare(other.port);
            }
        }
        !std::mem::replace(&mut founded.has_ended, true)
    }

    /// Interfaces that were busy may be free.
    pub(crate) fn retry_interfaces(&mut self) {
        self.interfaces.retry_busy();
    }

    /// Packets of these flows come to another engine from now on, as far as a socket that goes there wanted them.
    ///
    /// # Errors
    /// The kernel refused; then they may come to either.
    pub(crate) fn hand_flows(&mut self, other: &mut Engine, flows: &[FlowFilter]) -> Result<(), Reason> {
        self.flows.hand_to(&mut other.flows, flows, &mut self.interfaces.attached, &mut other.interfaces.attached)
    }

    /// Whether it is without a port that it had.
    pub(crate) const fn has_lost_ports(&self) -> bool {
        self.has_lost_ports || self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_compared_is_at_least_the_one_wanted() {
        assert!(
            is_at_least("6.15.0", (6, 15)) && is_at_least("6.18.5-generic", (6, 15)) && is_at_least("7.0-rc1", (6, 15))
        );
        assert!(!is_at_least("6.14.11", (6, 15)) && !is_at_least("5.19", (6, 15)) && !is_at_least("", (6, 15)));
    }
}

//! Branches: engines that another engine opens on the same interfaces, with queues of their own. See [`crate::engines`].

use nearwire_frames::steering::FlowFilter;
use nearwire_frames::{EnginePort, FlowSocket};
use nearwire_stack::Offers;

use super::{Attached, Engine, watch_holder, watch_port};
use crate::config::Config;
use crate::host::Host;
use crate::now::Now;
use crate::reason::Reason;
use crate::status::Writer;

impl<H: Host> Engine<H> {
    /// Opens a branch. It has all ports that this engine has, and opens none itself.
    ///
    /// # Errors
    /// A port has no share left for it, or the kernel refuses a socket or its tables.
    pub(crate) fn open_branch(&mut self, config: &Config, page: &Writer) -> Result<Engine<H>, Reason> {
        // A TX queue that is given away has nothing left to send.
        self.flush();
        let mut branch = Engine::open(self.host.clone(), config, page.clone()).map_err(|error| error.reason())?;
        branch.is_branch = true;
        branch.capture_asked = self.capture_asked;
        if let Err(reason) = self.give_ports(&mut branch) {
            self.take_back(&mut branch);
            return Err(reason);
        }
        Ok(branch)
    }

    /// Gives a branch of this engine all ports that this one has.
    ///
    /// # Errors
    /// A port has no share left for it, or the kernel refuses a socket.
    pub(crate) fn give_ports(&mut self, branch: &mut Engine<H>) -> Result<(), Reason> {
        let lacks = |ifindex: u32| branch.interfaces.attached.iter().all(|other| other.ifindex != ifindex);
        let missing: Vec<u32> = self.interfaces.attached.iter().map(|attached| attached.ifindex).collect();
        for ifindex in missing.into_iter().filter(|ifindex| lacks(*ifindex)).collect::<Vec<_>>() {
            let attached = self.interfaces.attached.iter_mut().find(|attached| attached.ifindex == ifindex);
            let Some(attached) = attached.filter(|attached| attached.failed.is_none()) else { continue };
            let mut port = attached.port.share().map_err(|error| Reason::of_failure(&error))?;
            branch.flows.add_all_to(&mut port).map_err(|error| Reason::of_port(&error))?;
            watch_holder(&branch.watch, &port).map_err(|error| Reason::of_failure(&error))?;
            if branch.watches_ports {
                watch_port(&branch.watch, &port).map_err(|error| Reason::of_failure(&error))?;
            }
            branch.adopt(attached, port);
        }
        Ok(())
    }

    fn adopt(&mut self, of: &Attached<H::Port>, port: H::Port) {
        let port_id = self.stack.attach_port(of.ifindex, Offers::default());
        self.interfaces.adopt(Attached::new(of.ifindex, &of.name, of.is_veth, port, port_id));
    }

    /// Takes the ports of a branch back. `false`: they were taken before.
    pub(crate) fn take_back(&mut self, branch: &mut Engine<H>) -> bool {
        for other in branch.interfaces.take_all() {
            // The next share gets these sockets.
            other.port.receive_sockets().for_each(|socket| branch.watch.remove(socket));
            let own = self.interfaces.attached.iter_mut().find(|attached| attached.ifindex == other.ifindex);
            if let Some(attached) = own {
                // Refused if this engine's port is another one by now: the share has ended by itself.
                let _ = attached.port.unshare(other.port);
            }
        }
        !std::mem::replace(&mut branch.has_ended, true)
    }

    /// Interfaces that were busy may be free.
    pub(crate) fn retry_interfaces(&mut self) {
        self.interfaces.retry_busy();
    }

    /// Packets of these flows come to another engine from now on, as far as a socket that goes there wanted them.
    ///
    /// # Errors
    /// The kernel refused; then they may come to either.
    pub(crate) fn hand_flows(
        &mut self,
        now: Now,
        other: &mut Engine<H>,
        flows: &[FlowFilter],
        socket: FlowSocket,
    ) -> Result<(), Reason> {
        self.late.expect(now, flows, socket);
        self.flows.hand_to(
            &mut other.flows,
            (flows, socket),
            &mut self.interfaces.attached,
            &mut other.interfaces.attached,
        )
    }

    /// Whether it is without a port that it had.
    pub(crate) const fn has_lost_ports(&self) -> bool {
        self.has_lost_ports || self.has_ended
    }
}

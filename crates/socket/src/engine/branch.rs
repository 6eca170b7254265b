//! Engines that another one founds: on the same interfaces, with queues of their own. See [`crate::engines`].

use nearwire_frames::steering::FlowFilter;
use nearwire_frames::{EnginePort, FlowSocket};
use nearwire_stack::Offers;

use super::{Attached, Engine, watch_holder};
use crate::config::Config;
use crate::host::Host;
use crate::reason::Reason;
use crate::status::Writer;

impl<H: Host> Engine<H> {
    /// Founds one. It has all ports that this one has, and opens none itself.
    ///
    /// # Errors
    /// A port has no share left for it, or the kernel refuses a socket or its tables.
    pub(crate) fn found(&mut self, config: &Config, page: &Writer) -> Result<Engine<H>, Reason> {
        // A TX queue that is given away has nothing left to send.
        self.flush();
        let mut founded = Engine::open(self.host.clone(), config, page.clone()).map_err(|error| error.reason())?;
        founded.is_branch = true;
        founded.capture_asked = self.capture_asked;
        for attached in self.interfaces.attached.iter_mut().filter(|attached| attached.failed.is_none()) {
            match attached.port.share() {
                Ok(port) => {
                    if watch_holder(&founded.watch, &port).is_err() {
                        self.take_back(&mut founded);
                        return Err(Reason::EngineFailed);
                    }
                    founded.adopt(attached, port);
                }
                Err(error) => {
                    self.take_back(&mut founded);
                    return Err(Reason::of_failure(&error));
                }
            }
        }
        Ok(founded)
    }

    fn adopt(&mut self, of: &Attached<H::Port>, port: H::Port) {
        let port_id = self.stack.attach_port(of.ifindex, Offers::default());
        self.interfaces.adopt(Attached::new(of.ifindex, &of.name, of.is_veth, port, port_id));
    }

    /// Takes the ports of an engine that this one founded. `false`: they were taken before.
    pub(crate) fn take_back(&mut self, founded: &mut Engine<H>) -> bool {
        for other in founded.interfaces.take_all() {
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
    pub(crate) fn hand_flows(
        &mut self,
        other: &mut Engine<H>,
        flows: &[FlowFilter],
        socket: FlowSocket,
    ) -> Result<(), Reason> {
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

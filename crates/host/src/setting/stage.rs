//! The order in which changes are written.

/// A step of the safe order. Values are put back in reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Services that would undo what follows.
    Services,
    /// CPUs that come and go.
    Cpus,
    /// Everything that depends on nothing else.
    Independent,
    /// Speed, flow control, size: the link may go down.
    Link,
    /// Numbers of queues: makes queues and their interrupts anew.
    Channels,
    /// Ring sizes: makes the rings anew.
    Rings,
    /// Offloads; some reset the device.
    Offloads,
    /// Interrupt delays; a reset may put the driver's own back.
    Coalesce,
    /// Files of the interface and of its queues, which only now are the final ones.
    Queues,
    /// CPUs of interrupts, after the last reset.
    Interrupts,
    /// What takes CPUs away from everything else.
    Isolation,
}

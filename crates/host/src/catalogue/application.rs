//! The program and the measurement.

use super::base;
use crate::setting::{Disruption, Persist, Risk, Write};
use crate::{Area, ReadFrom, Setting};

const PROGRAM: Setting = base::application(Area::Application);
const NAPI_DOC: &[&str] = &["Documentation/networking/napi.rst"];

pub(super) const SETTINGS: &[Setting] = &[
    PROGRAM
        .row(
            "app.busy-poll",
            "Microseconds a socket spins on its device queue (SO_BUSY_POLL).",
            "A packet found by spinning needs no interrupt and no wake-up.",
            base::PROGRAM,
        )
        .number("us")
        .risk(&[Risk::Power])
        .docs(&["socket(7)"]),
    PROGRAM
        .row(
            "app.prefer-busy-poll",
            "Whether a socket asks the kernel to leave the queue to it (SO_PREFER_BUSY_POLL).",
            "Interrupts stay off as long as the program polls in time.",
            base::PROGRAM,
        )
        .switch()
        .docs(NAPI_DOC)
        .today("It needs napi_defer_hard_irqs and gro_flush_timeout on the interface."),
    PROGRAM
        .row(
            "app.busy-poll-budget",
            "Packets that one busy poll may take (SO_BUSY_POLL_BUDGET).",
            "A small budget lets the program see the first packet sooner.",
            base::PROGRAM,
        )
        .number("packets")
        .docs(NAPI_DOC),
    PROGRAM
        .row(
            "app.epoll-busy-poll",
            "How an epoll instance spins on device queues (EPIOCSPARAMS).",
            "One instance spins without making every socket of the host do so.",
            base::PROGRAM,
        )
        .risk(&[Risk::Power])
        .docs(NAPI_DOC)
        .today("Epoll does poll queues since Linux 4.12, and with options of its own since 6.9."),
    PROGRAM
        .row(
            "app.memory-lock-limit-bytes",
            "Memory the program may lock without a capability, bytes.",
            "Libraries for RDMA and bypass register their buffers with the device and must lock them for that.",
            ReadFrom::Elsewhere {
                why: "it belongs to one program, which has to be named",
                look: "Max locked memory in /proc/PID/limits of the program, as its launcher started it",
            },
        )
        .number("bytes")
        .docs(&["getrlimit(2)"]),
    PROGRAM
        .row(
            "app.io-uring-napi",
            "Whether an io_uring instance spins on device queues (IORING_REGISTER_NAPI).",
            "A ring that polls needs no interrupt and no wake-up.",
            base::PROGRAM,
        )
        .switch()
        .risk(&[Risk::Power])
        .docs(&["io_uring_register_napi(3)"]),
    PROGRAM
        .row(
            "app.warm-up",
            "Messages that are sent before any counts.",
            "Caches, clocks and tables are cold at first, which is a figure of its own.",
            ReadFrom::Elsewhere { why: "it is a choice of the measurement", look: "nearwire bench --warm-up" },
        )
        .number("messages")
        .disrupts(Disruption::None),
    PROGRAM
        .row(
            "app.prepared-send",
            "Whether frames lie in the device before they are sent.",
            "Sending is then one store instead of a copy.",
            ReadFrom::Elsewhere { why: "it is a choice of the program", look: "nearwire bench --tx prepared" },
        )
        .switch(),
    PROGRAM
        .row(
            "app.in-place-receive",
            "Whether frames are read where the device put them.",
            "It saves a copy and lets the program start before the frame is complete.",
            ReadFrom::Elsewhere { why: "it is a choice of the program", look: "nearwire bench --rx in-place" },
        )
        .switch(),
    PROGRAM
        .row(
            "app.store-options",
            "Options of a key-value store that its latency depends on, such as its memory limit and what it evicts.",
            "A store that evicts or saves itself in the middle of a request answers late.",
            ReadFrom::Elsewhere {
                why: "they are a matter of the program",
                look: "redis-cli config get '*', and net.core.somaxconn and vm.overcommit_memory for the host's part",
            },
        )
        .risk(&[Risk::Security, Risk::Data]),
    PROGRAM.row(
        "app.bypass-options",
        "Options of a bypass library, given by its environment.",
        "They decide what is served past the kernel and what is counted.",
        ReadFrom::Elsewhere {
            why: "they belong to one program, which has to be named",
            look: "LD_PRELOAD and VMA_* in /proc/PID/environ",
        },
    ),
    PROGRAM
        .row(
            "app.same-hosts",
            "Whether the two hosts of a measurement are set up alike.",
            "The slower host decides, and one measures only both together.",
            ReadFrom::Elsewhere { why: "it compares two hosts", look: "the environments in the records of both hosts" },
        )
        .switch()
        .write_by(Write::Fact)
        .persist(&[])
        .disrupts(Disruption::None),
    PROGRAM
        .row(
            "app.seccomp",
            "Whether a filter looks at each system call of the program.",
            "It runs at each call, before anything else.",
            ReadFrom::Elsewhere {
                why: "it belongs to one program, which has to be named",
                look: "Seccomp in /proc/PID/status",
            },
        )
        .switch()
        .risk(&[Risk::Security])
        .persist(&[Persist::ApplicationStart])
        .docs(&["Documentation/userspace-api/seccomp_filter.rst"]),
];

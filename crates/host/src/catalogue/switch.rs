//! The switch between two hosts. The host sees it only by its effects.

use super::base;
use crate::{ReadFrom, Setting};

const SWITCH: Setting = base::switch();

const fn shown_by(look: &'static str) -> ReadFrom {
    ReadFrom::Elsewhere { why: "it is a matter of the switch", look }
}

pub(super) const SETTINGS: &[Setting] = &[
    SWITCH
        .row(
            "switch.flow-control",
            "Whether the port of the switch sends and obeys pause frames.",
            "Pause frames prevent loss and stop everybody behind the port.",
            shown_by("show interface flowcontrol on the switch, and nic.pause for what was agreed"),
        )
        .switch(),
    SWITCH
        .row(
            "switch.no-drop",
            "Whether a class of traffic is never dropped.",
            "The class is paused instead, so that its delay has no bound.",
            shown_by("show policy-map type network-qos on the switch, or the PFC entry of LLDP"),
        )
        .switch(),
    SWITCH.row(
        "switch.class",
        "Which marks of a frame choose its class.",
        "Frames in the wrong class wait behind bulk data.",
        shown_by("show policy-map type qos on the switch, or the application table of DCB"),
    ),
    SWITCH
        .row(
            "switch.mtu",
            "The largest frame the switch passes, bytes.",
            "A larger frame of a host is dropped without a word.",
            shown_by("show queuing on the switch, or a ping that must not be cut"),
        )
        .number("bytes"),
    SWITCH
        .row(
            "switch.warp-mode",
            "Whether the switch looks up addresses in its small fast table.",
            "It saves time for each frame and has room for fewer addresses.",
            shown_by("show hardware profile forwarding-mode on the switch"),
        )
        .switch(),
    SWITCH
        .row(
            "switch.cut-through",
            "Whether the switch sends a frame on before it has all of it.",
            "A switch that stores frames adds the time of the whole frame at each hop.",
            shown_by("the switch's data sheet, or the step of the round trip by frame length"),
        )
        .switch(),
];

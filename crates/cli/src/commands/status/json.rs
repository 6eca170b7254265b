//! Processes as JSON.

use nearwire_socket::reason::{Handed, Reason};
use nearwire_socket::status::{ConnectionStatus, InterfaceStatus, Process, SocketStatus};
use serde_json::{Map, Value, json};

/// The version of this format; it grows when a key changes its meaning.
const FORMAT: u32 = 1;

pub fn list(found: &[Process], unreadable: usize, agent: Value) -> String {
    let processes: Vec<Value> = found.iter().map(process).collect();
    let list = json!({"format": FORMAT, "processes": processes, "not_looked_at": unreadable, "agent": agent});
    format!("{list:#}\n")
}

pub fn page(found: &Process) -> String {
    let mut page = process(found);
    page["format"] = FORMAT.into();
    format!("{page:#}\n")
}

fn process(process: &Process) -> Value {
    let status = &process.status;
    let name = |handed: &Handed| match handed {
        Handed::ByStack(reason) => format!("{reason:?}"),
        Handed::ByLibrary(call) => call.name().to_owned(),
    };
    let handed = status.handed.iter();
    let handed =
        handed.map(|(handed, count)| json!({"reason": name(handed), "words": handed.to_string(), "calls": count}));
    json!({
        "pid": process.pid,
        "program": process.name,
        "library_version": status.library_version,
        "running_s": process.age.as_secs_f64(),
        "cpu_s": process.cpu.as_secs_f64(),
        "cpu_share": process.cpu_share(),
        "spin": status.spin.to_string(),
        "waiting": status.waiting.map(|waiting| waiting.words()),
        "spin_share": process.spin_share(),
        "strict": status.is_strict,
        "config": status.config,
        "engine": {
            "state": status.engine.map(|state| state.name()),
            "reason": status.engine_reason.map(Reason::name),
            "words": status.engine_in_words(),
            "count": status.engines,
        },
        "interfaces": status.interfaces.iter().map(interface).collect::<Vec<_>>(),
        "counters": counters(status.counters.iter().map(|(counter, count)| (counter.words(), *count))),
        "handed_to_kernel": handed.collect::<Vec<_>>(),
        "sockets": status.sockets.iter().map(socket).collect::<Vec<_>>(),
        "packet_filters": process.filters.found.iter().map(|filter| json!({"kind": filter.kind(), "words": filter.to_string()})).collect::<Vec<_>>(),
        "packet_filters_not_known": process.filters.unknown,
        "vlan_tags_hidden": process.hidden_tags.iter().filter_map(|hidden| Some(json!({"interface": hidden.interface, "words": hidden.caution()?}))).collect::<Vec<_>>(),
        "incomplete": status.is_torn,
    })
}

fn interface(interface: &InterfaceStatus) -> Value {
    json!({
        "name": interface.name,
        "ifindex": interface.ifindex,
        "used": interface.reason.is_none(),
        "reason": interface.reason.map(Reason::name),
        "why": interface.reason.map(Reason::words),
        "queues": interface.queues,
        "mode": interface.mode,
        "words": interface.text,
    })
}

fn socket(socket: &SocketStatus) -> Value {
    json!({
        "fd": socket.fd,
        "accelerated": socket.is_accelerated,
        "reason": socket.reason.filter(|_| !socket.is_accelerated).map(Reason::name),
        "why": (!socket.is_accelerated).then(|| socket.why()),
        "local": socket.local.map(|address| address.to_string()),
        "remote": socket.remote.map(|address| address.to_string()),
        "ifindex": socket.ifindex,
        "engine": socket.is_accelerated.then_some(socket.engine),
        "transport": if socket.connection.is_some() { "tcp" } else { "udp" },
        "connection": socket.connection.map(connection),
        "counters": counters(socket.counters.iter().map(|(counter, count)| (counter.words(), *count))),
    })
}

fn connection(connection: ConnectionStatus) -> Value {
    json!({
        // CLOCK_MONOTONIC.
        "since_ns": connection.since_ns,
        "adopted": connection.adopted,
        "released": connection.released,
        "round_trip_ns": Some(connection.round_trip_ns).filter(|ns| *ns > 0),
        "retransmitted_segments": connection.retransmitted_segments,
    })
}

/// Counters by name, with underscores for spaces.
fn counters(counted: impl Iterator<Item = (&'static str, u64)>) -> Value {
    counted.map(|(words, count)| (words.replace(' ', "_"), Value::from(count))).collect::<Map<_, _>>().into()
}

//! Lines of `tmpfiles.d(5)`, which write files at boot.

use super::form::Form;
use crate::CpuSet;

/// The `w` lines of a form; `directory` is that of an interface, empty for the host.
pub(super) fn tmpfiles_lines(form: &Form, directory: &str) -> String {
    let line = |path: &str, value: &str| format!("w {path} - - - - {value}\n");
    match form {
        Form::Files(files) => files.iter().map(|(path, value)| line(path, value)).collect(),
        Form::Cpu(file, cpus, value) => cpu_names(cpus.as_ref())
            .iter()
            .map(|cpu| line(&format!("/sys/devices/system/cpu/{cpu}/{file}"), value))
            .collect(),
        Form::NicFile(file, value) => line(&format!("{directory}/{file}"), value),
        Form::NicQueues(direction, file, value) => line(&format!("{directory}/queues/{direction}-*/{file}"), value),
        _ => String::new(),
    }
}

/// `cpu2`, `cpu3`, or one pattern for all.
pub(super) fn cpu_names(cpus: Option<&CpuSet>) -> Vec<String> {
    cpus.map_or_else(|| vec!["cpu[0-9]*".to_owned()], |cpus| cpus.iter().map(|cpu| format!("cpu{cpu}")).collect())
}

//! `nearwire plan`: what each CPU, queue and memory node is used for.

use anyhow::Context;
use nearwire_host::Root;
use nearwire_host::plan::{HostFacts, Plan, PlanError, Request};
use nearwire_host::topology::Topology;

use super::host_root;
use crate::args::plan::PlanArgs;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

pub fn run(args: &PlanArgs) -> Outcome {
    let root = host_root::open(&args.root)?;
    let plan = match &args.from {
        Some(path) => {
            let plan = Plan::load(path).or_exit(exit::USAGE)?;
            plan.fits(&Topology::read(&root)).or_exit(exit::USAGE)?;
            plan
        }
        None => make(&root, args).map_err(failure)?,
    };
    if let Some(path) = &args.svg {
        let written = std::fs::write(path, plan.to_svg());
        written.with_context(|| format!("write the picture {}", path.display())).or_exit(exit::FAILED)?;
    }
    output::print_of_host(&if args.json { plan.to_json() } else { plan.to_text() })
}

fn make(root: &Root, args: &PlanArgs) -> Result<Plan, PlanError> {
    // A name that is given twice counts once.
    let mut nics: Vec<String> = Vec::new();
    for name in &args.nic {
        if !nics.contains(name) {
            nics.push(name.clone());
        }
    }
    let request = Request {
        nics,
        app_cpus: args.app_cpus,
        irq_cpus: args.irq_cpus,
        poller_cpus: args.poller_cpus,
        os_cpus: args.os_cpus,
        node: args.node,
        guests: args.guest.clone(),
        is_smt_off: args.smt_off,
    };
    Plan::make(&HostFacts::read(root, &request.nics)?, &request)
}

fn failure(error: PlanError) -> Failure {
    let code = if error.is_request() { exit::USAGE } else { exit::CANNOT };
    Failure { code, error: Some(error.into()) }
}

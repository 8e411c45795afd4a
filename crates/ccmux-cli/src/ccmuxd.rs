//! `ccmux setup`, `doctor`, `install`, `uninstall` and `manual`: this client becomes the `ccmuxd` beside it, so that they work
//! without a daemon.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use ccmux_wire::paths::InstanceName;

use crate::failure::Failure;

pub fn run(verb: &str, instance: Option<&InstanceName>, further: Vec<String>) -> Result<(), Failure> {
    let own = env::current_exe()
        .map_err(|error| Failure::Failed(format!("can't tell where this program is: {error}")))?;
    let ccmuxd = own.with_file_name("ccmuxd");
    if !ccmuxd.is_file() {
        let missing = format!("{} is missing: install ccmuxd beside ccmux", ccmuxd.display());
        return Err(Failure::Failed(missing));
    }
    let error = command(&ccmuxd, verb, instance, &further).exec();
    Err(Failure::Failed(format!("can't run {}: {error}", ccmuxd.display())))
}

fn command(ccmuxd: &Path, verb: &str, instance: Option<&InstanceName>, further: &[String]) -> Command {
    let mut command = Command::new(ccmuxd);
    command.arg(verb);
    if let Some(instance) = instance {
        command.args(["-i", instance.as_str()]);
    }
    command.args(further);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_and_further_arguments_are_handed_on() {
        let instance = "work".parse().unwrap();
        let further = ["--set".to_owned(), "agent.cwd=/x".to_owned()];
        let command = command(Path::new("/b/ccmuxd"), "setup", Some(&instance), &further);
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["setup", "-i", "work", "--set", "agent.cwd=/x"]);
    }
}

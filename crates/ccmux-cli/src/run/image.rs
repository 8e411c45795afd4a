//! The image of our own: made at the first run from the Containerfile that stands in this program.
//!
//! Its name tells the file's content, so that another version of ccmux makes its own when the file has changed.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::engine::missing;
use super::files::private;
use super::plan::Plan;
use crate::failure::Failure;

const CONTAINERFILE: &str = include_str!("../../../../config/container/Containerfile");

/// What it is called.
pub fn name() -> String {
    let digest = Sha256::digest(CONTAINERFILE);
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("localhost/ccmux-agent:{short}")
}

/// Builds it if it is not there. What the engine says goes to stderr as it is.
pub fn ensure(plan: &Plan) -> Result<(), Failure> {
    let engine = plan.engine.program();
    let mut inspect = Command::new(engine);
    inspect.args(["image", "inspect", &plan.image]).stdin(Stdio::null());
    let found = inspect.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.map_err(|error| missing(plan.engine, &error))?.success() {
        return Ok(());
    }
    eprintln!("ccmux: the image {} is made, once: this takes some minutes", plan.image);
    let context = plan.place.join("image");
    let file = context.join("Containerfile");
    let written =
        private(&plan.place).and_then(|()| private(&context)).and_then(|()| fs::write(&file, CONTAINERFILE));
    written.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    let mut build = Command::new(engine);
    build.arg("build").args(["--tag", &plan.image, "--file"]).arg(&file).arg(&context);
    build.stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
    let built = build.status().map_err(|error| missing(plan.engine, &error))?;
    if built.success() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{engine} could not make the image ({built}; its words are above): is the network there, and room on the disk? \
         An image of your own is taken with --image"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_runs_as_nobody_special_and_what_changes_least_comes_first() {
        let lines: Vec<&str> = CONTAINERFILE.lines().filter(|line| !line.starts_with('#')).collect();
        let at = |what: &str| lines.iter().position(|line| line.starts_with(what)).unwrap();
        assert!(
            at("FROM") < at("RUN apt-get") && at("RUN apt-get") < at("RUN npm") && at("RUN npm") < at("USER")
        );
        assert!(lines[at("USER")] == "USER 1000:1000");
        assert!(name().starts_with("localhost/ccmux-agent:"));
    }
}

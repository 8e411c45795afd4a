//! Links the hook statically where that works: finding shared libraries would be a third of what a hook costs.
//!
//! ```text
//! glibc, built for itself ─► a trial program links and runs ─► the same arguments for the hook
//! anything else, or no libc.a ────────────────────────────────► as ever: nothing is said, and the hook works
//! ```
//!
//! `-C target-feature=+crt-static` says the same, but only a whole build can be given it, and the others look names up in
//! the network, which needs glibc's shared parts. rustc asks for shared libraries, so a folder in front of the system's
//! has the static ones under their names. Knows nothing of the hook (docs/adr/0035).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// What rustc asks for (the rest is in glibc's libc.a since 2.34, or an empty archive), and what is given.
const LIBRARIES: [(&str, &[&str]); 6] = [
    ("libc.so", &["libc.a"]),
    ("libgcc_s.so", &["libgcc_eh.a", "libgcc.a", "libc.a"]),
    ("libm.so", &["libm.a"]),
    ("libdl.so", &["libdl.a"]),
    ("librt.so", &["librt.a"]),
    ("libpthread.so", &["libpthread.a"]),
];
/// Asks for what std asks for, and for an unwinding that works.
const TRIAL: &str = "fn main() { assert!(std::panic::catch_unwind(|| panic!()).is_err()); }";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arguments = is_for_itself().then(static_arguments).flatten();
    println!("cargo::rustc-env=CCMUX_HOOK_IS_STATIC={}", arguments.is_some());
    for argument in arguments.iter().flatten() {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// Not musl or macOS, not for another machine (the trial could not run), and not static anyway.
fn is_for_itself() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_static = env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|all| all.contains("crt-static"));
    let is_native = env::var_os("HOST") == env::var_os("TARGET");
    is_native && !is_static && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu")
}

fn static_arguments() -> Option<[String; 2]> {
    let folder = PathBuf::from(env::var_os("OUT_DIR")?);
    for (shared, archives) in LIBRARIES {
        let found = archives.iter().map(|archive| place_of(archive)).collect::<Option<Vec<_>>>()?;
        fs::write(folder.join(shared), format!("INPUT({})\n", found.join(" "))).ok()?;
    }
    let arguments = ["-static-pie".to_owned(), format!("-L{}", folder.display())];
    works(&folder, &arguments).then_some(arguments)
}

/// The C compiler, by which rustc links, prints the bare name of what it does not find.
fn place_of(archive: &str) -> Option<String> {
    let mut cc = Command::new(env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into()));
    let output = cc.arg(format!("-print-file-name={archive}")).stderr(Stdio::null()).output().ok()?;
    let place = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&place).is_absolute().then(|| format!("\"{place}\""))
}

/// By the same compiler, linker and flags as the hook.
fn works(folder: &Path, arguments: &[String]) -> bool {
    let (source, program) = (folder.join("trial.rs"), folder.join("trial"));
    let Some(rustc) = env::var_os("RUSTC").filter(|_| fs::write(&source, TRIAL).is_ok()) else {
        return false;
    };
    let mut trial = Command::new(rustc);
    let linker = env::var("RUSTC_LINKER").map(|linker| format!("-Clinker={linker}"));
    trial.args(linker).arg(&source).arg("-o").arg(&program);
    trial.args(arguments.iter().map(|argument| format!("-Clink-arg={argument}")));
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    trial.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    ended_well(&mut trial) && ended_well(&mut Command::new(program))
}

fn ended_well(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

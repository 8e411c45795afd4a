//! Whether this user may make user namespaces: the sandbox of the units needs one.
//!
//! ```text
//! measure ─► ccmuxd try-namespaces ─► enters one, maps itself, ends ─► its exit code
//!        └─► /proc/sys says why not
//! ```
//!
//! It is tried, not concluded: sysctls, AppArmor, seccomp and containers forbid it, each in its own way. In a process of its
//! own, which looks to the system like the daemon does: other programs, `unshare` among them, may have a licence of their own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

/// The hidden command of `ccmuxd` that tries.
pub const TRY: &str = "try-namespaces";

/// Its exit code where it is forbidden. Any other but 0 tells nothing.
pub const FORBIDDEN: u8 = 1;

/// What forbids it on its own, and at which value.
const SWITCHES: [(&str, &str); 3] = [
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ("kernel.unprivileged_userns_clone", "0"),
    ("user.max_user_namespaces", "0"),
];

/// Why they are forbidden; `None` where they are not, or nobody can tell.
pub fn forbidden(ccmuxd: &Path, proc: &Path) -> Option<String> {
    let mut command = Command::new(ccmuxd);
    command.arg(TRY).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let code = command.status().ok()?.code()?;
    (code == i32::from(FORBIDDEN)).then(|| why(proc))
}

fn why(proc: &Path) -> String {
    let value = |name: &str| fs::read_to_string(proc.join("sys").join(name.replace('.', "/"))).ok();
    let is_on = |(name, bad): &(&str, &str)| value(name).is_some_and(|value| value.trim() == *bad);
    let reason = SWITCHES.iter().find(|switch| is_on(switch));
    let reason = reason.map(|(name, value)| format!(" ({name} = {value})"));
    format!("this system allows no user namespaces{}", reason.unwrap_or_default())
}

/// Puts the calling process, which must have one thread, into a user namespace as its owner.
///
/// # Errors
/// If that is forbidden. Some systems let anyone in, and forbid to be somebody there.
#[cfg(target_os = "linux")]
pub fn enter() -> io::Result<()> {
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::{getegid, geteuid};
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// There are none.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn enter() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_that_forbids_them_is_named() {
        let proc = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| {
            let path = proc.path().join("sys").join(name.replace('.', "/"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        };
        set("user.max_user_namespaces", "15000\n");
        assert_eq!(why(proc.path()), "this system allows no user namespaces");
        set("kernel.apparmor_restrict_unprivileged_userns", "1\n");
        let switch = "(kernel.apparmor_restrict_unprivileged_userns = 1)";
        assert_eq!(why(proc.path()), format!("this system allows no user namespaces {switch}"));
    }

    #[test]
    fn only_a_try_that_failed_means_forbidden() {
        let proc = Path::new("/nonexistent");
        assert!(forbidden(Path::new("/bin/false"), proc).is_some());
        assert_eq!(forbidden(Path::new("/bin/true"), proc), None);
        assert_eq!(forbidden(Path::new("/nonexistent"), proc), None, "nobody can tell");
    }
}

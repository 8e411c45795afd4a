//! Which file the name of a program stands for, as a shell would find it.
//!
//! ```text
//! claude, PATH=/a::/b ─► /a/claude if we may execute it, else /b/claude; an empty entry is no directory to us
//! ./claude            ─► that file
//! ```
//!
//! It starts nothing, and knows no environment: whoever asks says which PATH.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// A name with a slash is a path; others are looked for in PATH.
pub fn find(program: &str, path: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| is_executable(file));
    }
    places(program, path).find(|file| is_executable(file))
}

/// Where PATH has a bare name, whatever directory we are in.
pub fn find_absolute(program: &str, path: &str) -> Option<PathBuf> {
    places(program, path).find(|file| file.is_absolute() && is_executable(file))
}

fn places<'a>(program: &'a str, path: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    path.split(':').filter(|folder| !folder.is_empty()).map(move |folder| Path::new(folder).join(program))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_file_in_path_that_can_be_executed_is_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name).join("tool");
        for (name, mode) in [("plain", 0o644), ("first", 0o755), ("second", 0o755)] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(place(name), "").unwrap();
            fs::set_permissions(place(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(dir.path().join("folder/tool")).unwrap();
        let path =
            ["folder", "plain", "first", "second"].map(|name| dir.path().join(name).display().to_string());
        let path = format!(".::{}", path.join(":"));
        assert_eq!(find("tool", &path), Some(place("first")));
        assert_eq!(find_absolute("tool", &path), Some(place("first")));
        assert_eq!(find("of-nobody", &path), None);
        assert_eq!(find("tool", ""), None);
        let with_slash = |name: &str| find(&place(name).display().to_string(), "");
        assert_eq!((with_slash("second"), with_slash("plain")), (Some(place("second")), None));
    }
}

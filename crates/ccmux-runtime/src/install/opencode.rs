//! The plugin for OpenCode: one file in its folder, with the place of this daemon filled in.
//!
//! ```text
//! $XDG_CONFIG_HOME/opencode/plugin/ccmux.js, ~/.config/opencode/plugin/ccmux.js
//! ```
//!
//! It touches none of OpenCode's settings, and does not know what the plugin does.

use std::path::{Path, PathBuf};

use super::edits::{Ours, Wanted};
use super::places::backups;
use super::units::variable;
use super::{Installation, Part, Target};
use crate::daemon::Setting;
use crate::settings::expand;

/// The plugin, for a daemon in the default directory.
pub const PLUGIN: &str = include_str!("../../../../config/opencode/ccmux.js");
const INSTALLED: &str = "const INSTALLED = null\n";

/// What goes in, or comes out.
pub fn plugin(setting: &Setting) -> Installation {
    let runtime_dir = expand(&setting.settings.runtime_dir, &setting.home);
    let path = folder(setting).join("plugin/ccmux.js");
    Installation {
        targets: vec![Target { path, part: Part::Whole(plugin_text(&runtime_dir)) }],
        ours: Ours { hook: PathBuf::new() },
        wanted: Wanted { settings: serde_json::Value::Null, server: None },
        backups: backups(setting),
    }
}

/// Where OpenCode looks for what is the user's.
fn folder(setting: &Setting) -> PathBuf {
    let config = Some(variable(setting, "XDG_CONFIG_HOME")).filter(|config| !config.is_empty());
    config.map_or_else(|| setting.home.join(".config"), PathBuf::from).join("opencode")
}

fn plugin_text(runtime_dir: &Path) -> String {
    // As JSON, which JavaScript reads as its own; a path is no secret.
    let path = serde_json::Value::from(runtime_dir.to_string_lossy());
    PLUGIN.replacen(INSTALLED, &format!("const INSTALLED = {path}\n"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_knows_its_daemon_and_has_no_timers() {
        let text = plugin_text(Path::new("/r \"1\"/ccmux"));
        assert!(text.contains("const INSTALLED = \"/r \\\"1\\\"/ccmux\"\n"), "{text}");
        assert!(PLUGIN.contains(INSTALLED));
        for word in ["setTimeout", "setInterval", "console.", "process.stdout", "process.stderr", "fetch("] {
            assert!(!PLUGIN.contains(word), "{word}");
        }
    }
}

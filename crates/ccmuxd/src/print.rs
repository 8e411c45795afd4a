//! `--print-config` and `--print-default-config`.

use std::io::{self, Write};
use std::process::ExitCode;

use ccmux_runtime::settings::Loaded;
use ccmux_runtime::settings::keys::{KEYS, default_file as text_of_defaults, value_at};

/// Every value with its origin.
pub fn settings(loaded: &Loaded) -> ExitCode {
    let values = serde_json::to_value(&loaded.settings).unwrap_or_default();
    let lines = KEYS.iter().map(|key| {
        let origin = loaded.origins.get(key.path).map_or("default", String::as_str);
        format!("{} = {}  # {origin}\n", key.path, value_at(&values, key.path))
    });
    write(&lines.chain(channels(loaded)).collect::<String>())
}

fn channels(loaded: &Loaded) -> impl Iterator<Item = String> {
    loaded.settings.channels.iter().flat_map(move |(name, policy)| {
        let values = serde_json::to_value(policy).unwrap_or_default();
        let fields = values.as_object().cloned().unwrap_or_default();
        fields.into_iter().map(move |(key, value)| {
            let key = format!("channels.{name}.{key}");
            let origin = loaded.origins.get(&key).map_or("default", String::as_str);
            format!("{key} = {value}  # {origin}\n")
        })
    })
}

/// config/ccmux.toml.
pub fn default_file() -> ExitCode {
    write(&text_of_defaults())
}

/// A reader that goes away (`| head`) is no failure.
fn write(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

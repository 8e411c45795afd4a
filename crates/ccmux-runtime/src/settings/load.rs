//! Reads and layers the sources of settings, and names what is wrong in them.
//!
//! What a value may be is not known here, but for its type: [`Settings::check`] says the rest.

#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ccmux_wire::channel::ChannelName;
use ccmux_wire::paths::InstanceName;
use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};
use serde_json::Value;

use super::Settings;
use super::channels::CHANNEL_KEYS;
use super::keys::{KEYS, Key, value_at};
use crate::plain_file::read_text;

/// Far more than any settings need.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The reminder's variables had another name once.
const NOTIFICATION: &str = "CCMUX_NOTIFICATION_";
const OLDER_NOTIFICATION: &str = "CLAUDE_NOTIFICATION_";
/// Names a settings file.
const CONFIG: &str = "CCMUX_CONFIG";

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Which instance.
    pub instance: Option<InstanceName>,
    /// `--config FILE`, or `CCMUX_CONFIG`: must exist.
    pub file: Option<PathBuf>,
    /// The process's variables.
    pub environment: BTreeMap<String, String>,
    /// `--set KEY=VALUE`.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// Names of what says something here and stands in no file: variables, options. Never what they say.
    pub fn of_the_shell(&self) -> Vec<String> {
        let given = |name: &String| self.environment.get(name).is_some_and(|text| !text.is_empty());
        let counted = KEYS.iter().filter(|key| !is_the_instances(key, self)).filter_map(|key| key.variable);
        let older =
            |name: &str| name.strip_prefix(NOTIFICATION).map(|rest| format!("{OLDER_NOTIFICATION}{rest}"));
        let names = counted.flat_map(|name| [Some(name.to_owned()), older(name)]).flatten();
        let mut found: Vec<String> = names.chain([CONFIG.to_owned()]).filter(given).collect();
        let named_file = self.file.as_ref().and_then(|file| file.to_str());
        if named_file.is_some() && named_file != self.environment.get(CONFIG).map(String::as_str) {
            found.push("--config".to_owned());
        }
        found.extend(self.flags.iter().map(|(key, _)| format!("--set {key}")));
        found
    }

    /// The file that is read where none is named.
    pub fn usual_file(&self) -> Option<PathBuf> {
        user_file(&self.environment, self.instance.as_ref().map_or("ccmux", |name| name.as_str()))
    }
}

/// Settings, and where each came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub settings: Settings,
    /// Key → origin, e.g. `default`, a file's path, a variable's name; those of channels as `channels.NAME.KEY`.
    pub origins: BTreeMap<String, String>,
    /// What looks wrong without being an error.
    pub warnings: Vec<String>,
}

/// Why settings can't be used. Exit code 78.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A file that was named is not there or can't be read.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: String,
        /// What the system or the parser said.
        why: String,
    },
    /// A key that does not exist.
    #[error("{origin}: there is no setting `{key}`{}", nearest_hint(.nearest))]
    UnknownKey {
        /// In which file or flag.
        origin: String,
        /// The key as written.
        key: String,
        /// The nearest one that exists.
        nearest: Option<&'static str>,
    },
    /// A value of the wrong type.
    #[error("{origin}: `{key}`: {why}")]
    Type {
        /// In which file, variable or flag.
        origin: String,
        /// The key.
        key: String,
        /// What was found and expected.
        why: String,
    },
    /// A value that can't be used.
    #[error("`{key}`: {why}")]
    Value {
        /// The key.
        key: String,
        /// The remedy.
        why: String,
    },
    /// Variables that are needed.
    #[error("HOME is not set: set it")]
    NoHome,
}

fn nearest_hint(nearest: &Option<&'static str>) -> String {
    nearest.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}

/// Loads the settings.
///
/// # Errors
/// Whatever is wrong first, named.
pub fn load(sources: &Sources) -> Result<Loaded, SettingsError> {
    let defaults = Settings::defaults(sources.instance.as_ref());
    let mut figment = Figment::from(Named { name: "default".into(), values: table_of(&defaults) });
    for path in files(sources)? {
        figment = figment.merge(file_layer(&path)?);
    }
    for key in KEYS.iter().filter(|key| !is_the_instances(key, sources)) {
        if let Some(layer) = variable_layer(key, &defaults, &sources.environment)? {
            figment = figment.merge(layer);
        }
    }
    for (key, text) in &sources.flags {
        figment = figment.merge(flag_layer(key, text, &defaults)?);
    }
    let settings: Settings = figment.extract().map_err(|error| type_error(&error))?;
    settings.check().map_err(|error| with_origin(error, &figment))?;
    let keys = KEYS.iter().map(|key| key.path.to_owned()).chain(channel_keys(&settings));
    let origins = keys.map(|key| (key.clone(), origin(&figment, &key))).collect();
    let warnings = near_misses(&sources.environment).into_iter().chain(not_for_instances(sources)).collect();
    Ok(Loaded { settings, origins, warnings })
}

/// Every key of every channel that has a table.
fn channel_keys(settings: &Settings) -> impl Iterator<Item = String> {
    let of = |name| move |key: &Key| key.path.replacen("NAME", name, 1);
    settings.channels.keys().flat_map(move |name| CHANNEL_KEYS.iter().map(of(name.as_str())))
}

/// What makes an instance one of its own.
const PLACES: [&str; 4] = ["runtime_dir", "state_dir", "tmux_session", "log.file"];

/// The name on the command line says where things are, not a variable that holds for every daemon: in an agent's shell
/// it names the directories of the daemon that started the agent.
fn is_the_instances(key: &Key, sources: &Sources) -> bool {
    sources.instance.is_some() && PLACES.contains(&key.path)
}

fn not_for_instances(sources: &Sources) -> impl Iterator<Item = String> {
    let ignored = KEYS.iter().filter(|key| is_the_instances(key, sources));
    let ignored = ignored.filter_map(|key| Some((key.variable?, key.path)));
    ignored.filter(|(variable, _)| sources.environment.get(*variable).is_some_and(|text| !text.is_empty())).map(
        |(variable, path)| {
            format!("the variable {variable} is ignored for an instance; use --set {path}=..., or its settings file")
        },
    )
}

/// The files that exist, in order; one that was named must exist.
fn files(sources: &Sources) -> Result<Vec<PathBuf>, SettingsError> {
    let name = sources.instance.as_ref().map_or("ccmux", |name| name.as_str());
    let mut files = vec![PathBuf::from(format!("/etc/ccmux/{name}.toml"))];
    match &sources.file {
        Some(file) if file.is_file() => files.push(file.clone()),
        Some(file) => {
            let why = "there is no such settings file".to_owned();
            return Err(SettingsError::File { path: file.display().to_string(), why });
        }
        None => files.extend(user_file(&sources.environment, name)),
    }
    files.retain(|file| !is_absent(file));
    Ok(files)
}

/// Nothing is there, or it is masked. What can't be looked at is there, and no setting of the user is passed over in silence.
fn is_absent(file: &Path) -> bool {
    let is_masked = file.canonicalize().is_ok_and(|real| real == Path::new("/dev/null"));
    is_masked
        || file
            .metadata()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

fn user_file(environment: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    let variable = |name: &str| environment.get(name).map(PathBuf::from);
    Some(config_folder(variable("XDG_CONFIG_HOME"), variable("HOME"))?.join(format!("{name}.toml")))
}

/// `~/.config/ccmux`: the user's settings and screen rules.
pub fn config_folder(xdg_config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let config = xdg_config_home.filter(|folder| folder.is_absolute());
    Some(config.or_else(|| Some(home?.join(".config")))?.join("ccmux"))
}

fn file_layer(path: &Path) -> Result<Named, SettingsError> {
    let file_error = |why: String| SettingsError::File { path: path.display().to_string(), why };
    let text = read_text(path, MAX_FILE_BYTES).map_err(|error| file_error(error.to_string()))?;
    let values: Dict =
        Toml::from_str(&text).map_err(|error: toml_error| file_error(where_and_why(&error.to_string())))?;
    let origin = path.display().to_string();
    let json = serde_json::to_value(&values).unwrap_or_default();
    check_keys("", &json, &origin)?;
    Ok(Named { name: origin, values })
}

#[allow(non_camel_case_types)] // the parser's error has no name of its own in figment
type toml_error = <Toml as Format>::Error;

/// Without the line that it shows: a secret may stand there.
fn where_and_why(error: &str) -> String {
    let is_shown =
        |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    let lines = error.lines().filter(|line| !is_shown(line)).map(str::trim);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(": ")
}

/// Every key of a file must exist; `agent.env` holds names of its own.
fn check_keys(prefix: &str, value: &Value, origin: &str) -> Result<(), SettingsError> {
    let Value::Object(fields) = value else {
        return Ok(());
    };
    for (name, inner) in fields {
        if prefix.is_empty() && name == "channels" {
            check_channels(inner, origin)?;
            continue;
        }
        // A route's keys depend on its type, which its own reader knows; a server's reader knows its own.
        if prefix.is_empty() && (name == "routes" || name == "opencode") {
            continue;
        }
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let is_key = KEYS.iter().any(|key| key.path == path);
        let is_table = KEYS.iter().any(|key| key.path.starts_with(&format!("{path}.")));
        if !is_key && !is_table {
            let nearest = nearest_key(&path);
            return Err(SettingsError::UnknownKey { origin: origin.to_owned(), key: path, nearest });
        }
        if is_table {
            check_keys(&path, inner, origin)?;
        }
    }
    Ok(())
}

/// The names are the user's, the keys beneath them are not.
fn check_channels(value: &Value, origin: &str) -> Result<(), SettingsError> {
    for (name, policy) in value.as_object().into_iter().flatten() {
        if let Err(why) = name.parse::<ChannelName>() {
            let key = format!("channels.{name:?}");
            return Err(SettingsError::Type { origin: origin.to_owned(), key, why: why.to_string() });
        }
        for key in policy.as_object().into_iter().flat_map(|policy| policy.keys()) {
            let path = format!("channels.NAME.{key}");
            if !CHANNEL_KEYS.iter().any(|known| known.path == path) {
                let (key, nearest) = (format!("channels.{name}.{key}"), nearest_of(CHANNEL_KEYS, &path));
                return Err(SettingsError::UnknownKey { origin: origin.to_owned(), key, nearest });
            }
        }
    }
    Ok(())
}

fn nearest_key(path: &str) -> Option<&'static str> {
    nearest_of(KEYS, path)
}

fn nearest_of(keys: &[Key], path: &str) -> Option<&'static str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    keys.iter()
        .map(|key| {
            (
                strsim::jaro_winkler(key.path, path).max(strsim::jaro_winkler(&last(key.path), &last(path))),
                key.path,
            )
        })
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, path)| path)
}

fn variable_layer(
    key: &Key,
    defaults: &Settings,
    environment: &BTreeMap<String, String>,
) -> Result<Option<Named>, SettingsError> {
    let Some(variable) = key.variable else {
        return Ok(None);
    };
    let given = |name: &str| environment.get(name).filter(|text| !text.is_empty());
    let older = variable.strip_prefix(NOTIFICATION).map(|rest| format!("{OLDER_NOTIFICATION}{rest}"));
    match given(variable).or_else(|| given(&older?)) {
        None => Ok(None),
        Some(text) => text_layer(variable, key.path, text, defaults).map(Some),
    }
}

fn flag_layer(key: &str, text: &str, defaults: &Settings) -> Result<Named, SettingsError> {
    let origin = format!("--set {key}");
    if key.starts_with("channels.") {
        let why = "set it in a file: [channels.NAME]".to_owned();
        return Err(SettingsError::Type { origin, key: key.to_owned(), why });
    }
    if !KEYS.iter().any(|known| known.path == key) {
        return Err(SettingsError::UnknownKey { origin, key: key.to_owned(), nearest: nearest_key(key) });
    }
    text_layer(&origin, key, text, defaults)
}

/// A text from a variable or a flag, read as the type that the default has.
fn text_layer(origin: &str, key: &str, text: &str, defaults: &Settings) -> Result<Named, SettingsError> {
    let default = value_at(&serde_json::to_value(defaults).unwrap_or_default(), key);
    let value = match default {
        Value::Bool(_) => match text {
            "1" | "true" | "yes" | "on" => Ok(Value::Bool(true)),
            "0" | "false" | "no" | "off" => Ok(Value::Bool(false)),
            _ => Err("give true or false"),
        },
        Value::Number(number) if number.is_f64() => {
            text.parse::<f64>().map(Value::from).map_err(|_| "give a number of seconds")
        }
        Value::Number(_) => text.parse::<u64>().map(Value::from).map_err(|_| "give a whole number"),
        Value::Object(_) => Err("set it in a file"),
        _ => Ok(Value::from(text)),
    };
    let value = value.map_err(|why| SettingsError::Type {
        origin: origin.to_owned(),
        key: key.to_owned(),
        why: format!("{text:?} can't be used: {why}"),
    })?;
    let nested = key.rsplit('.').fold(value, |inner, name| serde_json::json!({ name: inner }));
    Ok(Named { name: origin.to_owned(), values: table_of(&nested) })
}

fn table_of(value: &impl serde::Serialize) -> Dict {
    let serialized = Serialized::defaults(value).data().ok();
    serialized.and_then(|mut profiles| profiles.remove(&Profile::Default)).unwrap_or_default()
}

/// Values under the name of their origin.
struct Named {
    name: String,
    values: Dict,
}

impl Provider for Named {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

fn origin(figment: &Figment, key: &str) -> String {
    figment.find_metadata(key).map_or_else(|| "default".to_owned(), |metadata| metadata.name.to_string())
}

fn type_error(error: &figment::Error) -> SettingsError {
    let origin =
        error.metadata.as_ref().map_or_else(|| "settings".to_owned(), |metadata| metadata.name.to_string());
    SettingsError::Type { origin, key: error.path.join("."), why: words::of(&error.kind) }
}

/// A value that can't be used, with the file, variable or flag that it stands in.
fn with_origin(error: SettingsError, figment: &Figment) -> SettingsError {
    match error {
        SettingsError::Value { key, why } => match origin(figment, &key) {
            origin if origin == "default" => SettingsError::Value { key, why },
            origin => SettingsError::Type { origin, key, why },
        },
        other => other,
    }
}

/// `CCMUX_` variables that are nearly one of ours: ignored, and said so.
fn near_misses(environment: &BTreeMap<String, String>) -> Vec<String> {
    let known: Vec<&str> = KEYS.iter().filter_map(|key| key.variable).chain([CONFIG]).collect();
    environment
        .keys()
        .filter(|name| name.starts_with("CCMUX_") && !known.contains(&name.as_str()))
        .filter_map(|name| {
            let near = known.iter().find(|known| strsim::damerau_levenshtein(known, name) <= 2)?;
            Some(format!("the variable {name} is ignored; did you mean {near}?"))
        })
        .collect()
}

//! The closed list of ways to a person.
//!
//! Which of them a notice takes, in which order, and how often it is tried is not known here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ccmux_wire::channel::ChannelName;

use super::Notice;
use super::desktop::focus::Focus;
use super::desktop::{self, DesktopError};
use super::post::{PostError, send};
use super::program::{ProgramError, run};
use super::services::Service;
use super::services::dingtalk::DingTalk;
use super::services::gotify::Gotify;
use super::services::lark::Lark;
use super::services::ntfy::Ntfy;
use super::sound::Sound;
use super::webhook::Webhook;
use crate::clock::unix_ms;
use crate::inbox::{AcceptError, Inbox, NewMessage};
use crate::outlet::{OutletError, Outlets};
use crate::settings::{RouteSettings, expand};

/// A way to a person.
#[derive(Debug, Clone)]
pub enum Route {
    /// A program gets the notice as one JSON line on stdin.
    Command(Vec<String>),
    /// An HTTP POST.
    Webhook(Webhook),
    /// A robot of DingTalk.
    DingTalk(DingTalk),
    /// A bot of Lark.
    Lark(Lark),
    /// A server of Gotify.
    Gotify(Gotify),
    /// A topic of ntfy.
    Ntfy(Ntfy),
    /// A bubble on the desktop.
    Desktop,
    /// A spoken word, or a file.
    Sound(Sound),
    /// An `out.` FIFO.
    Channel(String),
    /// Claude's inbox.
    Claude(ChannelName),
}

/// What some routes need of the daemon.
#[derive(Debug, Clone)]
pub struct Ways {
    /// `out.` FIFOs.
    pub outlets: Outlets,
    /// Messages to Claude.
    pub inbox: Inbox,
    /// Where sessions can be seen.
    pub focus: Focus,
}

#[cfg(test)]
impl Ways {
    /// Real ones, in the directory of a test that does not wait long for readers.
    pub fn in_folder(dir: &Path, shutdown: tokio_util::sync::CancellationToken) -> Self {
        use std::time::Duration;

        use tokio::sync::{mpsc, watch};

        use crate::inbox::{InboxSettings, Texts};
        use crate::outlet::OutletSettings;

        let settings = InboxSettings::default();
        let opened = Inbox::open(&dir.join("inbox.db"), settings, Texts::plain(), mpsc::channel(8).0);
        let patience = OutletSettings {
            wait: Duration::from_millis(200),
            linger: Duration::from_millis(50),
            finish: Duration::from_secs(1),
        };
        let outlets = Outlets::new(dir.to_owned(), patience, watch::channel(Vec::new()).1, shutdown);
        Self { outlets, inbox: opened.unwrap().inbox, focus: Focus::default() }
    }
}

/// Why a notice did not go that way. No text of it, and no secret, is in here.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The name is nobody's.
    #[error("there is no route {name:?} (known: {known}): add [routes.{name}] and start the daemon again")]
    Unknown {
        /// As given.
        name: String,
        /// Those there are.
        known: String,
    },
    /// It hangs.
    #[error("it was not done within {seconds} s")]
    Late {
        /// The limit.
        seconds: u64,
    },
    /// A sound took too long for another try.
    #[error("{program} was not done after {seconds} s, and was ended")]
    Unending {
        /// Which program.
        program: String,
        /// The limit.
        seconds: u64,
    },
    /// A program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The desktop.
    #[error(transparent)]
    Desktop(#[from] DesktopError),
    /// Nothing on this machine makes a sound.
    #[error("no program that makes sounds: install one of {0}")]
    NoSound(String),
    /// HTTP.
    #[error(transparent)]
    Post(#[from] Arc<PostError>),
    /// A FIFO.
    #[error(transparent)]
    Channel(#[from] OutletError),
    /// The inbox.
    #[error("the inbox does not take it: {0}")]
    Inbox(#[from] AcceptError),
}

impl RouteError {
    /// Another try may do better.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::NoSound(_) | Self::Unending { .. } => false,
            Self::Program(ProgramError::NotStarted { .. }) => false,
            Self::Post(error) => error.may_pass(),
            Self::Desktop(error) => error.may_pass(),
            Self::Late { .. } | Self::Program(_) | Self::Channel(_) | Self::Inbox(_) => true,
        }
    }

    /// The service takes no more for now: no try of it failed.
    pub fn is_pause(&self) -> bool {
        matches!(self, Self::Post(error) if matches!(**error, PostError::Limited { .. }))
    }
}

impl Route {
    /// The routes of the settings.
    pub fn all(settings: &BTreeMap<String, RouteSettings>, home: &Path) -> BTreeMap<String, Route> {
        settings.iter().filter_map(|(name, route)| Some((name.clone(), Self::of(route, home)?))).collect()
    }

    /// `None`: a name that the settings' check refused.
    fn of(settings: &RouteSettings, home: &Path) -> Option<Self> {
        let expanded = |path: &str| expand(path, home).display().to_string();
        Some(match settings {
            RouteSettings::Command { argv } => {
                let (program, arguments) = argv.split_first()?;
                Self::Command([vec![expanded(program)], arguments.to_vec()].concat())
            }
            RouteSettings::Webhook(hook) => Self::Webhook(Webhook::new(hook.clone(), home)),
            RouteSettings::DingTalk(robot) => Self::DingTalk(DingTalk::new(robot.clone(), home)),
            RouteSettings::Lark(bot) => Self::Lark(Lark::new(bot.clone(), home)),
            RouteSettings::Gotify(gotify) => Self::Gotify(Gotify::new(gotify.clone(), home)),
            RouteSettings::Ntfy(ntfy) => Self::Ntfy(Ntfy::new(ntfy.clone(), home)),
            RouteSettings::Desktop {} => Self::Desktop,
            RouteSettings::Sound(sound) => Self::Sound(Sound::new(sound, home)),
            RouteSettings::Channel { channel } => Self::Channel(channel.clone()),
            RouteSettings::Claude { channel } => Self::Claude(channel.parse().ok()?),
        })
    }

    /// The one that is posted to, if it is one.
    pub(super) fn service(&self) -> Option<&dyn Service> {
        match self {
            Self::Webhook(hook) => Some(hook),
            Self::DingTalk(robot) => Some(robot),
            Self::Lark(bot) => Some(bot),
            Self::Gotify(gotify) => Some(gotify),
            Self::Ntfy(ntfy) => Some(ntfy),
            Self::Command(_) | Self::Desktop | Self::Sound(_) | Self::Channel(_) | Self::Claude(_) => None,
        }
    }

    /// Posts it to its service, on a thread that ends with the try's time.
    pub(super) async fn post(&self, notice: &Notice) -> Result<(), PostError> {
        let (route, notice) = (self.clone(), notice.clone());
        let posted = tokio::task::spawn_blocking(move || match route.service() {
            Some(service) => service.judge(&send(&service.order(&notice, unix_ms().0)?)?),
            None => Ok(()),
        });
        posted.await.unwrap_or_else(|error| Err(PostError::Unreachable(error.to_string())))
    }

    /// It limits its time itself.
    pub(super) fn keeps_time(&self) -> bool {
        matches!(self, Self::Sound(_))
    }

    /// Tells it that way, once.
    pub(super) async fn tell(&self, notice: &Notice, ways: &Ways) -> Result<(), RouteError> {
        match self {
            Self::Command(argv) => Ok(run(argv, json_line(notice)).await?),
            Self::Webhook(_) | Self::DingTalk(_) | Self::Lark(_) | Self::Gotify(_) | Self::Ntfy(_) => {
                Ok(self.post(notice).await.map_err(Arc::new)?)
            }
            Self::Desktop => Ok(desktop::tell(notice, &ways.focus).await?),
            Self::Sound(sound) => sound.make(&notice.kind).await,
            Self::Channel(channel) => Ok(ways.outlets.send(channel, text(notice)).await?),
            Self::Claude(channel) => claude(channel, notice, &ways.inbox).await,
        }
    }
}

fn json_line(notice: &Notice) -> Vec<u8> {
    let mut line = serde_json::to_vec(notice).unwrap_or_default();
    line.push(b'\n');
    line
}

fn text(notice: &Notice) -> String {
    format!("{}\n{}", notice.title, notice.body)
}

async fn claude(channel: &ChannelName, notice: &Notice, inbox: &Inbox) -> Result<(), RouteError> {
    let message = NewMessage {
        channel: channel.clone(),
        shown: channel.to_string(),
        content: text(notice),
        id: None,
        meta: None,
        ts_ms: unix_ms().0,
    };
    inbox.accept(message).await?;
    Ok(())
}

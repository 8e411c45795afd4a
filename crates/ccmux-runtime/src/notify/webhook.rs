//! A webhook: the notice as JSON, in a form of the user's, or in that of a service.

use std::path::Path;

use super::Notice;
use super::pace::Limit;
use super::post::{Answer, Order, PostError};
use super::secret::Secrets;
use super::services::{Service, discord, slack, teams, telegram};
use super::template::{Escape, fill};
use crate::settings::routes::WebhookSettings;
use crate::settings::services::WebhookService;

/// Where, and in which form.
#[derive(Clone)]
pub struct Webhook {
    settings: WebhookSettings,
    secrets: Secrets,
}

/// The URL itself may be a secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhook")
    }
}

impl Webhook {
    /// From the settings.
    pub fn new(settings: WebhookSettings, home: &Path) -> Self {
        Self { settings, secrets: Secrets::new(home) }
    }

    fn content_type(&self) -> &str {
        self.settings.content_type.as_deref().unwrap_or("application/json")
    }

    fn body(&self, notice: &Notice) -> String {
        let escape = if self.content_type().contains("json") { Escape::Json } else { Escape::Nothing };
        match &self.settings.template {
            Some(form) => fill(form, notice, escape),
            None => serde_json::to_string(notice).unwrap_or_default(),
        }
    }

    fn plain(&self, url: String, notice: &Notice) -> Result<Order, PostError> {
        let token = self.secrets.read(&self.settings.token())?;
        let (content_type, body) = (self.content_type().to_owned(), self.body(notice));
        let order = Order { url, content_type, headers: Vec::new(), body };
        Ok(order.with("Authorization", token.map(|token| format!("Bearer {token}"))))
    }
}

impl Service for Webhook {
    fn limits(&self) -> &'static [Limit] {
        match self.settings.service {
            None => &[],
            Some(WebhookService::Slack) => slack::LIMITS,
            Some(WebhookService::Teams) => teams::LIMITS,
            Some(WebhookService::Discord) => discord::LIMITS,
            Some(WebhookService::Telegram) => telegram::LIMITS,
        }
    }

    fn order(&self, notice: &Notice, _now_ms: i64) -> Result<Order, PostError> {
        let url = self.secrets.url(&self.settings.url())?;
        Ok(match self.settings.service {
            None => self.plain(url, notice)?,
            Some(WebhookService::Slack) => Order::json(url, &slack::form(notice)),
            Some(WebhookService::Teams) => Order::json(url, &teams::form(notice)),
            Some(WebhookService::Discord) => Order::json(discord::waiting(&url), &discord::form(notice)),
            Some(WebhookService::Telegram) => {
                let chat = self.settings.chat.as_deref().unwrap_or_default();
                Order::json(url, &telegram::form(notice, chat))
            }
        })
    }

    fn judge(&self, answer: &Answer) -> Result<(), PostError> {
        match self.settings.service {
            None => answer.by_status(),
            Some(WebhookService::Slack) => slack::judge(answer),
            Some(WebhookService::Teams) => teams::judge(answer),
            Some(WebhookService::Discord) => discord::judge(answer),
            Some(WebhookService::Telegram) => telegram::judge(answer),
        }
    }
}

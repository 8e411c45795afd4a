//! When a version that was asked ahead of a start is taken, and when it is asked anew. The agent is a script that notes each question.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

/// An agent that notes each question, and the plan to start it.
struct Agent {
    folder: TempDir,
    plan: AgentPlan,
}

impl Agent {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let plan = AgentPlan {
            command: vec!["agent".to_owned()],
            environment: [("PATH".to_owned(), format!("{path}:/usr/bin:/bin"))].into(),
            cwd: folder.path().to_owned(),
            config_dir: folder.path().to_owned(),
            descriptors: None,
        };
        let agent = Self { folder, plan };
        agent.install(5);
        agent
    }

    /// As Claude Code updates itself: another file of the same name.
    fn install(&self, patch: u32) {
        let (new, program) = (self.path("new"), self.path("agent"));
        let script = format!(
            "#!/bin/sh\necho x >> {}\necho '2.1.{patch} (Claude Code)'\n",
            self.path("asked").display()
        );
        fs::write(&new, script).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).unwrap();
        fs::rename(new, program).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn questions(&self) -> usize {
        fs::read_to_string(self.path("asked")).unwrap_or_default().lines().count()
    }
}

#[tokio::test]
async fn an_answer_that_was_asked_for_ahead_counts_for_one_start() {
    let (agent, ahead) = (Agent::new(), VersionAhead::default());
    ahead.begin(&agent.plan);
    assert_eq!(ahead.answer(&agent.plan).await.unwrap().to_string(), "2.1.5");
    assert_eq!(agent.questions(), 1);
    assert_eq!(ahead.answer(&agent.plan).await.unwrap().to_string(), "2.1.5");
    assert_eq!(agent.questions(), 2, "the next start asks again");
}

#[tokio::test]
async fn a_program_that_was_replaced_meanwhile_is_asked_anew() {
    let (agent, ahead) = (Agent::new(), VersionAhead::default());
    ahead.begin(&agent.plan);
    agent.install(6);
    assert_eq!(ahead.answer(&agent.plan).await.unwrap().to_string(), "2.1.6");
}

#[tokio::test]
async fn an_answer_does_not_count_after_a_long_pause() {
    let (agent, ahead) = (Agent::new(), VersionAhead::default());
    ahead.begin(&agent.plan);
    let asked = ahead.set(None).unwrap();
    ahead.set(Some(Asked { at: Instant::now().checked_sub(COUNTS_FOR).unwrap(), ..asked }));
    ahead.answer(&agent.plan).await.unwrap();
    assert!(ahead.set(None).is_none());
}

#[tokio::test]
async fn a_program_that_is_gone_is_an_error_of_the_start_and_not_before() {
    let (agent, ahead) = (Agent::new(), VersionAhead::default());
    fs::remove_file(agent.path("agent")).unwrap();
    ahead.begin(&agent.plan);
    assert!(matches!(ahead.answer(&agent.plan).await, Err(VersionError::Start { .. })));
}

//! Scenarios recorded from OpenCode 1.18.33, replayed by each way that its events come: the notices are exactly these.
//!
//! ```text
//! 315 both XH9fhA asked permission TZY3Iy     milliseconds, who tells it (plugin, stream, both), session, what
//! ```
//!
//! The runtime's tests make these lines of the recorded JSON, and compare.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test reads its data

mod traps;
mod world;

use ccmux_policy::attention::{Rule, Rules, Step};
use world::{Way, replay};

/// As by default, with sub-agents told, too.
pub fn rules(reply_s: u64) -> Rules {
    let rule = |seconds: u64| Rule {
        steps: vec![Step { after_ms: seconds * 1000, routes: vec!["a".to_owned()] }],
        cooldown_ms: 0,
    };
    let kinds = [rule(reply_s), rule(1), rule(1), rule(0), rule(0), rule(60), rule(0)];
    Rules { kinds, dedup_ms: 2_000, focus_ms: 0, quiet: None }
}

#[track_caller]
fn check(scenario: &str, expected: &[&str]) {
    for way in [Way::Plugin, Way::Stream, Way::Both] {
        assert_eq!(replay(scenario, way, &rules(15)), expected, "{scenario} by {way:?}");
    }
}

/// Field fault 40.
#[test]
fn complete_is_told_once_a_turn() {
    check("a_complete", &["25022 ejdkHm reply rg5F77"]);
    check("a2_second_prompt", &["18120 etXTYK reply nD9PBc"]);
    check("g_queue", &["19348 DCCQok reply jIaKQN"]);
    check("h_rename_idle", &["16273 UVEL3w reply 7BW3Fh"]);
    check("l_todo", &["16066 9N0MFf reply BqPGvL"]);
    check("d_subagent", &["1698 9NyuGI subagent_reply pxYnbX", "16573 9NyuGI reply G3BcE9"]);
    let parallel = [
        "4639 RlOCug subagent_reply NWvfmA",
        "7157 RlOCug subagent_reply Y5U19Q",
        "24730 RlOCug reply ASxwSV",
    ];
    check("d_subagent_parallel", &parallel);
}

/// Field fault 40.
#[test]
fn nobody_is_told_while_a_sub_agent_runs_in_the_background() {
    let told = ["26999 QRp9D0 permission 3YE9fo", "28875 eS3n8U reply pB8hAl"];
    check("n_background_subagent", &told);
}

/// Field fault 40.
#[test]
fn escape_is_neither_an_error_nor_a_completion() {
    for scenario in ["f_abort", "f_abort_early", "f_abort_subagent", "e_http429", "e_abrupt"] {
        check(scenario, &[]);
    }
}

/// Field fault 40.
#[test]
fn an_error_is_told_once_though_it_comes_twice_and_is_idle_twice() {
    check("e_http400", &["1768 GJV3wQ failure LLaXWA"]);
    check("e_http401", &["1411 GGXH5Y failure 3sMGJa"]);
    check("e_badmodel", &["1087 83f1Ny failure w2OP6e"]);
    check("u_429_gives_up", &["60530 0KMCg2 stuck 0KMCg2", "71438 0KMCg2 failure DFzWpX"]);
}

/// Field fault 38.
#[test]
fn each_permission_is_told_and_ended_by_its_own_answer() {
    let parallel =
        ["1484 EuusRp permission qiee4W", "1543 EuusRp permission 2qccHG", "20271 EuusRp reply H1t9bd"];
    check("b_perm_parallel", &parallel);
    check("b_perm_once", &["3092 TSn1GJ permission JulVmn", "21598 TSn1GJ reply 5nS4Lg"]);
    check("b_perm_abort", &["1292 XH9fhA permission ZY3Iyz"]);
    check("b_perm_reject", &["1682 5PmzTy permission m0Iudn"]);
    check("b_perm_reject_msg", &["1632 PLnXql permission hZ1oco", "18834 PLnXql reply DShaMX"]);
    check("i_edit", &["1505 lIVgkD permission c1XdgE", "17565 lIVgkD reply WSDMzk"]);
    check("s_v2_session_global_sse", &["1951 RLDATT permission ikpXHE"]);
}

#[test]
fn a_sub_agents_permission_names_the_root() {
    let told =
        ["1399 akxHId permission q9NkJm", "5882 akxHId subagent_reply hjwtcA", "22069 akxHId reply Hot3l6"];
    check("d_subagent_perm", &told);
}

/// Field fault 39.
#[test]
fn what_is_approved_at_once_is_silent() {
    check("b_perm_always", &["19355 D1pDjI reply wuDJdZ"]);
    check("o_tui_auto_approve", &["34115 sOajup reply gMFhh6"]);
    check("p_run_auto_reject", &[]);
    check("e_toolfail", &["19048 tnNLZq reply jwAc2V"]);
}

#[test]
fn questions_are_told() {
    check("c_question", &["1865 NBjWxJ question NHbaDG", "20080 NBjWxJ reply kwUcJs"]);
    check("c_question_abort", &["1589 4Fa39r question 6qpRAs"]);
    check("c_question_reject", &["1721 NfJO7T question 1tI1tx"]);
    let session =
        ["44393 zIkMx7 question UceYcd", "77945 zIkMx7 permission 0Wzc9i", "97770 zIkMx7 reply a6pODx"];
    check("q_tui_session", &session);
}

#[test]
fn summaries_shell_commands_and_deleted_sessions_complete_nothing() {
    for scenario in ["j_summarize", "k_shell", "m_delete", "r_tui_http_injection"] {
        check(scenario, &[]);
    }
}

/// Without a threshold, and whoever sits there: one second is left for what is answered by a machine.
#[test]
fn off_means_at_once_after_a_second() {
    let told = |scenario| replay(scenario, Way::Plugin, &rules(0));
    assert_eq!(told("a_complete"), ["11022 ejdkHm reply rg5F77"]);
    assert_eq!(told("o_tui_auto_approve"), ["20115 sOajup reply gMFhh6"]);
    assert_eq!(told("n_background_subagent").len(), 2);
    assert_eq!(told("f_abort_subagent"), [""; 0]);
}

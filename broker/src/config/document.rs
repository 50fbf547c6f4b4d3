//! The table of keys in `docs/configuration.md`, made from the code so that it cannot go stale.

use super::keys::{BrokerConfig, Effect, HONOURED};
use super::others::{ACCEPTED, REFUSED};
use std::fmt::Write;

/// Everything below the introduction of `docs/configuration.md`.
pub fn markdown() -> String {
    let mut out = String::new();
    honoured(&mut out);
    refused(&mut out);
    accepted(&mut out);
    out
}

fn honoured(out: &mut String) {
    let defaults = BrokerConfig::default();
    out.push_str("## Honoured\n\n");
    out.push_str(
        "| Key | Type | Default | Online update | What it does |\n|---|---|---|---|---|\n",
    );
    for key in HONOURED {
        let default = defaults
            .get(key.name)
            .filter(|d| !d.is_empty() && key.name != "haListenPort");
        let default = default.map_or("see right".into(), |d| code(&d));
        let effect = match key.effect {
            Effect::Live => "at once",
            Effect::Restart => "next start",
        };
        line(
            out,
            &[&code(key.name), key.kind, &default, effect, key.doc.trim()],
        );
    }
}

fn refused(out: &mut String) {
    out.push_str(
        "\n## Refused\n\nOnly the value shown is accepted; any other stops the start.\n\n",
    );
    out.push_str("| Key | Only value | Why |\n|---|---|---|\n");
    for key in REFUSED {
        let default = if key.default.is_empty() {
            "empty".into()
        } else {
            code(key.default)
        };
        line(out, &[&code(key.name), &default, key.why]);
    }
    for row in [
        [
            "`brokerRole`",
            "not `SLAVE`",
            "a slave's store ends behind its master's",
        ],
        [
            "`enableDLegerCommitLog`",
            "`true`",
            "the consent to the upgrade of the store",
        ],
        [
            "`dLegerPeers`",
            "one member",
            "groups of several members come with a later version",
        ],
        [
            "`storePathCommitLog` and other paths",
            "one path",
            "a log spread over several paths is not supported",
        ],
    ] {
        line(out, &row);
    }
}

fn accepted(out: &mut String) {
    out.push_str("\n## Accepted without effect\n\nKeys of Apache RocketMQ 4.9 and 5.3 that are no mistakes. ");
    out.push_str("Each one that is given is named once at the start.\n\n");
    out.push_str("| Key | Type | What happens instead |\n|---|---|---|\n");
    for key in ACCEPTED {
        line(out, &[&code(key.name), key.kind.name(), key.instead]);
    }
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn line(out: &mut String, cells: &[&str]) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

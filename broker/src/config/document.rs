//! The table of keys in `docs/configuration.md`, made from the code so that it cannot go stale.

use super::keys::{BrokerConfig, Effect, HONOURED};
use super::others::{ACCEPTED, REFUSED};
use std::fmt::Write;

/// Everything below the introduction of `docs/configuration.md`.
pub fn markdown() -> String {
    let mut out = String::new();
    let defaults = BrokerConfig::default();
    out.push_str("## Honoured\n\n| Key | Type | Default | Online update | What it does |\n|---|---|---|---|---|\n");
    for key in HONOURED {
        let default = defaults.get(key.name).unwrap_or_default();
        let effect = match key.effect {
            Effect::Live => "at once",
            Effect::Restart => "next start",
        };
        let default = if default.is_empty() || (key.name == "haListenPort") {
            "see right".into()
        } else {
            code(&default)
        };
        line(
            &mut out,
            &[&code(key.name), key.kind, &default, effect, key.doc.trim()],
        );
    }
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
        line(&mut out, &[&code(key.name), &default, key.why]);
    }
    line(
        &mut out,
        &[
            "`brokerRole`",
            "not `SLAVE`",
            "a slave's store ends behind its master's",
        ],
    );
    line(
        &mut out,
        &[
            "`enableDLegerCommitLog`",
            "`true`",
            "the consent to the upgrade of the store",
        ],
    );
    line(
        &mut out,
        &[
            "`dLegerPeers`",
            "one member",
            "groups of several members come with a later version",
        ],
    );
    line(
        &mut out,
        &[
            "`storePathCommitLog` and other paths",
            "one path",
            "a log spread over several paths is not supported",
        ],
    );
    out.push_str("\n## Accepted without effect\n\nKeys of Apache RocketMQ 4.9 and 5.3 that are no mistakes. ");
    out.push_str("Each one that is given is named once at the start.\n\n");
    out.push_str("| Key | Type | What happens instead |\n|---|---|---|\n");
    for key in ACCEPTED {
        line(&mut out, &[&code(key.name), key.kind.name(), key.instead]);
    }
    out
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn line(out: &mut String, cells: &[&str]) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}
